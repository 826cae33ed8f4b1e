"""Parquet and Arrow files, piece by piece into arrays on disk."""

import stat

import numpy as np
import pytest

from gossamer.tables import Category, Declaration, Number, Schema, map_table, read_table
from gossamer.tables import parquet as module

pa = pytest.importorskip("pyarrow")
N = 250
SCHEMA = Schema(
    target="sick",
    classes=("no", "yes"),
    columns={"age": Declaration(Number(0, 100)), "sex": Declaration(Category(("F", "M")))},
)


@pytest.fixture(params=["parquet", "arrow"])
def path(request, tmp_path, monkeypatch):
    """Return a file of 250 rows, to be read in pieces of 64 that do not fit the groups of 100 it is stored in."""
    import pyarrow.parquet as pq

    monkeypatch.setattr(module, "_PIECE", 64)
    rng = np.random.default_rng(0)
    columns = {
        "age": rng.uniform(-5, 120, N),
        "sex": rng.choice(["F", "M", "other"], N),
        "sick": rng.choice(["no", "yes"], N),
        "note": ["free text"] * N,
    }
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "table.parquet", row_group_size=100)
    if request.param == "arrow":
        with pa.ipc.new_file(tmp_path / "table.arrow", table.schema) as file:
            for batch in table.to_batches(max_chunksize=100):
                file.write_batch(batch)
    return tmp_path / f"table.{request.param}"


def test_rows_and_labels_are_those_of_the_whole_table(path, tmp_path):
    rows, labels = map_table(path, SCHEMA, tmp_path / "mapped")
    whole = read_table(tmp_path / "table.parquet")
    assert isinstance(rows, np.memmap)
    np.testing.assert_array_equal(rows, SCHEMA.encode(whole))
    np.testing.assert_array_equal(labels, SCHEMA.labels(whole) == "yes")
    assert {stat.S_IMODE(file.stat().st_mode) for file in (tmp_path / "mapped").iterdir()} == {0o600}
    again, _ = map_table(path, SCHEMA, tmp_path / "mapped")
    np.testing.assert_array_equal(again, SCHEMA.encode(whole))


def test_a_file_without_rows(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"age": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    with pytest.raises(ValueError, match="has no rows"):
        map_table(tmp_path / "empty.parquet", SCHEMA, tmp_path / "mapped")
    assert not (tmp_path / "mapped").exists()
