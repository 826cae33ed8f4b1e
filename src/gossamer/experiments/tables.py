"""Estimators at their defaults on public tables: the harness for what docs/tables.md says was tried.

Ranges are round numbers that a person who knows the column would give; lists of categories are those of the files'
documentation. Tables named in `DEVELOPMENT` are those on which the rules of `gossamer.methods.whitened` were settled.
"""

import csv
import gzip
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

from gossamer.datasets.files import locate
from gossamer.learn import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from gossamer.privacy.budget import Neighbors
from gossamer.tables.kinds import Amount


@dataclass(frozen=True)
class Source:
    """A table in a file: what is public about its columns. Columns without bounds are categories.

    Args:
      file: its name, without `.csv.gz`.
      bounds: of numbers and amounts; None: all columns are numbers from 0 to 1.
      target: the label that counts as positive, None for many classes, or the range of a number.
      drop: columns that are not used.
    """

    file: str
    bounds: Mapping[str, Any] | None
    target: str | tuple[float, float] | None
    drop: tuple[str, ...] = ()


SOURCES = {
    "german": Source(
        "german_credit",
        {
            "duration": (0, 72),
            "amount": (0, 20_000),
            "installment_rate": (1, 4),
            "residence_since": (1, 4),
            "age": (18, 80),
            "existing_credits": (1, 4),
            "people_liable": (1, 2),
        },
        "2",
    ),
    "communities": Source("communities_crime", None, (0.0, 1.0)),
    "bank": Source(
        "bank_marketing",
        {
            "age": (18, 95),
            "balance": (-5000, 50_000),
            "day": (1, 31),
            "campaign": (1, 50),
            "pdays": (-1, 900),
            "previous": (0, 30),
        },
        "yes",
        ("duration",),
    ),
    "spambase": Source(
        "spambase",
        {
            **{f"x{i}": Amount(100) for i in range(1, 55)},
            "x55": Amount(1000),
            "x56": Amount(10_000),
            "x57": Amount(20_000),
        },
        "1",
    ),
    "pendigits": Source("pendigits", {f"x{i}": (0, 100) for i in range(1, 17)}, None),
    "magic": Source(
        "magic_telescope",
        {
            "fLength": (0, 350),
            "fWidth": (0, 260),
            "fSize": (1.5, 5.5),
            "fConc": (0, 1),
            "fConcl": (0, 0.7),
            "fAsym": (-450, 550),
            "fM3Long": (-330, 230),
            "fM3Trans": (-200, 180),
            "fAlpha": (0, 90),
            "fDist": (0, 500),
        },
        "g",
    ),
    "randhie": Source(
        "randhie",
        {
            "income": (0, 30_000),
            "age": (0, 65),
            "educdec": (0, 25),
            "family_size": (1, 14),
            "mhi": (0, 100),
            "disea": (0, 60),
            "physlm": (0, 1),
            "ghindx": (0, 100),
            "coins": (0, 100),
            "year": (1, 5),
        },
        "yes",
        ("person",),
    ),
    "california": Source(
        "california_housing",
        {
            "MedInc": (0, 15),
            "HouseAge": (0, 52),
            "AveRooms": (0, 50),
            "AveBedrms": (0, 15),
            "Population": (0, 20_000),
            "AveOccup": (0, 50),
            "Latitude": (32, 42),
            "Longitude": (-125, -114),
        },
        (0.0, 5.0),
    ),
    "credit": Source(
        "credit_default",
        {
            "LIMIT_BAL": (0, 1e6),
            "AGE": (18, 80),
            **{f"PAY_{i}": (-2, 8) for i in (0, 2, 3, 4, 5, 6)},
            **{f"BILL_AMT{i}": (-2e5, 1e6) for i in range(1, 7)},
            **{f"PAY_AMT{i}": Amount(1e6) for i in range(1, 7)},
        },
        "1",
    ),
    "diamonds": Source(
        "diamonds",
        {"carat": (0, 5), "depth": (40, 80), "table": (40, 95), "x": (0, 11), "y": (0, 11), "z": (0, 7)},
        (0.0, 20_000.0),
    ),
}
DEVELOPMENT = tuple(SOURCES)
"""All of these: settings were chosen with their scores in view."""


class Columns:
    """Named columns, as much of a DataFrame as an estimator needs."""

    def __init__(self, columns: dict[str, np.ndarray]):
        self._columns, self.columns = columns, list(columns)
        self.shape = (len(next(iter(columns.values()))), len(columns))

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]

    def __len__(self) -> int:
        return self.shape[0]

    def take(self, rows: np.ndarray) -> "Columns":
        """Return some of the rows."""
        return Columns({name: values[rows] for name, values in self._columns.items()})


@dataclass(frozen=True, eq=False)
class Task:
    """A table, ready for an estimator."""

    X: Columns
    y: np.ndarray
    options: dict[str, Any]
    """What is public: bounds, categories, classes or the range of the target."""

    @property
    def is_regression(self) -> bool:
        """Whether the target is a number."""
        return "target_bounds" in self.options


@lru_cache(maxsize=4)
def load(name: str, data_dir: Path | None = None) -> Task:
    """Return a table of `SOURCES`, from `data_dir/tables`. A missing number is the lowest that there may be."""
    source = SOURCES[name]
    path = locate(data_dir, f"tables/{source.file}.csv.gz", url=None, sha256=None)
    with gzip.open(path, "rt") as file:
        header, *rows = csv.reader(file)
    fields = dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
    target = fields.pop(header[-1])
    columns, bounds, categories = {}, {}, {}
    for column, values in fields.items():
        if column in source.drop:
            continue
        if source.bounds is not None and column not in source.bounds:
            columns[column] = np.array(values, object)
            categories[column] = sorted(set(values))
            continue
        bounds[column] = (0, 1) if source.bounds is None else source.bounds[column]
        lowest = 0.0 if isinstance(bounds[column], Amount) else float(bounds[column][0])
        columns[column] = np.array([float(value) if value else lowest for value in values])
    options: dict[str, Any] = {"bounds": bounds, "categories": categories}
    if isinstance(source.target, tuple):
        return Task(Columns(columns), np.array(target, float), {**options, "target_bounds": source.target})
    y = np.array(target) if source.target is None else (np.array(target) == source.target).astype(int)
    return Task(Columns(columns), y, {**options, "classes": sorted(set(y.tolist()))})


def halves(n: int, seed: int, share: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows to train on and those to test with, by a random order of its own for each seed."""
    order = np.random.default_rng(1000 + seed).permutation(n)
    return order[: int(share * n)], order[int(share * n) :]


def run(task: Task, epsilon: float, neighbors: Neighbors, seed: int, delta: float | None = None) -> dict[str, float]:
    """Train an additive model at its defaults on 70 % of the rows and score it on the others."""
    train, test = halves(len(task.X), seed)
    model: Any = PrivateAdditiveRegressor if task.is_regression else PrivateAdditiveClassifier
    began = time.perf_counter()
    fitted = model(epsilon, delta, neighbors=neighbors, random_state=seed, **task.options).fit(
        task.X.take(train), task.y[train]
    )
    return {"seconds": time.perf_counter() - began, **scores(task, fitted, test)}


def scores(task: Task, fitted: Any, rows: np.ndarray) -> dict[str, float]:
    """Return R², or AUC (of two classes) and accuracy, on some rows."""
    X, y = task.X.take(rows), task.y[rows]
    if task.is_regression:
        return {"r2": float(r2_score(y, fitted.predict(X)))}
    found = {"accuracy": float(accuracy_score(y, fitted.predict(X)))}
    if len(task.options["classes"]) == 2:
        found["auc"] = float(roc_auc_score(y, fitted.decision_function(X)))
    return found
