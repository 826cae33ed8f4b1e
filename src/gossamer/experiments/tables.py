"""Models of public tables, all at their defaults: ours, other packages' private ones, and models without privacy.

Every run is a line of runs.jsonl, written when it has finished, so that the experiment goes on where it was cut off;
the tables of the page are made of that file alone. Other packages want environments of their own: name an interpreter
that has one by GOSSAMER_EBM_PYTHON (interpret-core), GOSSAMER_DIFFPRIVLIB_PYTHON or GOSSAMER_TORCH_PYTHON (torch,
opacus); what is not named is left out. `--data TABLE` runs one table.
"""

import json
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

from gossamer.engine.counting import BINS
from gossamer.experiments import rivals, sources
from gossamer.experiments.settings import Settings
from gossamer.experiments.sources import Task
from gossamer.experiments.table_pages import ADDITIVE, EPSILONS, LINEAR, OURS, PLAIN, TREES, write_pages
from gossamer.learn import (
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
)
from gossamer.learn._shapes import MOST_TERMS, Expansion, Warps
from gossamer.tables.kinds import Amount, Category, Number

PYTHONS = {
    "DP-EBM": "GOSSAMER_EBM_PYTHON",
    "diffprivlib": "GOSSAMER_DIFFPRIVLIB_PYTHON",
    "Opacus": "GOSSAMER_TORCH_PYTHON",
}
DELTAS = {"adult": 1e-6}
"""Where δ is not n^−1.1, n rows to train on."""
FEWEST, MOST = 3, 10
"""Seeds that every cell gets, and seeds that it gets as time allows."""
_PENALTIES = (1e-3, 1e-2, 1e-1, 1.0, 10.0)


@dataclass(frozen=True)
class Cell:
    """One run; without privacy ε is None, and for other packages the relation is their own."""

    table: str
    method: str
    relation: str | None
    epsilon: float | None
    seed: int


def delta_of(task: Task) -> float:
    """Return δ of a table."""
    return DELTAS.get(task.name, len(task.split(0)[0]) ** -1.1)


def scored(task: Task, rows: np.ndarray, scores: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Return R², or AUC (the mean over classes against the rest) and accuracy, on some rows."""
    y = task.y[rows]
    if task.is_regression:
        return {"r2": float(r2_score(y, scores))}
    areas = (
        [roc_auc_score(y == task.target[1], scores)]
        if scores.ndim == 1
        else [roc_auc_score(y == each, column) for each, column in zip(task.target, scores.T, strict=True)]
    )
    return {"auc": float(np.mean(areas)), "accuracy": float(accuracy_score(y, labels))}


def ours(task: Task, cell: Cell) -> dict[str, float]:
    """Train one of our estimators at its defaults, and score it."""
    train, test = task.split(cell.seed)
    common: dict[str, Any] = {"neighbors": cell.relation, "random_state": cell.seed}
    assert cell.epsilon is not None
    arguments = cell.epsilon, delta_of(task)
    X: Any = task.X
    if cell.method == ADDITIVE:
        kind: Any = PrivateAdditiveRegressor if task.is_regression else PrivateAdditiveClassifier
        model = kind(*arguments, **common, **task.options)
        taken: Any = X.take
    else:
        X = task.rows()
        taken = X.__getitem__
        if task.is_regression:
            low, high = task.target
            model = PrivateLinearRegression(
                *arguments, data_norm=task.row_norm, target_bound=(high - low) / 2, **common
            )
        else:
            model = PrivateLogisticRegression(*arguments, data_norm=task.row_norm, classes=task.target, **common)
    # A linear model bounds the target's absolute value: the middle of its range is public.
    middle = sum(task.target) / 2 if task.is_regression and cell.method == LINEAR else 0.0
    began, cpu = time.perf_counter(), time.process_time()
    model.fit(taken(train), task.y[train] - middle if task.is_regression else task.y[train])
    spent = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
    if task.is_regression:
        predicted = model.predict(taken(test)) + middle
        return {**spent, **scored(task, test, predicted, predicted)}
    scores = model.decision_function(taken(test))
    scores = special.softmax(scores, axis=1) if scores.ndim == 2 else scores
    return {**spent, **scored(task, test, scores, model.predict(taken(test)))}


def without_privacy(task: Task, cell: Cell) -> dict[str, float]:
    """Train without privacy: the additive model's functions with the best of five penalties, or boosted trees.

    The penalty is chosen on a fifth of the rows to train on.
    """
    train, test = task.split(cell.seed)
    began, cpu = time.perf_counter(), time.process_time()
    if cell.method == TREES:
        rows = coded(task)
        codes = [place for place, kind in enumerate(task.kinds.values()) if isinstance(kind, Category)]
        rows[:, codes] = np.where(rows[:, codes] < 0, np.nan, rows[:, codes])
        trees: Any = HistGradientBoostingRegressor if task.is_regression else HistGradientBoostingClassifier
        model = trees(categorical_features=codes, random_state=cell.seed).fit(rows[train], task.y[train])
    else:
        rows = _expanded(task, train)
        held = len(train) // 5
        develop, check = train[held:], train[:held]

        def fitted(penalty: float, on: np.ndarray) -> Any:
            build = Ridge(penalty) if task.is_regression else LogisticRegression(C=1 / penalty, max_iter=2000)
            return build.fit(rows[on], task.y[on])

        def worth(penalty: float) -> float:
            return _main(_scores_of(task, fitted(penalty, develop), rows, check))

        model = fitted(max(_PENALTIES, key=worth), train)
    spent = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
    return {**spent, **_scores_of(task, model, rows, test)}


def _expanded(task: Task, train: np.ndarray) -> np.ndarray:
    """Return all functions of the additive model, its numbers straightened by exact histograms."""
    expansion = Expansion(tuple(task.kinds.values()), MOST_TERMS)
    encoded = expansion.encode([task.X[name] for name in task.X.columns])
    smooth = expansion.smooth
    if smooth:
        counts = [np.histogram(encoded[train][:, place], BINS, (0.0, 1.0))[0] for place in smooth]
        encoded = Warps.of(np.stack(counts) / len(train), 0.0)(encoded, smooth)
    return np.asarray(_rows(expansion, jnp.asarray(encoded)), np.float64) * math.sqrt(len(task.kinds))


@partial(jax.jit, static_argnames="expansion")
def _rows(expansion: Expansion, encoded: jax.Array) -> jax.Array:
    return jax.vmap(expansion)(encoded)


def _scores_of(task: Task, model: Any, rows: np.ndarray, test: np.ndarray) -> dict[str, float]:
    labels = model.predict(rows[test])
    if task.is_regression:
        return scored(task, test, labels, labels)
    found = model.predict_proba(rows[test])
    return scored(task, test, found[:, 1] if found.shape[1] == 2 else found, labels)


def _main(scores: dict[str, float]) -> float:
    return scores.get("r2", scores.get("auc", 0.0))


def coded(task: Task) -> np.ndarray:
    """Return the table as numbers: categories by their place in their lists, −1 for none of them."""
    out = np.empty(task.X.shape)
    for place, (name, kind) in enumerate(task.kinds.items()):
        if isinstance(kind, Category):
            codes = {value: code for code, value in enumerate(kind.values)}
            out[:, place] = [codes.get(value, -1) for value in task.X[name]]
        else:
            out[:, place] = task.X[name]
    return out


def of_a_rival(task: Task, cells: list[Cell]) -> Iterator[tuple[Cell, dict[str, float]]]:
    """Train another package's model, in its own interpreter; cells differ in ε alone."""
    first = cells[0]
    train, test = task.split(first.seed)
    kinds = list(task.kinds.values())
    ranges = [
        (kind.low, kind.high) if isinstance(kind, Number) else (0.0, kind.high) if isinstance(kind, Amount) else None
        for kind in kinds
    ]
    public = {
        "epsilons": [cell.epsilon for cell in cells],
        "delta": delta_of(task),
        "seed": first.seed,
        "target": task.target if task.is_regression else None,
        "row_norm": task.row_norm,
        "ranges": ranges,
        "lists": [isinstance(kind, Category) for kind in kinds],
    }
    rows, table = task.rows(), coded(task)
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "job.npz"), Path(folder, "answer.npz")
        job = {"train_rows": rows[train], "test_rows": rows[test], "train": table[train], "test": table[test]}
        np.savez(asked, **job, y=task.y[train], public=np.array(json.dumps(public)))
        command = [os.environ[PYTHONS[first.method]], str(rivals.__file__), first.method, str(asked), str(answered)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise RuntimeError(f"{first.method} failed on {task.name}: {ran.stderr.strip()[-2000:]}")
        with np.load(answered) as answer:
            for place, cell in enumerate(cells):
                found = scored(task, test, answer[f"scores{place}"], answer[f"labels{place}"])
                yield cell, {"seconds": float(answer[f"seconds{place}"]), **found}


def groups(names: tuple[str, ...], settings: Settings) -> Iterator[list[Cell]]:
    """Yield cells that are run together, table by table: a few seeds of everything first, then the other seeds."""
    epsilons = (1.0,) if settings.quick else EPSILONS
    packages = [name for name, variable in PYTHONS.items() if os.environ.get(variable)]
    for start, stop in ((0, 1),) if settings.quick else ((0, FEWEST), (FEWEST, MOST)):
        for name in names:
            seeds = range(settings.seed + start, settings.seed + stop)
            for method in OURS:
                for relation in ("add_remove", "replace_one"):
                    yield from ([Cell(name, method, relation, epsilon, seed) for seed in seeds] for epsilon in epsilons)
            for method in packages:
                yield from ([Cell(name, method, None, epsilon, seed) for epsilon in epsilons] for seed in seeds)
            for method in PLAIN:
                yield [Cell(name, method, None, None, seed) for seed in seeds]


def wanted(task: Task, cell: Cell) -> bool:
    """Whether a run is made: without privacy, a split of its own leaves nothing to chance; census is large."""
    if cell.method == "DP-EBM" and not (task.is_regression or len(task.target) == 2):
        return False
    if task.name == "census" and (cell.seed >= FEWEST or cell.method in ("diffprivlib", "Opacus")):
        return False
    return cell.epsilon is not None or task.trained is None or cell.seed == 0


class Runs:
    """Finished runs, a line of JSON each."""

    def __init__(self, path: Path):
        self.path = path
        self.lines = read_runs(path) if path.exists() else []
        self.known = {_key(line) for line in self.lines}

    def put(self, cell: Cell, task: Task, outcome: dict[str, float]) -> None:
        """Write a run at once."""
        line: dict[str, Any] = {**cell.__dict__, "rows": len(task.split(cell.seed)[0])}
        line["delta"] = None if cell.epsilon is None else delta_of(task)
        line |= {name: float(f"{value:.6g}") for name, value in outcome.items()}
        self.lines.append(line)
        self.known.add(_key(line))
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read_runs(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of runs."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _key(line: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(line[name] for name in Cell.__dataclass_fields__)


def main(settings: Settings) -> None:
    """Make the runs that are missing, and the tables of all."""
    names = sources.NAMES if settings.data is None else (settings.data,)
    names = names[:1] if settings.quick else names
    runs = Runs(settings.out / "runs.jsonl")
    for cells in groups(names, settings):
        missing = [cell for cell in cells if _key(cell.__dict__) not in runs.known]
        if missing:
            make(missing, runs, settings.data_dir)
    write_pages(settings, runs.lines)


def make(cells: list[Cell], runs: Runs, data_dir: Path | None) -> None:
    """Make runs of one table and one method."""
    task = sources.load(cells[0].table, data_dir)
    cells = [cell for cell in cells if wanted(task, cell)]
    if cells and cells[0].method in PYTHONS:
        for cell, outcome in of_a_rival(task, cells):
            runs.put(cell, task, outcome)
        return
    for cell in cells:
        runs.put(cell, task, (ours if cell.method in OURS else without_privacy)(task, cell))
    jax.clear_caches()  # hundreds of compiled programs would use up the mappings that a process may have
