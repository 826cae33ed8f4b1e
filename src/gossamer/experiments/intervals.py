"""How often 95 % intervals of coefficients cover: many simulated tables, each fitted once with `intervals=True`.

A table has three columns or eight, among them one of 0 and 1 and two that go together. Labels follow a logistic model,
and targets a linear one whose errors grow with a column, so that only a sandwich has their variance. Rows are within
`data_norm` and targets within `target_bound`, so that the coefficients that the tables were drawn with are what is to
be covered. Beside the intervals, as a control, are those of who knows of the sampling but not of the noise.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from gossamer.engine.intervals import INTERVALS, estimate
from gossamer.engine.stages import solve_stages
from gossamer.experiments.cache import Cache
from gossamer.experiments.outputs import write_table
from gossamer.experiments.settings import Settings
from gossamer.learn import PrivateLinearRegression, PrivateLogisticRegression

EPSILON = 1.0
AT_ONCE = 25
"""Tables that are one line of the file of runs."""
_INTERCEPT = -0.4
_TARGET_BOUND = 5.0


class Cell(NamedTuple):
    """One row of the table."""

    model: str
    columns: int
    n: int
    tables: int


CELLS = (
    *(Cell(model, 3, n, 500) for n in (3000, 20_000, 100_000) for model in ("logistic", "linear")),
    *(Cell("logistic", 8, n, 100) for n in (3000, 20_000)),
)
QUICK = (Cell("logistic", 3, 3000, AT_ONCE),)


def drawn(cell: Cell, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, targets, and the coefficients they were drawn with, the intercept last."""
    rng = np.random.default_rng((seed, cell.n, cell.columns, len(cell.model)))
    rows = rng.uniform(-1, 1, (cell.n, cell.columns))
    rows[:, 1] = rows[:, 1] > 0
    rows[:, 2] = 0.3 * rows[:, 0] + 0.7 * rows[:, 2]
    truth = np.append(np.resize([1.0, -1.5, 0.5, 0.0], cell.columns), _INTERCEPT)
    scores = rows @ truth[:-1] + truth[-1]
    if cell.model == "logistic":
        return rows, (rng.uniform(size=cell.n) < special.expit(scores)).astype(int), truth
    errors = rng.uniform(-1, 1, cell.n) * (0.5 + np.abs(rows[:, 0]))
    return rows, scores + errors, truth


def model_of(cell: Cell, seed: int) -> Any:
    """Return the estimator; all of its bounds hold for all tables."""
    common: dict[str, Any] = {"data_norm": float(np.sqrt(cell.columns)), "intervals": True, "random_state": seed}
    if cell.model == "logistic":
        return PrivateLogisticRegression(EPSILON, classes=[0, 1], threshold=0.5, **common)
    return PrivateLinearRegression(EPSILON, target_bound=_TARGET_BOUND, **common)


def measured(cell: Cell, first: int) -> dict[str, Any]:
    """Return how many of the intervals of so many tables cover, for each coefficient, and how wide they are."""
    covered, without, widths = [], [], []
    for seed in range(first, first + AT_ONCE):
        rows, targets, truth = drawn(cell, seed)
        model = model_of(cell, seed)
        task = model.pose(rows, targets)
        answers = solve_stages(task.stages(), cell.n, model.budget(cell.n), seed=seed, progress=False).answers
        seen = answers[INTERVALS]
        found, bare = (estimate({**seen, "noise": knows * seen["noise"]}, cell.n) for knows in (1, 0))
        if found is None or bare is None:
            continue
        model._take(answers, cell.n)
        ends = np.vstack([model.coef_interval_, model.intercept_interval_])
        reach = np.diff(ends)[:, 0] / 2
        narrower = [bare.deviations[name] / found.deviations[name] for name in ("weights", "intercept")]
        off = np.abs(ends.mean(axis=1) - truth)
        covered.append(off <= reach)
        without.append(off <= reach * np.hstack(narrower))
        widths.append(2 * reach)
    return {
        "resolved": len(covered),
        "covered": np.sum(covered, axis=0, dtype=int).tolist(),
        "without": np.sum(without, axis=0, dtype=int).tolist(),
        "width": [] if not widths else np.median(widths, axis=0).round(4).tolist(),
    }


def main(settings: Settings) -> None:
    """Run what is not in runs.jsonl yet, and write the table of all."""
    cache = Cache(settings.out / "runs.jsonl")
    cells = QUICK if settings.quick else CELLS
    for cell in cells:
        for batch in range(cell.tables // AT_ONCE):
            run = _run(cell, settings.seed, batch)
            if cache.get(run) is None:
                cache.put(run, **measured(cell, 1_000_000 * settings.seed + batch * AT_ONCE))
    write(settings, cells, settings.out / "runs.jsonl")


def write(settings: Settings, cells: tuple[Cell, ...], path: Path) -> None:
    """Write the table of the runs in a file."""
    cache = Cache(path)
    rows = []
    for cell in cells:
        lines = [cache.get(_run(cell, settings.seed, batch)) for batch in range(cell.tables // AT_ONCE)]
        found = [line for line in lines if line is not None]
        told = [line for line in found if line["resolved"]]
        tables, resolved = AT_ONCE * len(found), sum(line["resolved"] for line in found)
        row: list[Any] = [cell.model, cell.columns, cell.n, tables, resolved]
        if not told:
            rows.append([*row, *[None] * 5])
            continue
        covered, without = (np.array([line[name] for line in told]) for name in ("covered", "without"))
        each = covered.sum(axis=0) / resolved
        of_line = covered.mean(axis=1) / [line["resolved"] for line in told]
        error = of_line.std(ddof=1) / np.sqrt(len(told)) if len(told) > 1 else None
        bare = without.mean(axis=1).sum() / resolved
        width = np.median([line["width"] for line in told], axis=0)[:-1].mean()
        rows.append([*row, each.mean(), error, f"{each.min():.3f} to {each.max():.3f}", width, bare])
    head = ["model", "columns", "n", "tables", "resolved", "coverage", "standard error", "of each coefficient"]
    write_table(
        settings.out / "intervals",
        "Coverage of 95 % intervals of coefficients",
        [*head, "width", "coverage without the noise term"],
        rows,
        settings.command("intervals"),
        notes=[
            f"ε = {EPSILON:g}, δ = n^−1.1, replace-one; half of the budget trains. Coverage is the mean over all "
            "coefficients and the intercept, of the tables whose curvature was resolved; elsewhere there are no "
            f"intervals. Its standard error is from groups of {AT_ONCE} tables.",
            "Width: of a coefficient's interval on the scale of its column, medians, their mean over coefficients.",
            "The last column is the control: the same middle, and the sampling's variance alone.",
        ],
    )


def _run(cell: Cell, seed: int, batch: int) -> list[Any]:
    return [cell.model, cell.columns, cell.n, seed, batch]
