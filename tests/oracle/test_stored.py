"""A table on disk gives what the same table in memory gives, and only the rows of a sample are read."""

import dataclasses
import os

import jax
import numpy as np
import pytest
from jax.sharding import Mesh
from testkit.catalogue import ENTRIES
from testkit.rings import deep_but

import gossamer as gs
from gossamer.oracle import stored
from gossamer.oracle.shards import Shards

MESH = Mesh(jax.devices()[:3], ("records",))


def on_disk(data, folder):
    """Write a table's arrays to files, and return them mapped from there."""
    leaves, structure = jax.tree.flatten(data)
    for i, leaf in enumerate(leaves):
        np.save(folder / f"{i}.npy", leaf)
    return jax.tree.unflatten(structure, [np.load(folder / f"{i}.npy", mmap_mode="r") for i in range(len(leaves))])


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(stored, "CHUNK_BYTES", 200)  # ten rows of four numbers and a label
    monkeypatch.setattr(stored, "SMALL_BYTES", 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mesh"),
    deep_but(
        [("GD", None), ("SGD", None), ("RGDA in one pass", None), ("SGD", MESH)],
        ("SGD", None),
        ("SGD", MESH),
    ),
)
def test_disk_is_memory(name, mesh, tmp_path):
    entry = ENTRIES[name]
    memory = entry.solve(seed=0, mesh=mesh)
    disk = entry._replace(data=on_disk(entry.data, tmp_path)).solve(seed=0, mesh=mesh)
    for a, b in zip(jax.tree.leaves(disk.params), jax.tree.leaves(memory.params), strict=True):
        np.testing.assert_array_equal(a, b)
    assert disk.certificate == memory.certificate


@pytest.mark.slow
def test_only_the_rows_of_samples_are_read_and_ahead_of_time(tmp_path, monkeypatch):
    entry = ENTRIES["SGD"]
    asked, waited = [], []
    read, take = stored.Store._read, stored.Store._take

    def reading(self, which):
        asked.append(which)
        return read(self, which)

    def taking(self, now, coming):
        waited.append(now.tobytes() not in self._ahead)
        return take(self, now, coming)

    monkeypatch.setattr(stored.Store, "_read", reading)
    monkeypatch.setattr(stored.Store, "_take", taking)
    steps = entry.method.steps
    entry._replace(data=on_disk(entry.data, tmp_path)).solve(seed=0)
    assert waited == [True] + [False] * (steps - 1)
    assert len(asked) <= steps + 1
    capacity = dict(gs.plan(entry.method, 61, gs.Budget(4.0, 1e-3)).capacities)["gradient"]
    assert all(len(rows) == capacity for rows in asked)


@pytest.mark.slow
def test_a_file_that_is_changed_during_a_run(tmp_path, monkeypatch):
    """The run has no result, whether the file is written to or another one is put in its place."""
    entry, read = ENTRIES["SGD"], stored.Store._read
    data = on_disk(entry.data, tmp_path)
    rows = tmp_path / "0.npy"

    def reading(self, which):
        with rows.open("r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(b"\0\0\0\0")
        return read(self, which)

    monkeypatch.setattr(stored.Store, "_read", reading)
    with pytest.raises(RuntimeError, match=r"0\.npy was changed while it was in use"):
        entry._replace(data=data).solve(seed=0)


def test_a_file_that_is_changed_before_the_first_query(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((100, 4)))
    data = np.load(tmp_path / "a.npy", mmap_mode="r")
    marks = stored.marks_of(data)
    store = stored.Store(data, Shards(100), marks=marks)
    store.check()
    np.save(tmp_path / "b.npy", np.ones((100, 4)))
    os.replace(tmp_path / "b.npy", tmp_path / "a.npy")
    for refused in (store.check, lambda: stored.Store(data, Shards(100), marks=marks)):
        with pytest.raises((RuntimeError, ValueError), match=r"was changed while it was in use|is not the file"):
            refused()


@pytest.mark.slow
def test_types_that_devices_do_not_have(tmp_path):
    X, y = ENTRIES["GD"].data
    data = on_disk((X.astype(np.float64), y.astype(np.int64)), tmp_path)
    disk = ENTRIES["GD"]._replace(data=data).solve(seed=0)
    memory = ENTRIES["GD"]._replace(data=(X, y.astype(np.int32))).solve(seed=0)
    np.testing.assert_allclose(disk.params["weights"], memory.params["weights"], rtol=1e-5, atol=1e-6)


def test_what_is_refused(tmp_path):
    entry = ENTRIES["GD"]
    X, y = (leaf.copy() for leaf in entry.data)
    X[57, 1] = np.nan
    (tmp_path / "nan").mkdir()
    with pytest.raises(ValueError, match="NaN or infinite entries"):
        entry._replace(data=on_disk((X, y), tmp_path / "nan")).solve(seed=0)
    with pytest.raises(ValueError, match="integers beyond 32 bits"):
        entry._replace(data=on_disk((entry.data[0], y.astype(np.int64) << 40), tmp_path)).solve(seed=0)
    with pytest.raises(ValueError, match="diagnostics=True does not go with a table on disk"):
        entry._replace(data=on_disk(entry.data, tmp_path)).solve(seed=0, diagnostics=True)


@pytest.mark.deep
def test_a_run_from_disk_continues(tmp_path):
    """The program calls back into Python, which numbers its functions anew in every process."""
    entry = ENTRIES["SGD"]
    data = on_disk(entry.data, tmp_path)
    whole = entry._replace(data=data).solve(seed=0, checkpoints=gs.Checkpoints(tmp_path / "run", every=2))
    again = entry._replace(data=data).solve(seed=1, checkpoints=gs.Checkpoints(tmp_path / "run", resume=True))
    np.testing.assert_array_equal(again.params["weights"], whole.params["weights"])
    short = dataclasses.replace(entry.method, steps=5)
    with pytest.raises(ValueError, match="another configuration"):
        entry._replace(data=data).solve(short, seed=0, checkpoints=gs.Checkpoints(tmp_path / "run", resume=True))


def test_views_and_files_that_changed(tmp_path):
    """A slice of a mapped array is read at its own place; a file that was cut short or replaced is an error."""
    numbers = np.arange(4000, dtype=np.float64).reshape(1000, 4)
    np.save(tmp_path / "a.npy", numbers)
    view = np.load(tmp_path / "a.npy", mmap_mode="r")[17:900]
    source = stored._source(view)
    assert isinstance(source, stored._OnDisk)
    np.testing.assert_array_equal(source.rows(np.array([0, 5, 882])), view[[0, 5, 882]])
    np.testing.assert_array_equal(source.part(880, 2000), view[880:])
    assert isinstance(stored._source(view[:, 1:3]), stored._InMemory)
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "b.npy").write_bytes(content[:9000])
    os.replace(tmp_path / "b.npy", tmp_path / "a.npy")
    with pytest.raises((ValueError, OSError), match=r"is not the file|ended before its last row"):
        stored._source(view)
    np.save(tmp_path / "c.npy", numbers)
    source = stored._source(np.load(tmp_path / "c.npy", mmap_mode="r"))
    os.truncate(tmp_path / "c.npy", 9000)
    with pytest.raises(OSError, match="ended before its last row"):
        source.part(0, 1000)
