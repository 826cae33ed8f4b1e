"""Bounds that are declared, bought, or read from the data: what they cost in AUC, on raw tables, at ε = 1, δ = 1e-6.

    GOSSAMER_DATA=... python benchmarks/preparing.py TABLE [SEED ...]     adds runs to docs/preparing/runs.jsonl
    python benchmarks/preparing.py                                        prints their table

Logistic regression with its default method, replace-one. Adult has a test part; of other tables a random 70 % train.

    declared   public numbers, chosen without the records: from the survey's form, or what is possible at all
    bought     nothing is declared, not even the classes: no leaks on the certificate
    leaked     the 1st and 99th percentile of the training records, and all values that occur in them: NOT private
"""

import csv
import gzip
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import gossamer as gs
from gossamer.learn import PrivateLogisticRegression
from gossamer.tables import Category, Ignore, Number
from gossamer.tables.frames import table_from_frame

RUNS = Path(__file__).parents[1] / "docs" / "preparing" / "runs.jsonl"
ADULT = [
    *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship"),
    *("race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
]
ZERO_ONE = (0, 1)
DECLARED: dict[str, dict[str, tuple[float, float]]] = {
    "adult": {
        "age": (0, 90),
        "fnlwgt": (0, 1_500_000),
        "education-num": (1, 16),
        "capital-gain": (0, 99_999),
        "capital-loss": (0, 9_999),
        "hours-per-week": (0, 99),
    },
    "credit_default": {
        "LIMIT_BAL": (0, 1_000_000),
        "AGE": (18, 100),
        "SEX": (1, 2),
        **{f"PAY_{month}": (-2, 9) for month in (0, 2, 3, 4, 5, 6)},
        **{f"BILL_AMT{month}": (-1_000_000, 1_000_000) for month in range(1, 7)},
        **{f"PAY_AMT{month}": (0, 1_000_000) for month in range(1, 7)},
        **{f"EDUCATION_{code}": ZERO_ONE for code in range(7)},
        **{f"MARRIAGE_{code}": ZERO_ONE for code in range(4)},
    },
    "magic_telescope": {
        **dict.fromkeys(("fLength", "fWidth", "fDist"), (0, 500)),
        "fSize": (0, 10),
        **dict.fromkeys(("fConc", "fConcl"), ZERO_ONE),
        **dict.fromkeys(("fAsym", "fM3Long", "fM3Trans"), (-500, 500)),
        "fAlpha": (0, 90),
    },
    "bank_marketing": {
        "age": (18, 100),
        "balance": (-100_000, 100_000),
        "day": (1, 31),
        "campaign": (0, 100),
        "pdays": (-1, 1000),
        "previous": (0, 100),
    },
    "german_credit": {
        "duration": (0, 120),
        "amount": (0, 100_000),
        "installment_rate": (1, 4),
        "residence_since": (1, 4),
        "age": (18, 100),
        "existing_credits": (1, 10),
        "people_liable": (0, 10),
    },
    "spambase": {
        **{f"x{i}": (0, 100) for i in range(1, 55)},
        "x55": (0, 1_000),
        "x56": (0, 10_000),
        "x57": (0, 100_000),
    },
}
LEFT_OUT = {"bank_marketing": ("duration",)}
"""Known only after the call that is to be predicted."""
WAYS = ("declared", "bought", "leaked")


class Frame(dict):
    """Columns by their names: what a DataFrame is to an estimator."""

    columns = property(list)
    dtypes = property(lambda self: [object] * len(self))

    def __getitem__(self, name: str) -> "Values":
        return Values(super().__getitem__(name))

    def __len__(self) -> int:
        return super().__len__() and len(next(iter(self.values())))


class Values(list):
    """A column."""

    def to_list(self) -> list:
        """Return its values."""
        return list(self)


def load(name: str) -> tuple[Frame, np.ndarray, Frame, np.ndarray]:
    """Return raw records and targets, to train and to test."""
    folder = Path(os.environ["GOSSAMER_DATA"])
    if name == "adult":
        parts = [_rows(folder / "adult" / f"adult.{part}.gz") for part in ("data", "test")]
        (X, y), (X_test, y_test) = (_split(ADULT, [row for row in rows if len(row) == len(ADULT)]) for rows in parts)
        return X, y, X_test, np.char.rstrip(y_test, ".")
    header, *rows = _rows(folder / "tables" / f"{name}.csv.gz")
    order = np.random.default_rng(0).permutation(len(rows))
    cut = int(0.7 * len(rows))
    return (
        *_split(header, [rows[i] for i in order[:cut]], LEFT_OUT.get(name, ())),
        *_split(header, [rows[i] for i in order[cut:]], LEFT_OUT.get(name, ())),
    )


def _rows(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt") as file:
        return [[cell.strip() for cell in row] for row in csv.reader(file, skipinitialspace=True)]


def _split(names: list[str], rows: list[list[str]], left_out: tuple[str, ...] = ()) -> tuple[Frame, np.ndarray]:
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    target = np.array(columns.pop(names[-1]))
    return Frame({name: list(values) for name, values in columns.items() if name not in left_out}), target


def kinds(way: str, name: str, X: Frame) -> Any:
    """Return what an estimator is told of the columns."""
    if way == "bought":
        return "auto"
    table, found = table_from_frame(X), {}
    for column in X.columns:
        numbers = table[column].numbers()[table[column].codes]
        if column not in DECLARED[name]:
            found[column] = Category(tuple(sorted(table[column].values))) if table[column].values else Ignore()
        elif way == "declared":
            found[column] = Number(*DECLARED[name][column])
        else:
            low, high = np.nanquantile(numbers, [0.01, 0.99])
            found[column] = Number(float(low), float(max(high, low + 1e-6)))
    return found


def run(name: str, way: str, seed: int) -> dict[str, Any]:
    """Train once and return what came out."""
    X, y, X_test, y_test = load(name)
    labels = sorted(set(y.tolist()))
    model = PrivateLogisticRegression(
        epsilon=1.0,
        delta=1e-6,
        columns=kinds(way, name, X),
        classes=None if way == "bought" else labels,
        random_state=seed,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", gs.PrivacyLeakWarning)
        try:
            model.fit(X, y)
        except ValueError as error:
            return {"table": name, "way": way, "seed": seed, "n": len(y), "refused": str(error)}
    scores = model.decision_function(X_test)
    return {
        "table": name,
        "way": way,
        "seed": seed,
        "n": len(y),
        "columns": len(X.columns),
        "auc": float(roc_auc_score(y_test == labels[-1], scores)),
        "leaks": len(model.certificate_.leaks),
        "verified": bool(model.certificate_.verify()),
        "method": model.certificate_.method,
    }


def show() -> None:
    """Print the table of all runs so far, in Markdown."""
    runs = [json.loads(line) for line in RUNS.read_text().splitlines()]
    print("| table | n | columns | declared | bought | leaked |\n|---|---|---|---|---|---|")
    for name in dict.fromkeys(each["table"] for each in runs):
        own = [each for each in runs if each["table"] == name]
        cells = []
        for way in WAYS:
            found = [each["auc"] for each in own if each["way"] == way and "auc" in each]
            refused = any("refused" in each for each in own if each["way"] == way)
            cells.append(_cell(found) if found else "refused: too few records" if refused else "")
        print(f"| {name} | {own[0]['n']} | {own[0].get('columns', '')} | {' | '.join(cells)} |")


def _cell(values: list[float]) -> str:
    spread = f" [{min(values):.4f}, {max(values):.4f}]" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{spread}"


if __name__ == "__main__":
    if len(sys.argv) == 1:
        show()
    else:
        RUNS.parent.mkdir(exist_ok=True)
        for seed in map(int, sys.argv[2:] or ["0"]):
            for way in WAYS:
                with RUNS.open("a") as file:
                    print(json.dumps(run(sys.argv[1], way, seed)), file=file)
