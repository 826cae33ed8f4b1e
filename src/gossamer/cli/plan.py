"""`gossamer plan`: what a run would ask, with how much noise, and what it would cost, before any data is read."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from gossamer.cli import shared
from gossamer.cli.options import OneOf
from gossamer.cli.verify import number
from gossamer.learn._objectives import OBJECTIVES

if TYPE_CHECKING:
    from gossamer.engine.forecast import Cell, Loss
    from gossamer.methods import Method
    from gossamer.privacy.budget import Budget
    from gossamer.privacy.facts import Bought
    from gossamer.privacy.stages import Stages

_SIZES = (0.1, 1.0, 10.0)
_EPSILONS = (0.5, 1.0, 2.0, 4.0)
"""Rows and columns of the table, relative to what was asked for."""


class _Asked(NamedTuple):
    """What a plan is about: an objective's run, or a method alone."""

    objective: str | None
    training: shared.Training
    columns: int
    groups: int

    def at(self, n: int, whole: "Budget") -> "_Outline":
        """Return what a run on n records would be."""
        from gossamer import methods
        from gossamer.base import trees
        from gossamer.engine.forecast import expected_loss
        from gossamer.engine.solving import check_match
        from gossamer.engine.stages import joined
        from gossamer.privacy.stages import TRAINING, Part, Stages
        from gossamer.runs.recipe import Recipe, with_options

        name, options = self.training.method, self.training.options()
        if self.objective is None:
            known = [method.__name__ for method in methods.ALL]
            if name not in known:
                raise ValueError(f"method = {name!r} must be one of {', '.join(known)}.")
            method = with_options(getattr(methods, name)(), options)
            return _Outline(Stages((Part(TRAINING, method, 1.0),)), method, self.columns + 1, 1)
        task = Recipe(self.objective, name, options).outline(whole, n, self.columns, self.groups)
        blocks = task.problem.blocks(task.init)
        parameters, *dual = map(trees.count, blocks)
        check_match(task.problem, task.method, whole)
        method = task.method.sized(task.init)
        loss = None
        if isinstance(method, methods.Whitened) and whole.is_private:
            linear: Any = task.problem.loss
            energy = method.energy(linear, n, *task.init["weights"].shape, budget=whole)
            loss = expected_loss(energy, "R²" if OBJECTIVES[self.objective].target == "number" else "AUC")
        return _Outline(joined(task.stages()), method, parameters, dual[0] if dual else 1, loss)


class _Outline(NamedTuple):
    """What a run would be."""

    stages: "Stages"
    """All that is asked; one of them is the training, by the method."""
    method: "Method"
    parameters: int
    dual: int
    loss: "Loss | None" = None
    """What privacy is expected to cost, where the noise energy tells."""


def plan(
    *,
    n: Annotated[int, typer.Option(help="Number of records: of persons, where each may have several rows.")],
    promise: shared.Promise,
    objective: Annotated[
        str | None,
        OneOf(lambda: OBJECTIVES),
        typer.Option(help="What to train for; logistic if there is no --method either."),
    ] = None,
    training: shared.Training,
    columns: Annotated[int, typer.Option(help="Columns after encoding; the model is linear, with an intercept.")] = 50,
    groups: Annotated[int, typer.Option(help="How many groups, equally large, for worst-group.")] = 2,
    table: Annotated[bool, typer.Option(help="Whether to show the noise for other n and ε too.")] = True,
    exact: Annotated[
        bool, typer.Option("--exact", help="Wait for the exact noise of a run, where a bound is quicker.")
    ] = False,
    as_json: shared.AsJson = False,
) -> None:
    """Show what a run would ask, with how much noise, and what it would cost, before any data is read.

    For linear and additive models by their own method, it foretells how far the score will be below that of the same
    model without privacy, by measured tables. For all others there is the noise-to-signal √d·σ/(rate·n): the norm of
    the noise in one answer over d parameters, relative to the longest possible signal, when all records pull in the
    same direction at the clip. Above 1, only the mean of many answers means anything.
    """
    from gossamer.runs.fitting import FEWEST_ROWS

    for name, value, least in (("n", n, FEWEST_ROWS), ("columns", columns, 1), ("groups", groups, 2)):
        if value < least:
            raise ValueError(f"{name} = {value} must be at least {least}.")
    from gossamer.engine import forecast
    from gossamer.objectives import BlackBox
    from gossamer.privacy.budget import Budget
    from gossamer.privacy.schedule import Query

    def whole_of(size: int, epsilon: float) -> Budget:
        return Budget(epsilon, size**-1.1 if promise.delta is None else promise.delta, promise.neighbors.value)

    chosen = objective or (None if training.method else next(iter(OBJECTIVES)))
    asked, whole = _Asked(chosen, training, columns, groups), whole_of(n, promise.epsilon)
    outline = asked.at(n, whole)
    with shared.warnings_as_lines():
        planned, is_bound = forecast.outline(outline.stages, n, whole, exact)
    planned = dataclasses.replace(planned, method=outline.method)
    bought = outline.stages.purchases(n)
    trained = [query.name for query in outline.method.schedule(n)]
    # What an acute query counts is not what is learnt.
    told = next(query.name for query in outline.method.schedule(n) if not query.acute)

    def ratio(query: Query) -> float | None:
        trains = query.name in trained
        return forecast.noise_to_signal(query, n, outline.parameters, outline.dual) if trains else None

    queries = [
        {**plain, "noise_to_signal": ratio(query), "evaluations": forecast.evaluations(query, n)}
        for plain, query in zip(planned.schedule.to_dicts(), planned.schedule, strict=True)
    ]
    cells = []
    if table and whole.is_private:
        cells = forecast.table(
            lambda size: asked.at(size, whole_of(size, promise.epsilon)).stages,
            sizes=sorted({max(FEWEST_ROWS, round(factor * n)) for factor in _SIZES}),
            epsilons=[factor * promise.epsilon for factor in _EPSILONS],
            delta_of=lambda size: whole_of(size, promise.epsilon).delta,
            neighbors=promise.neighbors.value,
            parameters=outline.parameters,
            dual=outline.dual,
            query=told,
        )
    losses = [asked.at(cell.n, whole_of(cell.n, cell.epsilon)).loss if outline.loss else None for cell in cells]
    is_black_box = BlackBox in outline.method.problems
    signal, pays = (None, None)
    if whole.is_private and not is_black_box:
        signal, pays = forecast.differences_pay(n, outline.parameters, whole.epsilon)
    content: dict[str, Any] = {
        "objective": chosen,
        "method": type(outline.method).__name__,
        "n": n,
        "epsilon": number(whole.epsilon),
        "delta": whole.delta,
        "neighbors": whole.neighbors,
        "bought": {each.name: each.share for each in bought},
        "columns": columns,
        "parameters": outline.parameters,
        "schedule": queries,
        "is_bound": is_bound,
        "evaluations": sum(query["evaluations"] for query in queries),
        "seconds": None if is_black_box else forecast.seconds(planned.schedule, n, columns),
        "expected_loss": None if outline.loss is None else outline.loss._asdict(),
        "table": [
            {**cell._asdict(), "expected_loss": None if loss is None else loss.about}
            for cell, loss in zip(cells, losses, strict=True)
        ],
        "signal": None if signal is None else number(signal),
        "differences_pay": pays,
    }
    lines = [str(planned), *_notes(content, bought, outline.loss), *_table_lines(told, cells, losses)]
    shared.say(as_json, content, "\n".join(lines))


def _notes(content: dict[str, Any], bought: "tuple[Bought, ...]", loss: "Loss | None") -> list[str]:
    lines = []
    if content["is_bound"]:
        lines.append("  the noise is a quick upper bound: a run needs less, at best half of it (--exact computes it)")
    lines += [
        f"  {100 * each.share:g} % of the budget buys the {each.name}, {when} the training"
        for each in bought
        for when in ("after" if each.after else "before",)
    ]
    if loss is not None:
        about, low, high = (f"{each:.1g}" for each in loss[1:])
        lines.append(
            f"expect an {loss.score} about {about} below that of the same model without privacy: {low} to {high} on "
            "about 8 of 10 measured tables (tables.md)"
        )
    else:
        lines += [
            f"  {query['name']}: noise-to-signal {query['noise_to_signal']:.3g}"
            for query in content["schedule"]
            if query["noise_to_signal"] is not None
        ]
        lines[-1] += f"   (√d·σ/(rate·n), d = {content['parameters']} parameters)"
    cost = f"cost: {content['evaluations']:,.0f} gradients of one record expected, a difference counted as two; "
    if content["seconds"] is None:
        cost += "for a black box, each is 2 values of the loss in every direction, and takes as long as they do"
    else:
        cost += f"about {content['seconds']:.2g} s here once compiled ({content['columns']} columns, linear model)"
    return [*lines, cost, *_differences(content)]


def _differences(content: dict[str, Any]) -> list[str]:
    """Say which kind of method the measured boundary favours, where ε is finite."""
    if content["signal"] is None:
        return []
    favoured = {
        True: "differences (Spider, SVRG) beat SGD",
        False: "SGD is ahead of differences (Spider, SVRG)",
        None: "it depends on the condition number whether differences (Spider, SVRG) beat SGD",
    }[content["differences_pay"]]
    return [
        f"measured on quadratics: {favoured} at a signal 4nε/d^1.5 of {content['signal']:.2g} (variance-reduction.md)"
    ]


def _table_lines(query: str, cells: "list[Cell]", losses: "list[Loss | None]") -> list[str]:
    if not cells:
        return []
    what = "noise-to-signal" if losses[0] is None else f"the {losses[0].score} that privacy is expected to cost"
    lines = ["", f"noise multiplier of {query!r} and, in brackets, {what}:"]
    epsilons = list(dict.fromkeys(cell.epsilon for cell in cells))
    lines.append(f"{'n':>12} " + "".join(f"{f'ε = {epsilon:g}':>20}" for epsilon in epsilons))
    for size in dict.fromkeys(cell.n for cell in cells):
        row = [(cell, loss) for cell, loss in zip(cells, losses, strict=True) if cell.n == size]
        lines.append(f"{size:>12} " + "".join(f"{_shown(cell, loss):>20}" for cell, loss in row))
    if any(cell.is_bound for cell in cells):
        lines.append(
            "≤: a quick upper bound. A run needs less: up to a quarter less, or half for samples below n/1000."
        )
    return lines


def _shown(cell: "Cell", loss: "Loss | None") -> str:
    if cell.noise_multiplier is None or cell.noise_to_signal is None:
        return "-"
    beside = f"{cell.noise_to_signal:.2g}" if loss is None else f"{loss.about:.1g}"
    return f"{'≤ ' if cell.is_bound else ''}{cell.noise_multiplier:.3g} ({beside})"
