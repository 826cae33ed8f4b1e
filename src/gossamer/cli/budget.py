"""`gossamer budget`: what a table may still cost."""

import math
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli import shared
from gossamer.privacy.budget_file import Amount, BudgetFile

app = typer.Typer(no_args_is_help=True, help="Keep what all runs on a table cost together within one budget.")


@app.command()
def init(
    epsilon: Annotated[float, typer.Option(help="ε that all runs together may cost.")],
    delta: Annotated[float, typer.Option(help="δ that all runs together may cost.")],
    data: Annotated[Path, typer.Option(help="The table. Its contents count, not its name.")],
    file: Annotated[Path | None, typer.Option(help="Where to make the budget file; TABLE.budget if not given.")] = None,
    neighbors: shared.Neighbors = shared.NeighborsName.REPLACE_ONE,
    person: Annotated[
        str | None, typer.Option(help="The column of ids, if every run is to protect persons, and not rows.")
    ] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Make the budget file of a table, for `gossamer fit --budget`; it is as secret as the table."""
    path = file or data.with_name(f"{data.name}.budget")
    made = BudgetFile.create(path, epsilon, delta, neighbors.value, data, person)
    _say(made, as_json)


@app.command()
def show(
    file: Annotated[Path | None, typer.Argument(help="A budget file; by default the only *.budget here.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Show what was granted, what was taken and what is left."""
    _say(BudgetFile(file or _only_one()), as_json)


def _only_one() -> Path:
    found = sorted(Path().glob("*.budget"))
    if len(found) != 1:
        names = f": {', '.join(map(str, found))}" if found else ""
        raise ValueError(f"{len(found)} files here are called *.budget{names}. Name one: gossamer budget show FILE.")
    return found[0]


def _say(file: BudgetFile, as_json: bool) -> None:
    grant, entries, left = file.grant(), file.entries(), file.remaining()
    content: dict[str, Any] = {
        "file": str(file.path),
        "neighbors": grant.neighbors,
        "unit": grant.unit,
        "created": grant.time,
        "granted": _numbers(grant.amount),
        "left": _numbers(left),
        "taken": [
            {"id": entry.id, **_numbers(entry.amount), "what": entry.what, "time": entry.time} for entry in entries
        ],
    }
    lines = [
        f"{file.path}: neighbors = {grant.neighbors}, for each {grant.unit}, created {grant.time}",
        f"granted  {grant.amount}",
        *(f"taken    {entry.amount}   {entry.time}  {entry.what!r}" for entry in entries),
        f"left     {left}",
    ]
    shared.say(as_json, content, "\n".join(lines))


def _numbers(amount: Amount) -> dict[str, float]:
    return {"epsilon": _floor(amount.epsilon), "delta": _floor(amount.delta)}


def _floor(value: Decimal) -> float:
    """Return the nearest number that is not above: whoever asks for what is left is not refused for a rounding."""
    number = float(value)
    return number if Decimal(repr(number)) <= value else math.nextafter(number, 0.0)
