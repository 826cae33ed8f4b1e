"""From runs on tables to the tables of the page: scores, accuracies, and who is ahead."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from gossamer.experiments import sources
from gossamer.experiments.outputs import write_table
from gossamer.experiments.settings import Settings

EPSILONS = (0.1, 0.5, 1.0, 4.0, 8.0)
ADDITIVE, LINEAR, OPTIMUM, TREES = "additive", "linear", "additive, no privacy", "boosted trees, no privacy"
OURS, PLAIN = (ADDITIVE, LINEAR), (OPTIMUM, TREES)
EBM = "DP-EBM"
LARGE = 10_000
"""From how many rows to train on an additive model at ε = 4 should be near that without privacy."""
Runs = Sequence[dict[str, Any]]
Cell = tuple[str, str, str | None, float | None]
"""Table, method, relation and ε."""
Cells = dict[Cell, list[dict[str, Any]]]
_RELATIONS = {"add_remove": "add/remove", "replace_one": "replace-one", None: "its own"}
_DEVELOPED = (
    "Rules of ours were settled with scores on these tables in view, so their figures flatter a little: "
    f"{', '.join(sources.DEVELOPMENT)} (the first version of the rule with Adult's test rows in view, later choices on "
    "parts of its training rows). No rule was settled on "
    f"{', '.join(name for name in sources.NAMES if name not in sources.DEVELOPMENT)}."
)


def cells_of(runs: Runs) -> Cells:
    """Return the runs of each table, method, relation and ε."""
    found: Cells = defaultdict(list)
    for run in runs:
        found[run["table"], run["method"], run["relation"], run["epsilon"]].append(run)
    return dict(found)


def measure(run: dict[str, Any]) -> str:
    """Return the name of the score that counts."""
    return "r2" if "r2" in run else "auc"


def paired(cells: Cells, one: Cell, other: Cell) -> tuple[float, float] | None:
    """Return the mean scores of two cells over the seeds that both have, None if there are none.

    Of a table with a split of its own the models without privacy have one seed, which stands for all.
    """
    scores = [{run["seed"]: run[measure(run)] for run in cells.get(cell, [])} for cell in (one, other)]
    if len(scores[1]) == 1 < len(scores[0]) and other[3] is None:
        scores[1] = dict.fromkeys(scores[0], *scores[1].values())
    seeds = scores[0].keys() & scores[1].keys()
    return tuple(float(np.mean([of[seed] for seed in seeds])) for of in scores) if seeds else None  # type: ignore[return-value]


def write_pages(settings: Settings, runs: Runs) -> None:
    """Write all tables."""
    cells = cells_of(runs)
    command = settings.command("tables")
    _write_scores(settings, cells, "Models of tables: AUC, or R² of regressions")
    _write_scores(settings, cells, "Models of tables: accuracy", "accuracy")
    rows, notes = against_ebm(cells)
    columns = ["table", *(f"ε = {epsilon:g}" for epsilon in EPSILONS)]
    write_table(settings.out / "against", "Ahead of DP-EBM by", columns, rows, command=command, notes=notes)
    columns = ["table", "rows", "ε = 4", "without privacy", "difference"]
    write_table(
        settings.out / "optimum",
        "Our additive model at ε = 4, add/remove, and that without privacy",
        columns,
        near_optimum(cells),
        command=command,
        notes=[f"Tables with {LARGE} rows or more to train on. A positive difference: what privacy costs."],
    )


def _write_scores(settings: Settings, cells: Cells, title: str, score: str | None = None) -> None:
    rows = []
    for table in sources.NAMES:
        found = {cell: of for cell, of in cells.items() if cell[0] == table and (score is None or score in of[0])}
        for method, relation in dict.fromkeys((cell[1], cell[2]) for cell in sorted(found, key=_order)):
            of = [cells.get((table, method, relation, epsilon), []) for epsilon in (*EPSILONS, None)]
            seeds = {len(each) for each in of if each}
            every = [run for each in of for run in each]
            rows.append(
                [
                    table,
                    method,
                    "" if method in PLAIN else _RELATIONS[relation],
                    *(_told([run[score or measure(run)] for run in each]) for each in of),
                    "/".join(map(str, sorted(seeds))),
                    float(np.median([run["seconds"] for run in every])),
                ]
            )
    columns = ["table", "method", "relation", *(f"ε = {epsilon:g}" for epsilon in EPSILONS), "∞", "seeds", "seconds"]
    command = settings.command("tables")
    write_table(settings.out / (score or "scores"), title, columns, rows, command=command, notes=_NOTES)


_NOTES = [
    "Means over seeds ± their standard error. For each seed 70 % of the rows train and 30 % score, in another order; "
    "Adult and census have a split of their own, so that seeds differ in the noise alone.",
    "δ = n^−1.1 for n rows to train on; 1e-6 for Adult. Several classes: the mean AUC of each against the rest.",
    "additive, linear: ours, with all settings at their defaults. Other packages are at their own defaults and have "
    "their own relation: DP-EBM add/remove; diffprivlib δ = 0 and replace-one; Opacus add/remove, with 10 epochs of "
    "batches of 256 at rate 0.5 and threshold 1, since it has no defaults for them.",
    "All are told the same ranges and lists of values. DP-EBM has no model for several classes.",
    "Without privacy: the functions of our additive model with the best of five penalties, by a fifth of the training "
    "rows; scikit-learn's boosted trees at their defaults.",
    "Seconds: the median of one fit, one thread on a machine that did other work; compiling is in the first of ours.",
    _DEVELOPED,
]


def _order(cell: Cell) -> tuple[int, str]:
    names = [*OURS, EBM, "diffprivlib", "Opacus", *PLAIN]
    return names.index(cell[1]), cell[2] or ""


def _told(values: list[float]) -> str | None:
    if not values:
        return None
    error = "" if len(values) < 2 else f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.4f}"
    return f"{np.mean(values):.4f}{error}"


def against_ebm(cells: Cells) -> tuple[list[list[Any]], list[str]]:
    """Return by how much our additive model, add/remove, is ahead in each cell; and how often."""
    rows: list[list[Any]] = []
    for table in sources.NAMES:
        pairs = [
            paired(cells, (table, ADDITIVE, "add_remove", epsilon), (table, EBM, None, epsilon)) for epsilon in EPSILONS
        ]
        ahead = [None if pair is None else pair[0] - pair[1] for pair in pairs]
        if any(each is not None for each in ahead):
            rows.append([table, *ahead])
    notes = ["AUC, or R²: our additive model less DP-EBM, both add/remove, means over the seeds that both have."]
    for title, names in (
        ("On the tables of development", [name for name in sources.NAMES if name in sources.DEVELOPMENT]),
        ("On the other tables", [name for name in sources.NAMES if name not in sources.DEVELOPMENT]),
    ):
        of = [each for row in rows if row[0] in names for each in row[1:] if each is not None]
        notes.append(f"{title}: ahead in {sum(each > 0 for each in of)} of {len(of)} cells.")
    return rows, [*notes, _DEVELOPED]


def near_optimum(cells: Cells) -> list[list[Any]]:
    """Return our additive model at ε = 4 and the one without privacy, for large tables."""
    rows = []
    for table in sources.NAMES:
        found = paired(cells, (table, ADDITIVE, "add_remove", 4.0), (table, OPTIMUM, None, None))
        if found is None:
            continue
        own, best = found
        n = cells[table, OPTIMUM, None, None][0]["rows"]
        if n >= LARGE:
            rows.append([table, n, own, best, best - own])
    return rows
