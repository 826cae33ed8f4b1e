"""Rows from lines of text, with a bound on their norm that no line can break."""

import math

import numpy as np
import pytest

from gossamer.datasets.encoding import Encoding, Share
from gossamer.tables.kinds import Amount, Category

ENCODING = Encoding(
    names=("age", "weight", "gain", "colour"),
    blocks={"age": Share(10, 90), "gain": Amount(999), "colour": Category(("red", "green", "blue"))},
    labels={"no": 0, "yes": 1},
)


def test_each_field_becomes_what_its_block_says():
    table = ENCODING.table(["30, 7, 99, green, yes", "90, 7, 0, ?, no"], "a file")
    assert table.X.dtype == np.float32
    np.testing.assert_allclose(table.X, [[0.25, 2 / 3, 1, 0, 1, 0], [1, 0, 0, 0, 0, 0]], rtol=1e-6)
    assert table.y.tolist() == [1, 0]
    assert table.classes == (0, 1)
    assert ENCODING.columns == {"age": slice(0, 1), "gain": slice(1, 3), "colour": slice(3, 6)}


def test_no_line_exceeds_the_bound_and_one_attains_it():
    lines = ["1e30, 1, 1e30, red, no", "-1e30, 1, -1e30, unheard of, no", "50, 1, 3.5, blue, yes"]
    table = ENCODING.table(lines, "a file")
    norms = np.linalg.norm(table.X.astype(np.float64), axis=1)
    assert table.row_norm == math.sqrt(1 + 2 + 1)
    assert norms[0] == table.row_norm
    assert norms[1] == 0
    assert norms[2] < table.row_norm


def test_a_row_does_not_depend_on_the_others():
    rng = np.random.default_rng(0)
    lines = [
        f"{age}, 1, {gain}, {colour}, {label}"
        for age, gain, colour, label in zip(
            rng.integers(0, 100, 1200),
            rng.integers(0, 2000, 1200),
            rng.choice(["red", "green", "blue", "?"], 1200),
            rng.choice(["yes", "no"], 1200),
            strict=True,
        )
    ]
    table = ENCODING.table(lines, "a file")
    for i in (0, 511, 512, 1024, 1199):  # also where pieces meet
        alone = ENCODING.table([lines[i]], "a file")
        np.testing.assert_array_equal(table.X[i], alone.X[0])
        assert table.y[i] == alone.y[0]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "a file has no rows"),
        (["30, 7, 9, red, no", "30, 7, 9"], "a file: row 2 has 3 fields, expected 5"),
        (["old, 7, 9, red, no"], "a file: 'age' has a value that is not a finite number"),
        (["30, 7, nan, red, no"], "a file: 'gain' has a value that is not a finite number"),
        (["30, 7, inf, red, no"], "a file: 'gain' has a value that is not a finite number"),
        (["30, 7, 9, red, maybe"], r"a file: a label is 'maybe', not one of \['no', 'yes'\]"),
    ],
)
def test_a_line_that_does_not_fit_is_refused(lines, message):
    with pytest.raises(ValueError, match=message):
        ENCODING.table(lines, "a file")
