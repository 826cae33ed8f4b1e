"""`gossamer plan`: what a run would ask, with how much noise, and what it would cost, before any data is read."""

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from gossamer.cli import shared
from gossamer.cli.verify import number

if TYPE_CHECKING:
    from gossamer.forecast import Cell
    from gossamer.methods import Method

_SIZES = (0.1, 1.0, 10.0)
_EPSILONS = (0.5, 1.0, 2.0, 4.0)
"""Rows and columns of the table, relative to what was asked for."""


class _Task(NamedTuple):
    """What an objective fixes before a method is chosen."""

    problem: Any
    default: "Method"
    parameters: int
    dual: int = 1
    part: float = 1.0
    """What of the budget the training gets."""


def plan(
    n: Annotated[int, typer.Option(help="Number of records.")],
    epsilon: shared.Epsilon = 1.0,
    delta: shared.Delta = None,
    objective: Annotated[
        shared.ObjectiveName | None, typer.Option(help="What to train for; logistic if there is no --method either.")
    ] = None,
    method: Annotated[shared.MethodName | None, typer.Option(help="The objective's own if not given.")] = None,
    steps: Annotated[int | None, typer.Option(help="Iterations.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of the model.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Expected size of a sample, for methods that sample.")] = None,
    clip: Annotated[float | None, typer.Option(help="Bound on one record's gradient in the model.")] = None,
    columns: Annotated[int, typer.Option(help="Columns after encoding; the model is linear, with an intercept.")] = 50,
    groups: Annotated[int, typer.Option(help="How many groups, equally large, for worst-group.")] = 2,
    neighbors: shared.Neighbors = shared.NeighborsName.REPLACE_ONE,
    table: Annotated[bool, typer.Option(help="Whether to show the noise for other n and ε too.")] = True,
    exact: Annotated[
        bool, typer.Option("--exact", help="Wait for the noise that a run takes, where a bound is quicker.")
    ] = False,
    as_json: shared.AsJson = False,
) -> None:
    """Show what a run would ask, with how much noise, and what it would cost, before any data is read.

    Noise-to-signal is √d·σ/(rate·n): the norm of the noise in one answer over d parameters, relative to the longest
    signal that there can be, when all records pull alike at the clip. Above 1, only the mean of many answers means
    anything.
    """
    from gossamer.runs.fitting import FEWEST_ROWS

    for name, value, least in (("n", n, FEWEST_ROWS), ("columns", columns, 1), ("groups", groups, 2)):
        if value < least:
            raise ValueError(f"{name} = {value} must be at least {least}.")
    from gossamer import forecast
    from gossamer.budget import Budget
    from gossamer.runs.recipe import Recipe
    from gossamer.solving import check_match

    chosen = objective or (None if method else shared.ObjectiveName.LOGISTIC)
    given = {"steps": steps, "learning_rate": learning_rate, "batch_size": batch_size, "clip": clip}
    recipe = Recipe(
        chosen.value if chosen else "logistic",
        None if method is None else method.value,
        {name: value for name, value in given.items() if value is not None},
    )

    def delta_of(size: int) -> float:
        return size**-1.1 if delta is None else delta

    def task_of(size: int) -> _Task:
        return _task(chosen, size, columns, groups)

    task = task_of(n)
    configured = recipe.configured(task.default)
    whole = Budget(epsilon, delta_of(n), neighbors.value)
    budget = Budget(task.part * whole.epsilon, task.part * whole.delta, whole.neighbors)
    if task.problem is not None:
        check_match(task.problem, configured, budget)
    with shared.warnings_as_lines():
        planned, is_bound = forecast.outline(configured, n, budget, exact)
    queries = [
        {
            **plain,
            "noise_to_signal": forecast.noise_to_signal(query, n, task.parameters, task.dual),
            "evaluations": forecast.evaluations(query, n),
        }
        for plain, query in zip(planned.schedule.to_dicts(), planned.schedule, strict=True)
    ]
    seconds = None if "BlackBox" in configured.problems else forecast.seconds(planned.schedule, n, columns)
    cells = []
    if table and whole.is_private:
        sizes = sorted({max(FEWEST_ROWS, round(factor * n)) for factor in _SIZES})
        epsilons = [factor * epsilon for factor in _EPSILONS]
        cells = forecast.table(
            lambda size: recipe.configured(task_of(size).default),
            sizes,
            epsilons,
            delta_of,
            neighbors.value,
            task.parameters,
            task.dual,
            task.part,
        )
    content: dict[str, Any] = {
        "objective": chosen and chosen.value,
        "method": type(configured).__name__,
        "n": n,
        "epsilon": number(epsilon),
        "delta": whole.delta,
        "neighbors": neighbors.value,
        "training_epsilon": number(budget.epsilon),
        "training_delta": budget.delta,
        "columns": columns,
        "parameters": task.parameters,
        "schedule": queries,
        "is_bound": is_bound,
        "evaluations": sum(query["evaluations"] for query in queries),
        "seconds": seconds,
        "table": [cell._asdict() for cell in cells],
    }
    shared.say(as_json, content, _text(content, str(planned), cells))


def _task(objective: shared.ObjectiveName | None, n: int, columns: int, groups: int) -> _Task:
    """Return what `gossamer fit` would set up for a linear model on n records, or for a method alone."""
    from gossamer import methods, objectives

    if objective is None:
        return _Task(None, methods.GD(), columns + 1)
    import numpy as np

    from gossamer.learn import auc, dro, logistic
    from gossamer.learn._buying import SHARE_OF_BUDGET
    from gossamer.models import CrossEntropy

    if objective == "logistic":
        return _Task(objectives.ERM(objectives.logistic), logistic.default_method(n), columns + 1)
    part = 1 - SHARE_OF_BUDGET  # shares of positives and of groups are bought
    if objective == "auc":  # two scalars more
        return _Task(auc._problem(0.5), auc.default_method(n, network=False), columns + 3, part=part)
    if objective == "dro":
        robust = objectives.DRO(CrossEntropy(), objectives.ChiSquare())
        start = ({"weights": np.zeros((columns, 1)), "bias": np.zeros(1)},)
        return _Task(robust, dro.default_method(n, robust, start), columns + 1)
    shares = (1 / groups,) * groups
    grouped = objectives.GroupDRO(CrossEntropy(), groups, shares, strong_concavity=1.0)
    return _Task(grouped, dro.default_grouped(n, shares, network=False), columns + 1, groups, part)


def _text(content: dict[str, Any], planned: str, cells: "list[Cell]") -> str:
    lines = [planned]
    if content["is_bound"]:
        lines.append("  the noise is a quick bound: a run takes less, at worst half of it (--exact waits for it)")
    if content["training_epsilon"] != content["epsilon"]:
        bought = "share of positives" if content["objective"] == "auc" else "shares of groups, unless they are given"
        lines.append(f"  of ε = {content['epsilon']:g} in all: the rest buys, by one more query, the {bought}")
    lines += [f"  {query['name']}: noise-to-signal {query['noise_to_signal']:.3g}" for query in content["schedule"]]
    lines[-1] += f"   (√d·σ/(rate·n), d = {content['parameters']} parameters)"
    cost = f"cost: {content['evaluations']:,.0f} gradients of one record expected, a difference counted as two; "
    if content["seconds"] is None:
        cost += "a black box: each stands for 2 values a direction, and takes as long as these do"
    else:
        cost += f"about {content['seconds']:.2g} s here once compiled ({content['columns']} columns, linear model)"
    lines.append(cost)
    if cells:
        lines += ["", f"noise multiplier of {content['schedule'][0]['name']!r} and, in brackets, noise-to-signal:"]
        epsilons = list(dict.fromkeys(cell.epsilon for cell in cells))
        lines.append(f"{'n':>12} " + "".join(f"{f'ε = {epsilon:g}':>20}" for epsilon in epsilons))
        for size in dict.fromkeys(cell.n for cell in cells):
            row = [cell for cell in cells if cell.n == size]
            lines.append(f"{size:>12} " + "".join(f"{_shown(cell):>20}" for cell in row))
        if any(cell.is_bound for cell in cells):
            lines.append("≤: a quick bound. A run takes less: by up to a quarter, or a half for samples below n/1000.")
    return "\n".join(lines)


def _shown(cell: "Cell") -> str:
    if cell.noise_multiplier is None or cell.noise_to_signal is None:
        return "-"
    return f"{'≤ ' if cell.is_bound else ''}{cell.noise_multiplier:.3g} ({cell.noise_to_signal:.2g})"
