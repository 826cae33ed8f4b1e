"""Rows that stay on disk: a sample reads only its own rows, a full pass reads the table in chunks.

The compiled loop calls back for rows. Which rows the next sample of the same kind wants is known before its answer is
needed, as samples do not depend on answers: they are read by a thread while the device computes. Pages that were read
are given back to the system every so often, so that a long run does not end up holding the whole table in memory.
"""

import math
import mmap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.oracle.shards import Shards

PyTree = Any
CHUNK_BYTES = 4 << 20
_HELD_BYTES = 512 << 20
"""How many bytes of files may be mapped in memory before they are given back."""
_SMALL_BYTES = 64 << 20
"""An array up to this size, such as the labels of ten million records, is held in memory after all."""
_MOST_AHEAD = 16
_PAGES_AROUND = 16 << 12
"""How much of a file one access may map: the kernel maps the pages around it as well."""


def is_stored(data: PyTree) -> bool:
    """Return whether any array of a table is mapped from a file."""
    return any(isinstance(leaf, np.memmap) for leaf in jax.tree.leaves(data))


class Store:
    """The rows of one process on disk, cut into the shards of its devices."""

    def __init__(self, data: PyTree, shards: Shards, begin: int = 0):
        """Take arrays with one row per record, which begin at row `begin` of the whole table."""
        leaves, self._structure = jax.tree.flatten(data)
        self._leaves = [np.array(leaf) if leaf.nbytes <= _SMALL_BYTES else leaf for leaf in leaves]
        self._shards, self._begin = shards, begin
        self._shapes = [jax.ShapeDtypeStruct(leaf.shape[1:], _device_dtype(leaf)) for leaf in self._leaves]
        size = sum(math.prod(shape.shape) * shape.dtype.itemsize for shape in self._shapes)
        self.chunk = max(1, min(shards.rows, CHUNK_BYTES // max(1, size)))
        """How many rows a full pass reads at a time."""
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="gossamer-rows")
        self._ahead: dict[Any, Future] = {}
        self._lock = threading.Lock()
        self._touched = 0

    def record(self) -> PyTree:
        """Return the shape of one record."""
        return jax.tree.unflatten(self._structure, self._shapes)

    def sample(self, rows: jax.Array, coming: jax.Array) -> PyTree:
        """Return rows of this device's shard, in compiled code, and begin to read those that come next."""

        def read(shard: Any, rows: Any, coming: Any) -> list[np.ndarray]:
            first = self._first(shard)
            return self._take(first + np.asarray(rows), first + np.asarray(coming))

        return self._call(read, rows.shape[0], rows, coming)

    def add_up(self, total: Callable[[PyTree, jax.Array], PyTree], mask: jax.Array) -> PyTree:
        """Return the sum of `total(rows, mask)` over the chunks of this device's shard, in compiled code."""
        starts = jnp.arange(0, self._shards.rows, self.chunk, dtype=jnp.int32)
        mask = jnp.pad(mask, (0, len(starts) * self.chunk - len(mask)))

        def read(shard: Any, start: Any) -> list[np.ndarray]:
            first, start = self._first(shard), int(start)
            after = start + self.chunk if start + self.chunk < self._shards.rows else 0
            return self._take(first + start, first + after)

        def add(sums: PyTree, start: jax.Array) -> tuple[PyTree, None]:
            rows = self._call(read, self.chunk, start)
            counts = jax.lax.dynamic_slice_in_dim(mask, start, self.chunk)
            return jax.tree.map(jnp.add, sums, total(rows, counts)), None

        rows, counts = (
            jax.tree.map(lambda s: jnp.zeros((self.chunk, *s.shape), s.dtype), self.record()),
            mask[: self.chunk],
        )
        zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(total, rows, counts))
        return jax.lax.scan(add, zero, starts)[0]

    def _call(self, read: Any, count: int, *arguments: Any) -> PyTree:
        shapes = [jax.ShapeDtypeStruct((count, *shape.shape), shape.dtype) for shape in self._shapes]
        leaves = jax.pure_callback(read, shapes, jnp.int32(self._shards.here()), *arguments)
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
        wanted = zip(self._leaves, self._shapes, strict=True)
        if isinstance(which, np.ndarray):
            places = np.minimum(which, len(self._leaves[0]) - 1)
            read = [np.take(leaf, places, axis=0).astype(shape.dtype, copy=False) for leaf, shape in wanted]
            self._hold(len(which) * _PAGES_AROUND * sum(isinstance(leaf, np.memmap) for leaf in self._leaves))
            return read
        parts = [(np.asarray(leaf[which : which + self.chunk]), shape) for leaf, shape in wanted]
        read = [_filled(part, self.chunk, shape.dtype) for part, shape in parts]
        self._hold(sum(part.nbytes for part, _ in parts))
        return read

    def _hold(self, touched: int) -> None:
        """Give pages back once enough of them were touched."""
        with self._lock:
            self._touched += touched
            if self._touched < _HELD_BYTES:
                return
            self._touched = 0
        release(self._leaves)


def release(leaves: list[Any]) -> None:
    """Give the pages of mapped files back to the system, which keeps them as long as it has room."""
    for leaf in leaves:
        if isinstance(leaf, np.memmap) and leaf.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
            leaf._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def chunks_of(data: PyTree) -> Iterator[list[np.ndarray]]:
    """Yield a stored table in pieces that fit in memory, its leaves in order."""
    leaves = jax.tree.leaves(data)
    size = sum(math.prod(leaf.shape[1:]) * leaf.dtype.itemsize for leaf in leaves)
    rows = max(1, _HELD_BYTES // 16 // max(1, size))
    for start in range(0, leaves[0].shape[0], rows):
        yield [np.asarray(leaf[start : start + rows]) for leaf in leaves]
        release(leaves)


def _name(which: Any) -> Any:
    return which.tobytes() if isinstance(which, np.ndarray) else which


def _filled(part: np.ndarray, rows: int, dtype: np.dtype) -> np.ndarray:
    if len(part) == rows:
        return part.astype(dtype)
    filled = np.zeros((rows, *part.shape[1:]), dtype)
    filled[: len(part)] = part
    return filled


def _device_dtype(leaf: Any) -> np.dtype:
    return np.dtype(jax.dtypes.canonicalize_dtype(leaf.dtype))
