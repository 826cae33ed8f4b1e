"""Options and words that several commands share."""

import contextlib
import json
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class MethodName(StrEnum):
    """Methods that the command line offers."""

    GD = "GD"
    SGD = "SGD"
    SVRG = "SVRG"
    SVRGPP = "SVRGpp"
    ACCMD = "AccMD"
    SPIDER = "Spider"
    STO_SPIDER = "StoSpider"
    ADA_SPIDER = "AdaSpider"
    SGDA = "SGDA"
    PRIVATE_DIFF = "PrivateDiff"
    RGDA = "RGDA"
    DOUBLE_SPIDER = "DoubleSpider"
    RECURSIVE_SPIDER = "RecursiveSpider"
    O2NC = "O2NC"


class NeighborsName(StrEnum):
    """What neighbouring tables are."""

    REPLACE_ONE = "replace_one"
    ADD_REMOVE = "add_remove"


class ObjectiveName(StrEnum):
    """What a model is trained for."""

    LOGISTIC = "logistic"
    AUC = "auc"
    DRO = "dro"
    WORST_GROUP = "worst-group"


def _above_zero(epsilon: float) -> float:
    """Refuse an ε that is none before anything is read."""
    if not epsilon > 0:
        raise ValueError(
            f"epsilon = {epsilon} must be a number above 0. Typical values are 0.1 to 10; inf trains without privacy."
        )
    return epsilon


Epsilon = Annotated[float, typer.Option(help="ε of the guarantee; inf: no privacy.", callback=_above_zero)]
Delta = Annotated[float | None, typer.Option(help="δ of the guarantee; n ** -1.1 if not given.")]
Neighbors = Annotated[NeighborsName, typer.Option(help="Which tables count as neighbours.")]
Seed = Annotated[int | None, typer.Option(help="Fixes the noise: for tests only.")]
Encoding = Annotated[str | None, typer.Option(help="Of a text table; UTF-8, or UTF-16 with a mark, if not given.")]
Delimiter = Annotated[str | None, typer.Option(help="Between the fields of a text table; found out if not given.")]
Decimal = Annotated[str, typer.Option(help="What stands before the decimals in a text table: . or ,")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


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
