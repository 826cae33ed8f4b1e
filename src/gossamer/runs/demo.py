"""The table that `gossamer fit` trains on when it is given none: public, and bundled with scikit-learn."""

from typing import NamedTuple

import numpy as np

from gossamer.tables.encoding import Declaration
from gossamer.tables.kinds import Number
from gossamer.tables.schema import Schema
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

    from gossamer.datasets.labelled import breast_cancer_bounds

    bunch = load_breast_cancer()
    labels = np.array(bunch.target_names, str)[bunch.target]
    names = tuple(map(str, bunch.feature_names))
    columns = {
        name: Declaration(Number(float(low), float(high)))
        for name, (low, high) in zip(names, breast_cancer_bounds(bunch.DESCR), strict=True)
    }
    # Which rows are tested is not secret; the seed of the split has nothing to do with the noise.
    parts = train_test_split(np.arange(len(labels)), test_size=0.25, stratify=labels, random_state=0)
    train, test = (
        _table("the breast-cancer table", (*names, "diagnosis"), bunch.data[rows], labels[rows].tolist())
        for rows in parts
    )
    return Demo(train, test, Schema("diagnosis", ("benign", "malignant"), columns))


_DIABETES = {
    **{"age": (18, 100), "sex": (1, 2), "bmi": (10, 60), "bp": (40, 160), "s1": (50, 400), "s2": (10, 300)},
    **{"s3": (10, 120), "s4": (1, 12), "s5": (3, 7), "s6": (40, 200)},
}
"""What is possible for age, sex, body mass index, blood pressure and six blood serum measurements."""


def diabetes() -> Demo:
    """Return scikit-learn's diabetes table, a quarter of it held out, to predict how the disease progresses."""
    from sklearn.datasets import load_diabetes
    from sklearn.model_selection import train_test_split

    bunch = load_diabetes(scaled=False)
    parts = train_test_split(np.arange(len(bunch.target)), test_size=0.25, random_state=0)
    train, test = (
        _table("the diabetes table", (*_DIABETES, "progression"), bunch.data[rows], _texts(bunch.target[rows]))
        for rows in parts
    )
    columns = {name: Declaration(Number(*bounds)) for name, bounds in _DIABETES.items()}
    return Demo(train, test, Schema("progression", (), columns, target_range=(0, 400)))


def _table(source: str, names: tuple[str, ...], data: np.ndarray, target: list[str]) -> Table:
    builder = TableBuilder(source, names)
    builder.add([*map(_texts, data.T), target])
    return builder.table()


def _texts(values: np.ndarray) -> list[str]:
    return [repr(float(value)) for value in values]
