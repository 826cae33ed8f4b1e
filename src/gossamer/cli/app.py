"""The application: which commands there are, and what becomes of a mistake."""

import typer

from gossamer.cli.fit import fit
from gossamer.cli.plan import plan
from gossamer.cli.reproduce import reproduce
from gossamer.cli.verify import verify

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Private training beyond DP-SGD: a model, and a certificate of what was promised.",
)
for command in (fit, plan, verify, reproduce):
    app.command()(command)


def main() -> None:
    """Run the command; a mistake in the input is one line, not a traceback."""
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError) as error:
        typer.echo(f"gossamer: {error}", err=True)
        raise SystemExit(2) from None
