"""The application: which commands there are, and what becomes of a mistake."""

import errno
import os
from typing import Any

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


_UsageError: Any = typer.BadParameter.__mro__[1]
"""What every mistake in the words of a command is; typer does not name it."""
_REASONS = {
    errno.ENOENT: "does not exist. Check the path.",
    errno.EEXIST: "is a file where a folder is needed. Check the path.",
    errno.ENOTDIR: "cannot be: a part of this path is a file, not a folder. Check the path.",
    errno.EISDIR: "is a folder. Name a file.",
    errno.EACCES: "may not be used by you. Ask for the permission, or choose another place.",
    errno.EPERM: "may not be used by you. Ask for the permission, or choose another place.",
    errno.EROFS: "cannot be written to: the disk is read-only. Choose another place.",
    errno.ENOSPC: "cannot be written: no space left on the disk. Make room, or choose another place.",
}
"""What the operating system's errors mean for the file that they name."""


def main() -> None:
    """Run the command; a mistake in the input is one line, not a traceback."""
    try:
        code = app(standalone_mode=False)
    except _UsageError as error:
        message = " ".join(error.format_message().split())
        if message:  # else help was shown, since there were no words at all
            typer.echo(f"gossamer: {message.rstrip('.')}. See --help.", err=True)
        raise SystemExit(2) from None
    except (ValueError, TypeError, OSError, ImportError, ArithmeticError, RuntimeError) as error:
        typer.echo(f"gossamer: {_sentence(error)}", err=True)
        if isinstance(error.__cause__, KeyboardInterrupt):
            os._exit(130)  # at once: the computation goes on behind Python, which can crash when it ends in good order
        raise SystemExit(2) from None
    raise SystemExit(code)


def _sentence(error: Exception) -> str:
    """Return what an error says; of the operating system's own, what it means for the file."""
    if isinstance(error, OSError) and error.filename is not None and error.errno in _REASONS:
        return f"{error.filename} {_REASONS[error.errno]}"
    return str(error)
