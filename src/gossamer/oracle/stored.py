"""Rows that stay on disk: a sample reads only its own rows, a full pass reads the table in chunks.

The compiled loop calls back for rows. Which rows the next sample of the same kind wants is known before its answer is
needed, as samples do not depend on answers: they are read by a thread while the device computes.

*A file that is changed during a run.* The promise is about one table, checked before the first query. So size and times
of change of every file are noted before the check, compared whenever a run pauses and at its end, and a run whose file
was written to has no result. What this does not see: a write that the file system has not recorded yet (one through
another program's mapping, or on a network file system that caches attributes), and one within the resolution of its
clock. Arrays in memory are not watched.
"""

import math
import mmap
import os
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np

from gossamer.base.trees import PyTree
from gossamer.oracle.lattice import BLOCK
from gossamer.oracle.people import People
from gossamer.oracle.shards import Shards

CHUNK_BYTES = 8 << 20
"""What a full pass has of a table in memory at a time; the same in memory, so that bits are the same."""
PERSONS_BYTES = 1 << 20
"""The same of persons, whose rows are gathered first: it stays in the processor's cache."""
SMALL_BYTES = 64 << 20
"""An array up to this size, such as the labels of ten million records, is held in memory after all."""
_CHECKED_BYTES = 32 << 20
_MOST_AHEAD = 16
_CHUNKS_AHEAD = 4
_PROBED, _SLOW_ROW = 8, 5e-6
"""How many rows of a sample tell the disk from the system's cache, and from how many seconds each (cached: 2e-6)."""
_CAN_ADVISE = hasattr(os, "posix_fadvise")


def is_stored(data: PyTree) -> bool:
    """Return whether any array of a table is mapped from a file."""
    return any(isinstance(leaf, np.memmap) for leaf in jax.tree.leaves(data))


class Store:
    """The rows of one process on disk, cut into the shards of its devices."""

    def __init__(self, data: PyTree, shards: Shards, begin: int = 0, marks: "Marks | None" = None):
        """Take arrays with one row per record, which begin at row `begin` of the whole table; `marks`: see `check`."""
        leaves, self._structure = jax.tree.flatten(data)
        self._sources = [_source(leaf) for leaf in leaves]
        self._marks = marks_of(data) if marks is None else marks
        check_marks(self._marks)
        self._shards, self._begin = shards, begin
        self._shapes = [jax.ShapeDtypeStruct(leaf.shape[1:], _device_dtype(leaf)) for leaf in leaves]
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="gossamer-rows")
        self._ahead: dict[Any, Future] = {}
        self._lock = threading.Lock()

    def record(self) -> PyTree:
        """Return the shape of one record."""
        return jax.tree.unflatten(self._structure, self._shapes)

    def check(self) -> None:
        """Refuse to go on if a file that is still read was changed since it was checked."""
        check_marks({s.name: self._marks[s.name] for s in self._sources if isinstance(s, _OnDisk)})

    def sample(self, shard: jax.Array, rows: jax.Array, coming: jax.Array) -> PyTree:
        """Return rows of a shard, in compiled code, and begin to read those that come next."""

        def read(shard: Any, rows: Any, coming: Any) -> list[np.ndarray]:
            first = self._first(shard)
            return self._take(first + np.asarray(rows), first + np.asarray(coming))

        return self._call(read, rows.shape[0], shard, rows, coming)

    def tile(self, shard: jax.Array, start: jax.Array) -> PyTree:
        """Return the rows of a shard's tile, in compiled code, and begin to read the next one."""
        rows = self._shards.tile

        def read(shard: Any, start: Any) -> list[np.ndarray]:
            first, start = self._first(shard), int(start)
            after = start + rows if start + rows < self._shards.rows else 0
            return self._take(first + start, first + after)

        return self._call(read, rows, shard, start)

    def _call(self, read: Any, count: int, *arguments: Any) -> PyTree:
        shapes = [jax.ShapeDtypeStruct((count, *shape.shape), shape.dtype) for shape in self._shapes]
        leaves = jax.pure_callback(read, shapes, *arguments)
        return jax.tree.unflatten(self._structure, leaves)

    def _first(self, shard: Any) -> int:
        return self._shards.first(int(shard)) - self._begin

    def _take(self, now: Any, coming: Any) -> list[np.ndarray]:
        """Return what was read ahead, else read it now; then read ahead."""
        name = _name(now)
        with self._lock:
            ahead = self._ahead.pop(name, None)
        found = self._read(now) if ahead is None else ahead.result()
        with self._lock:
            while len(self._ahead) >= _MOST_AHEAD:
                self._ahead.pop(next(iter(self._ahead)))
            self._ahead[_name(coming)] = self._reader.submit(self._read, coming)
        return found

    def _read(self, which: Any) -> list[np.ndarray]:
        """Read rows by their places, or the chunk that begins at a place; what is beyond the end is masked anyway."""
        if isinstance(which, np.ndarray):
            places = np.minimum(which, len(self._sources[0]) - 1)
            read = [source.rows(places) for source in self._sources]
        else:
            rows = self._shards.tile
            read = [_filled(source.part(which, which + rows), rows) for source in self._sources]
        return [part.astype(shape.dtype, copy=False) for part, shape in zip(read, self._shapes, strict=True)]


class StoredPeople(Store):
    """Persons whose rows are on disk: a record is what `People` gathers, row by row."""

    def __init__(self, people: People, shards: Shards, begin: int = 0, marks: "Marks | None" = None):
        """Take the persons of one process, of which the first is person `begin` of the whole table."""
        super().__init__(people.rows, shards, begin, marks)
        self._people, self._dtypes = people, [shape.dtype for shape in self._shapes]
        self._shapes, self._structure = jax.tree.flatten(people.record())

    @property
    def length(self) -> int:
        """How many rows there are, which is not public."""
        return self._people.length

    def _read(self, which: Any) -> list[np.ndarray]:
        """Read persons by their places, or the tile that begins at a place; who is beyond the end is masked anyway."""
        persons = which if isinstance(which, np.ndarray) else which + np.arange(self._shards.tile)
        places, present = self._people.places(np.minimum(persons, self._people.n - 1))
        read = [
            source.rows(places.reshape(-1)).astype(t) for source, t in zip(self._sources, self._dtypes, strict=True)
        ]
        if self._people.cap == 1:
            return read
        return [*(part.reshape(*places.shape, *part.shape[1:]) for part in read), present]


class _InMemory:
    """An array that is small enough to be held, or is in memory anyway."""

    def __init__(self, leaf: np.ndarray):
        self._leaf = np.array(leaf)

    def __len__(self) -> int:
        return len(self._leaf)

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Return rows by their places."""
        return self._leaf[places]

    def part(self, start: int, stop: int) -> np.ndarray:
        """Return consecutive rows."""
        return self._leaf[start:stop]


class _OnDisk:
    """The file behind a mapped array, read without mapping it.

    To map a row the kernel maps up to a megabyte around it, so that samples of a few thousand rows would soon have the
    whole table in memory; and a file that somebody cuts short would end the process, where reading is an error.
    """

    def __init__(self, leaf: np.memmap):
        assert leaf.filename is not None
        self._leaf = leaf
        self.name = str(leaf.filename)
        begin = leaf.offset - leaf.offset % mmap.ALLOCATIONGRANULARITY  # where the mapping begins in the file
        mapping = np.frombuffer(leaf._mmap, np.uint8)  # type: ignore[attr-defined]
        self._first = begin + leaf.ctypes.data - mapping.ctypes.data
        self._size = leaf.dtype.itemsize * math.prod(leaf.shape[1:])
        self._file = os.open(leaf.filename, os.O_RDONLY)
        weakref.finalize(self, os.close, self._file)
        if self.rows(np.array([0, len(leaf) - 1])).tobytes() != leaf[[0, -1]].tobytes():
            raise ValueError(f"{leaf.filename} is not the file that data was mapped from any more. Open it again.")

    def __len__(self) -> int:
        return len(self._leaf)

    def rows(self, places: np.ndarray) -> np.ndarray:
        """Read rows by their places."""
        distinct, where = np.unique(places, return_inverse=True)  # the padding of a sample is one row again and again
        file, size = self._file, self._size
        offsets = (self._first + size * distinct.astype(np.int64)).tolist()
        begun = time.monotonic()
        content = [os.pread(file, size, offset) for offset in offsets[:_PROBED]]
        if _CAN_ADVISE and time.monotonic() - begun > _SLOW_ROW * _PROBED:  # the disk then fetches all at the same time
            for offset in offsets[_PROBED:]:
                os.posix_fadvise(file, offset, size, os.POSIX_FADV_WILLNEED)
        content += [os.pread(file, size, offset) for offset in offsets[_PROBED:]]
        return self._array(b"".join(content), len(offsets))[where]

    def part(self, start: int, stop: int) -> np.ndarray:
        """Read consecutive rows."""
        stop = min(stop, len(self))
        buffer = np.empty(self._size * (stop - start), np.uint8)
        done, place = 0, self._first + self._size * start
        if _CAN_ADVISE:  # the disk works on while these rows are used
            os.posix_fadvise(self._file, place + len(buffer), _CHUNKS_AHEAD * len(buffer), os.POSIX_FADV_WILLNEED)
        while read := os.preadv(self._file, [buffer.data[done:]], place + done):
            done += read
        return self._array(buffer.data[:done], stop - start)

    def _array(self, content: bytes | memoryview, rows: int) -> np.ndarray:
        if len(content) != rows * self._size:
            raise OSError(f"{self._leaf.filename} ended before its last row: it was changed during the run.")
        return np.frombuffer(content, self._leaf.dtype).reshape(rows, *self._leaf.shape[1:])


def _source(leaf: np.ndarray) -> _InMemory | _OnDisk:
    """Return where to read an array's rows from."""
    mapped = isinstance(leaf, np.memmap) and leaf.filename is not None and leaf.flags.c_contiguous and leaf.mode != "c"
    return _OnDisk(leaf) if mapped and leaf.nbytes > SMALL_BYTES else _InMemory(leaf)  # type: ignore[arg-type]


Marks = dict[str, tuple[int, ...]]
"""What a file system says of each file of a table."""


def marks_of(data: PyTree) -> Marks:
    """Note which files a table is mapped from, how long they are, and when they were written to."""
    return {name: _mark(name) for name in map(str, filter(None, map(_filename, jax.tree.leaves(data))))}


def check_marks(marks: Marks) -> None:
    """Refuse files that were changed since they were noted."""
    for name, mark in marks.items():
        if _mark(name) != mark:
            raise RuntimeError(
                f"{name} was changed while it was in use. A run's promise is about one table, so nothing is released. "
                "What was asked so far is spent. Give runs a copy that nobody writes to, and start again."
            )


def _filename(leaf: Any) -> Any:
    return leaf.filename if isinstance(leaf, np.memmap) else None


def _mark(name: str) -> tuple[int, ...]:
    """Return what changes when a file is written to or replaced; the time of a change cannot be set back."""
    try:
        found = os.stat(name)
    except FileNotFoundError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def chunks_of(data: PyTree) -> Iterator[list[np.ndarray]]:
    """Yield a stored table in pieces that fit in memory, its leaves in order."""
    leaves = jax.tree.leaves(data)
    sources = [_source(leaf) for leaf in leaves]
    rows = _rows_in(_CHECKED_BYTES, leaves)
    for start in range(0, leaves[0].shape[0], rows):
        yield [source.part(start, start + rows) for source in sources]


def longest_tile(data: PyTree, cap: int = 1) -> int:
    """Return how many records of so many rows a full pass has in memory at a time, at most: whole blocks."""
    size = CHUNK_BYTES if cap == 1 else PERSONS_BYTES
    return BLOCK * -(-_rows_in(size // cap, jax.tree.leaves(data)) // BLOCK)


def _rows_in(size: int, leaves: list[Any]) -> int:
    """Return how many rows of a table are about so many bytes."""
    return max(1, size // max(1, sum(math.prod(leaf.shape[1:]) * leaf.dtype.itemsize for leaf in leaves)))


def _name(which: Any) -> Any:
    return which.tobytes() if isinstance(which, np.ndarray) else which


def _filled(part: np.ndarray, rows: int) -> np.ndarray:
    """Return a chunk at the end of a table with zeros behind it."""
    return part if len(part) == rows else np.pad(part, [(0, rows - len(part)), *[(0, 0)] * (part.ndim - 1)])


def _device_dtype(leaf: Any) -> np.dtype:
    return np.dtype(jax.dtypes.canonicalize_dtype(leaf.dtype))
