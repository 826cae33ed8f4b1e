"""Options and words that several commands share."""

import contextlib
import json
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gossamer.cli.options import OneOf
from gossamer.learn._objectives import OBJECTIVES, all_methods

if TYPE_CHECKING:
    from gossamer.tables.table import Table


class NeighborsName(StrEnum):
    """What neighbouring tables are."""

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"


def _above_zero(epsilon: float) -> float:
    """Refuse an ε that is none before anything is read."""
    if not epsilon > 0:
        raise ValueError(
            f"epsilon = {epsilon} must be a number above 0. Typical values are 0.1 to 10; inf trains without privacy."
        )
    return epsilon


Neighbors = Annotated[NeighborsName, typer.Option(help="Which tables count as neighbours.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Objective = Annotated[str, OneOf(lambda: OBJECTIVES), typer.Option(help="What to train for.")]
HOW = "How to train"
_BATCH_SIZE = "Expected size of a sample, for methods that sample."


@dataclass(frozen=True)
class Promise:
    """What a run promises."""

    epsilon: Annotated[float, typer.Option(help="ε of the guarantee; inf: no privacy.", callback=_above_zero)] = 1.0
    delta: Annotated[float | None, typer.Option(help="δ of the guarantee; n ** -1.1 if not given.")] = None
    neighbors: Neighbors = NeighborsName.REPLACE_ONE


@dataclass(frozen=True)
class Reading:
    """How a table is read."""

    encoding: Annotated[
        str | None, typer.Option(help="Of a text table. If not given: UTF-8, or UTF-16 with a byte-order mark.")
    ] = None
    delimiter: Annotated[
        str | None, typer.Option(help="Between the columns of a text table; detected if not given.")
    ] = None
    decimal: Annotated[str, typer.Option(help="The decimal mark in a text table: . or ,")] = "."

    def read(self, path: Path) -> "Table":
        """Read a table."""
        from gossamer.tables.reading import read_table

        return read_table(path, encoding=self.encoding, delimiter=self.delimiter, decimal=self.decimal)


def _methods() -> str:
    """Return which methods can train for what."""
    return "; ".join(f"{', '.join(names)}: {', '.join(methods)}" for methods, names in all_methods().items())


@dataclass(frozen=True)
class Training:
    """The method, and its settings."""

    method: Annotated[
        str | None,
        typer.Option(
            help=f"A name in gs.methods; the objective's own method if not given. For {_methods()}.",
            rich_help_panel=HOW,
        ),
    ] = None
    steps: Annotated[int | None, typer.Option(help="Iterations.", rich_help_panel=HOW)] = None
    learning_rate: Annotated[float | None, typer.Option(help="Of the model.", rich_help_panel=HOW)] = None
    clip: Annotated[
        float | None, typer.Option(help="Bound on one record's gradient in the model.", rich_help_panel=HOW)
    ] = None
    batch_size: Annotated[int | None, typer.Option(help=_BATCH_SIZE, rich_help_panel=HOW)] = None

    def options(self) -> dict[str, float]:
        """Return the settings that were given."""
        return {name: value for name, value in vars(self).items() if name != "method" and value is not None}


def say(as_json: bool, content: dict[str, Any], text: str) -> None:
    """Print a result for people, or the same for programs."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) if as_json else text)


def note(remarks: Iterable[str]) -> None:
    """Tell the owner of a table something, one line each on the error stream."""
    for remark in remarks:
        typer.echo(f"gossamer: note: {remark}", err=True)


def require_writable(option: str, path: Path) -> None:
    """Refuse a file that exists, or that could not be made, before anything is spent on what shall be in it."""
    if path.exists():
        raise ValueError(f"{option} {path} exists. Choose another name: nothing is overwritten.")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OSError(
            f"{option} {path} cannot be written: {error.strerror}. Name a file in a folder that exists."
        ) from None


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show warnings as one line each on the error stream, without the place in the code, which is ours."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: Any) -> None:
        if str(message) not in shown:
            shown.add(str(message))
            typer.echo(f"gossamer: warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show  # type: ignore[assignment]  # the rest of its arguments is not shown
        yield
