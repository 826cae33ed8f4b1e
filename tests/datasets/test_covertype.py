"""Covertype, from a tiny file in the same form."""

import gzip
import math

import numpy as np
import pytest

from gossamer import datasets

LOWEST = [1010, 0, 0, 0, -1000, 0, 0, 0, 0, 0]
HIGHEST = [4401, 360, 90, 2000, 1000, 10_000, 255, 255, 255, 10_000]
BEYOND = [9000, 400, 90, 9000, 9000, 90_000, 255, 255, 255, 90_000]


def row(quantities, wilderness=0, soil=0, cover=2):
    return [*quantities, *np.eye(4, dtype=int)[wilderness], *np.eye(40, dtype=int)[soil], cover]


def write(tmp_path, rows):
    (tmp_path / "covertype").mkdir(exist_ok=True)
    text = "".join(",".join(map(str, r)) + "\n" for r in rows)
    (tmp_path / "covertype" / "covtype.data.gz").write_bytes(gzip.compress(text.encode()))


def test_rows_are_scaled_permuted_and_split(tmp_path):
    middle = [(low + high) // 2 for low, high in zip(LOWEST, HIGHEST, strict=True)]
    rows = [row(LOWEST, 0, 0, 1), row(middle, 1, 5, 2), row(HIGHEST, 2, 39, 7), row(BEYOND, 3, 1, 2)]
    write(tmp_path, rows)
    split = datasets.covertype(tmp_path, train_rows=3)
    assert split.train.X.shape == (3, 54)
    assert split.test.X.shape == (1, 54)
    X, y = (np.concatenate(parts) for parts in zip(split.train[:2], split.test[:2], strict=True))
    assert X.dtype == np.float32
    order = np.argsort(X[:, 10:14] @ np.arange(4))  # the wilderness area tells which row it was
    np.testing.assert_allclose(X[order, :10], np.outer([0, 0.5, 1, 1], np.ones(10)), atol=0.005)
    assert X[order, 14:].argmax(axis=1).tolist() == [0, 5, 39, 1]
    assert y[order].tolist() == [0, 1, 0, 1]
    assert split.train.row_norm == math.sqrt(12)
    assert np.linalg.norm(X[order[3]].astype(np.float64)) == split.train.row_norm
    again = datasets.covertype(tmp_path, train_rows=3)
    np.testing.assert_array_equal(again.train.X, split.train.X)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([row(LOWEST)[:-1]] * 2, "has 54 columns, expected 55"),
        ([row(LOWEST), row(LOWEST)[:-3]], "could not be read as whole numbers"),
        ([row(LOWEST, cover=8)] * 2, "cover types outside 1 to 7"),
        ([row(LOWEST), [*LOWEST, 1, 1, 0, 0, *row(LOWEST)[14:]]], "wilderness areas are not exactly one"),
        ([row(LOWEST), [*row(LOWEST)[:14], *[0] * 40, 2]], "soil types are not exactly one"),
        ([row(LOWEST)] * 2, "train_rows = 200000 must be at least 1 and below the 2 rows"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, rows, message):
    write(tmp_path, rows)
    with pytest.raises(ValueError, match=message):
        datasets.covertype(tmp_path)
