"""The table that `gossamer fit` trains on when it is given none: public, and bundled with scikit-learn."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from gossamer.tables.kinds import Number
from gossamer.tables.schema import Declaration, Schema
from gossamer.tables.table import Table, TableBuilder


class Demo(NamedTuple):
    """Records to train on, records to test with, and what is public about them."""

    train: Table
    test: Table
    schema: Schema


def breast_cancer() -> Demo:
    """Return scikit-learn's breast-cancer table, a quarter of it held out; its bounds are those of its description."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    from gossamer.datasets.tables import breast_cancer_bounds

    bunch = load_breast_cancer()
    labels = np.array(bunch.target_names, str)[bunch.target]
    names = tuple(map(str, bunch.feature_names))
    bounds = breast_cancer_bounds(bunch.DESCR)
    columns = {
        name: Declaration(Number(float(low), float(high))) for name, (low, high) in zip(names, bounds, strict=True)
    }
    # Which rows are tested is not secret; the seed of the split has nothing to do with the noise.
    train, test = train_test_split(np.arange(len(labels)), test_size=0.25, stratify=labels, random_state=0)

    def part(rows: np.ndarray) -> Table:
        builder = TableBuilder("the breast-cancer table", (*names, "diagnosis"))
        fields: Iterable[list[str]] = [[repr(float(value)) for value in column] for column in bunch.data[rows].T]
        builder.add([*fields, labels[rows].tolist()])
        return builder.table()

    return Demo(part(train), part(test), Schema("diagnosis", ("benign", "malignant"), columns))
