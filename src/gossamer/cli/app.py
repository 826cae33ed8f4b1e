"""The application: which commands there are, and what becomes of a mistake."""

import os

import typer

from gossamer.cli import budget
from gossamer.cli.audit import audit
from gossamer.cli.bench import bench
from gossamer.cli.fit import fit
from gossamer.cli.plan import plan
from gossamer.cli.predict import predict
from gossamer.cli.report import report
from gossamer.cli.reproduce import reproduce
from gossamer.cli.schema import schema
from gossamer.cli.verify import verify

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Private training beyond DP-SGD: a model, and a certificate of what was promised.",
)
for command in (fit, predict, schema, audit, plan, verify, report, reproduce, bench):
    app.command()(command)
app.add_typer(budget.app, name="budget")


def main() -> None:
    """Run the command; a mistake in the input is one line, not a traceback."""
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError, ArithmeticError, RuntimeError) as error:
        typer.echo(f"gossamer: {error}", err=True)
        if isinstance(error.__cause__, KeyboardInterrupt):
            os._exit(130)  # at once: the computation goes on behind Python, which can crash when it ends in good order
        raise SystemExit(2) from None
