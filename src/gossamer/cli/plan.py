"""`gossamer plan`: what a run would ask and with how much noise, before any data is read."""

import dataclasses
import json
from typing import Annotated

import typer

from gossamer.cli import shared


def plan(
    n: Annotated[int, typer.Option(help="Number of records.")],
    epsilon: shared.Epsilon = 1.0,
    delta: shared.Delta = None,
    method: Annotated[shared.MethodName, typer.Option(help="Which method.")] = shared.MethodName.SGD,
    steps: Annotated[int | None, typer.Option(help="Iterations.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Expected size of a sample, for methods that sample.")] = None,
    clip: Annotated[float | None, typer.Option(help="Bound on one record's gradient.")] = None,
    neighbors: shared.Neighbors = shared.NeighborsName.REPLACE_ONE,
    as_json: shared.AsJson = False,
) -> None:
    """Show what a method would ask and with how much noise, before any data is read."""
    import gossamer as gs

    kind = getattr(gs.methods, method.value)
    given = {"steps": steps, "batch_size": batch_size, "clip": clip}
    given = {name: value for name, value in given.items() if value is not None}
    unknown = sorted(set(given) - {field.name for field in dataclasses.fields(kind)})
    if unknown:
        raise ValueError(f"{method.value} has no {' and no '.join(unknown)}. Leave the option out.")
    configured = kind(**given)
    budget = gs.Budget(epsilon, n**-1.1 if delta is None else delta, neighbors.value)
    planned = gs.plan(configured, n, budget)
    if as_json:
        content = {
            "method": method.value,
            "n": n,
            "epsilon": epsilon,
            "delta": budget.delta,
            "neighbors": neighbors.value,
            "schedule": planned.schedule.to_dicts(),
        }
        typer.echo(json.dumps(content, indent=2))
    else:
        typer.echo(str(planned))
