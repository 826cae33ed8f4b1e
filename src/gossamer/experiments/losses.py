"""What privacy costs a model of a table, against the noise energy that is known before any record is read.

The runs are those of `gossamer reproduce tables`: for each table, relation and ε, the score of our additive model and
of the same model without privacy. A line in logarithms, loss = a·E^b, is fitted to the tables of development, with a
band that eight in ten of their cells are in; the others check it. `gossamer plan` foretells by it (`engine.forecast`).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gossamer import objectives
from gossamer.engine.forecast import Curve
from gossamer.experiments import sources
from gossamer.experiments.outputs import write_table
from gossamer.experiments.settings import Settings
from gossamer.experiments.table_pages import ADDITIVE, EPSILONS, OPTIMUM, Cells, cells_of, paired
from gossamer.experiments.tables import delta_of, read_runs
from gossamer.learn import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from gossamer.methods import Whitened

_SMALLEST = 1e-3
"""A loss that is smaller counts as this: below it, splits and seeds decide."""
_COLUMNS = ("table", "role", "score", "relation", "epsilon", "noise energy", "loss")


def rows_of(cells: Cells, data_dir: Path | None) -> list[list[Any]]:
    """Return the noise energy and the loss of every cell that has run, with and without privacy."""
    rows: list[list[Any]] = []
    for name in sources.NAMES:
        found = {
            (relation, epsilon): paired(cells, (name, ADDITIVE, relation, epsilon), (name, OPTIMUM, None, None))
            for relation in ("add_remove", "replace_one")
            for epsilon in EPSILONS
        }
        if not any(found.values()):
            continue
        task = sources.load(name, data_dir)
        n, role = len(task.split(0)[0]), "development" if name in sources.DEVELOPMENT else "check"
        kind: Any = PrivateAdditiveRegressor if task.is_regression else PrivateAdditiveClassifier
        outputs = 1 if task.is_regression or len(task.target) == 2 else len(task.target)
        loss = objectives.squared if task.is_regression else objectives.logistic if outputs == 1 else objectives.softmax
        for (relation, epsilon), pair in found.items():
            if pair is None:
                continue
            model = kind(epsilon, delta_of(task), neighbors=relation)
            width = model.expansion(n, tuple(task.kinds.values())).width
            energy = Whitened.energy(loss, n, width, outputs, budget=model.budget(n))
            score = "R²" if task.is_regression else "AUC"
            rows.append([name, role, score, relation, epsilon, energy, pair[1] - pair[0]])
    return rows


def fitted(rows: Sequence[Sequence[Any]], score: str) -> Curve:
    """Return the curve of one score by the tables of development."""
    energies, losses = _logarithms([row for row in rows if row[1] == "development" and row[2] == score])
    power, at_one = np.polyfit(energies, losses, 1)
    low, high = np.quantile(losses - power * energies - at_one, [0.1, 0.9])
    return Curve(*(float(f"{value:.2g}") for value in (10**at_one, power, 10**low, 10**high)))


def inside(rows: Sequence[Sequence[Any]], role: str, score: str, curve: Curve) -> np.ndarray:
    """Return, for each cell, −1, 0 or 1: its loss is below, in or above the band."""
    energies, losses = _logarithms([row for row in rows if row[1] == role and row[2] == score])
    off = losses - np.log10(curve.scale) - curve.power * energies
    return (off > np.log10(curve.high)).astype(int) - (off < np.log10(curve.low))


def _logarithms(rows: Sequence[Sequence[Any]]) -> tuple[np.ndarray, np.ndarray]:
    energies, losses = np.array([[row[5], max(row[6], _SMALLEST)] for row in rows]).T
    return np.log10(energies), np.log10(losses)


def main(settings: Settings) -> None:
    """Write the table of all cells, with the curves and how often they are right."""
    path = settings.out.parent / "tables" / "runs.jsonl"
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. `gossamer reproduce tables --out {path.parent}` makes it.")
    rows = rows_of(cells_of(read_runs(path)), settings.data_dir)
    notes = [
        "Loss: the score of the additive model without privacy less that of ours, means over the seeds that both have. "
        "Noise energy: by public numbers, as `gossamer plan` knows them.",
    ]
    for score in ("AUC", "R²"):
        curve = fitted(rows, score)
        notes.append(
            f"{score}: about {curve.scale:g}·E^{curve.power:g}; the band is {curve.low:g} to {curve.high:g} times that."
        )
        for role in ("development", "check"):
            places = inside(rows, role, score, curve)
            notes.append(
                f"{score}, tables of {role}: {np.sum(places == 0)} of {len(places)} cells are in the band, "
                f"{np.sum(places > 0)} above it."
            )
    title = "What privacy costs our additive model, against its noise energy"
    write_table(settings.out / "losses", title, _COLUMNS, rows, command=settings.command("forecast"), notes=notes)
