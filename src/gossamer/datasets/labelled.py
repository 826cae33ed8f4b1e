"""What a data set is here, and a small one that needs no file."""

import re
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from sklearn.datasets import load_breast_cancer

Part = TypeVar("Part")


class LabelledTable(NamedTuple):
    """Rows scaled by public bounds, labels, and what is public about them."""

    X: np.ndarray
    y: np.ndarray
    row_norm: float
    """A public bound on the norm of a row."""
    classes: tuple[int, ...]


class Split(NamedTuple, Generic[Part]):
    """Records to train on and records to test with."""

    train: Part
    test: Part


def breast_cancer() -> LabelledTable:
    """Return scikit-learn's breast-cancer table (569 rows, 30 columns), every column scaled to [−1, 1].

    The scaling uses the table of smallest and largest values in the data set's own description, which has been
    public for decades; nothing is read from the records themselves.
    """
    bunch = load_breast_cancer()
    low, high = breast_cancer_bounds(bunch.DESCR).T
    X = np.clip(2 * (bunch.data - low) / (high - low) - 1, -1, 1)
    return LabelledTable(X, bunch.target, float(np.sqrt(X.shape[1])), (0, 1))


def breast_cancer_bounds(description: str) -> np.ndarray:
    """Return the smallest and largest value of each of the 30 columns, as the data set's description says."""
    found = re.findall(r"\):\s+([\d.]+)\s+([\d.]+)", description)
    if len(found) != 30:
        raise RuntimeError("the description of the breast-cancer table has changed; its bounds were not found")
    return np.array([(float(low), float(high)) for low, high in found])
