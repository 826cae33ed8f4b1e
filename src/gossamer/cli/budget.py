"""`gossamer budget`: what a table may still cost."""

import math
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli import shared
from gossamer.privacy.budget_file import Amount, BudgetFile
from gossamer.privacy.facts import scope_of

app = typer.Typer(no_args_is_help=True, help="Keep what all runs on a table cost together within one budget.")


@app.command()
def init(
    epsilon: Annotated[float, typer.Option(help="ε that all runs together may cost.")],
    delta: Annotated[float, typer.Option(help="δ that all runs together may cost.")],
    data: Annotated[Path, typer.Option(help="The table. Its contents count, not its name.")],
    file: Annotated[Path | None, typer.Option(help="Where to make the budget file; TABLE.budget if not given.")] = None,
    neighbors: shared.Neighbors = shared.NeighborsName.REPLACE_ONE,
    aside_epsilon: Annotated[
        float | None, typer.Option(help="A part of ε for what is known by ε and δ alone (not needed by most runs).")
    ] = None,
    aside_delta: Annotated[float | None, typer.Option(help="The part of δ that goes with it.")] = None,
    person: Annotated[
        str | None, typer.Option(help="The column of ids, if every run is to protect persons, and not rows.")
    ] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Make the budget file of a table, for `gossamer fit --budget`; it is as secret as the table."""
    if (aside_epsilon is None) != (aside_delta is None):
        raise ValueError("--aside-epsilon and --aside-delta go together: give both, or neither.")
    aside = None if aside_epsilon is None or aside_delta is None else (aside_epsilon, aside_delta)
    path = file or data.with_name(f"{data.name}.budget")
    made = BudgetFile.create(path, epsilon, delta, neighbors.value, data, aside=aside, unit=scope_of(person))
    _say(made, as_json)


@app.command()
def migrate(
    file: Annotated[Path | None, typer.Argument(help="A budget file; by default the only *.budget here.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Bring a file of Gossamer 0.1 to this version's format, in which what is left takes more runs."""
    found = BudgetFile(file or _only_one())
    found.migrate()
    _say(found, as_json)


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
    grant, entries, left, more = file.grant(), file.entries(), file.remaining(), file.more_like_the_last()
    pooled = grant.pools.is_enveloped
    content: dict[str, Any] = {
        "file": str(file.path),
        "neighbors": grant.neighbors,
        "unit": grant.unit,
        "created": grant.time,
        "granted": {"epsilon": _floor(grant.amount.epsilon), "delta": _floor(grant.amount.delta)},
        "pools": _numbers(grant.pools),
        "left": _numbers(left),
        "more_like_the_last": more,
        "taken": [
            {"id": entry.id, **_numbers(entry.amount), "what": entry.what, "time": entry.time} for entry in entries
        ],
    }
    lines = [
        f"{file.path}: neighbors = {grant.neighbors}, for each {grant.unit}, created {grant.time}",
        f"granted  {grant.amount}",
        *(f"taken    {entry.amount}   {entry.time}  {entry.what!r}" for entry in entries),
        f"left     {f'{_percent(left, grant.pools)} of ' * pooled}{grant.pools if pooled else left}",
        *_in_words(file, more, pooled),
    ]
    shared.say(as_json, content, "\n".join(lines))


def _in_words(file: BudgetFile, more: int | None, pooled: bool) -> list[str]:
    """Return what is left as somebody would say it."""
    if more is None:
        return []
    room = {0: "no more runs like the last one", 1: "one more run like the last one"}
    lines = [f"         {room.get(more, f'about {more} more runs like the last one')}"]
    if pooled:
        lines.append(
            f"         so far all runs together cost epsilon = {file.spent_epsilon():.3g} at the granted delta"
        )
    return lines


def _percent(left: Amount, pools: Amount) -> str:
    return f"{100 * float(left.variance / pools.variance):.3g} %"


def _numbers(amount: Amount) -> dict[str, float]:
    return {name: _floor(value) for name, value in amount._asdict().items()}


def _floor(value: Decimal) -> float:
    """Return the nearest number that is not above: whoever asks for what is left is not refused for a rounding."""
    number = float(value)
    return number if Decimal(repr(number)) <= value else math.nextafter(number, 0.0)
