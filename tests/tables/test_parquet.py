"""Parquet files give the table that a CSV of the same values gives."""

import datetime
import decimal
import sys

import numpy as np
import pytest

from gossamer.tables import read_table


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(ImportError, match=r"pip install 'gossamer\[parquet\]'"):
        read_table(tmp_path / "a.parquet")


@pytest.fixture
def write(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")

    def written(columns):
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table(columns), path)
        return path

    return written


def test_every_plain_type_becomes_text(write):
    pa = pytest.importorskip("pyarrow")
    table = read_table(
        write(
            {
                "text": ["a", None, " b "],
                "whole": [1, None, -(2**62)],
                "real": [0.1, float("nan"), 1e300],
                "round": [1.0, None, 2.0],
                "half": pa.array([0.1, None, 2.0], pa.float32()),
                "truth": [True, False, None],
                "date": [datetime.date(2026, 1, 31), None, None],
                "coded": pa.array(["x", None, "x"]).dictionary_encode(),
                "money": [decimal.Decimal("1.50"), None, None],
                "nothing": pa.nulls(3),
            }
        )
    )
    expected = {
        "text": ["a", None, "b"],
        "whole": ["1", None, "-4611686018427387904"],
        "real": ["0.1", None, "1e+300"],
        "round": ["1", None, "2"],
        "half": ["0.1", None, "2"],
        "truth": ["true", "false", None],
        "date": ["2026-01-31", None, None],
        "coded": ["x", None, "x"],
        "money": ["1.50", None, None],
        "nothing": [None, None, None],
    }
    for name, values in expected.items():
        column = table[name]
        assert [None if code < 0 else column.values[code] for code in column.codes] == values
    assert table.place(0) == "row 1"


@pytest.mark.parametrize("values", [[[1, 2]], [{"a": 1}], [b"bytes"], [datetime.timedelta(1)]])
def test_nested_and_binary_types_are_refused_by_name(write, values):
    with pytest.raises(ValueError, match=r"column 'deep' has type (list|struct|binary|duration).*Leave it out"):
        read_table(write({"fine": [1], "deep": values}))


def test_what_a_csv_may_not_have_a_parquet_may_not_have(write):
    for columns, message in (
        ({"a": np.zeros(0)}, "has a header but no rows"),
        ({"a": ["x\0y"]}, "NUL characters"),
        ({" ": ["x"]}, "no name for column 1"),
        ({"a": ["x"], "a ": ["x"]}, "more than one column called 'a'"),
        ({}, "has no columns"),
    ):
        with pytest.raises(ValueError, match=message):
            read_table(write(columns))


def test_a_file_that_is_not_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    for content in (b"", b"a,b\n1,2\n", b"PAR1" + b"x" * 100 + b"PAR1"):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(ValueError, match="could not be read as Parquet") as caught:
            read_table(tmp_path / "a.parquet")
        assert "\n" not in str(caught.value)
