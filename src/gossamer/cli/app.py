"""The application: which commands there are, and what becomes of a mistake."""

import os
import sys
from typing import Any

import typer

from gossamer.cli import budget, evidence
from gossamer.cli.audit import audit
from gossamer.cli.bench import bench
from gossamer.cli.draft import schema
from gossamer.cli.explain import explain
from gossamer.cli.fit import fit
from gossamer.cli.mistakes import sentence
from gossamer.cli.options import AloneOrFile, Command
from gossamer.cli.plan import plan
from gossamer.cli.predict import predict
from gossamer.cli.report import report
from gossamer.cli.reproduce import reproduce
from gossamer.cli.verify import DAMAGED, verify

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Private training beyond DP-SGD: a model, and a certificate of what was promised.",
)
app.command(cls=AloneOrFile)(Command(fit))
for command in (predict, explain, schema, audit, plan, verify, report, reproduce, bench):
    app.command()(Command(command))
for more in (evidence.sign, evidence.prove_table):
    app.command()(more)
app.add_typer(budget.app, name="budget")
app.add_typer(evidence.app, name="key")


_UsageError: Any = typer.BadParameter.__mro__[1]
"""What every mistake in the words of a command is; typer does not name it."""


def main() -> None:
    """Run the command; a mistake in the input is one line, not a traceback."""
    # What could not be verified must not look like a certificate that holds with reservations.
    mistake = DAMAGED if sys.argv[1:2] == ["verify"] else 2
    try:
        code = app(standalone_mode=False)
    except _UsageError as error:
        message = " ".join(error.format_message().split())
        if message:  # else help was shown, since there were no words at all
            typer.echo(f"gossamer: {message.rstrip('.')}. See --help.", err=True)
        raise SystemExit(mistake) from None
    except (ValueError, TypeError, OSError, ImportError, ArithmeticError, RuntimeError) as error:
        typer.echo(f"gossamer: {sentence(error)}", err=True)
        if isinstance(error.__cause__, KeyboardInterrupt):
            os._exit(130)  # at once: the computation goes on behind Python, which can crash when it ends in good order
        raise SystemExit(mistake) from None
    raise SystemExit(code)
