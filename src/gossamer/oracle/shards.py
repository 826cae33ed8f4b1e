"""Which rows lie where: a table is cut into shards, and every device of a mesh has as many of them as the others.

Shard k of S holds ⌈(n − k)/S⌉ consecutive rows, so sizes differ by at most one, and is padded to a common length; a
mask tells rows from padding. Privacy needs nothing new. A Poisson sample includes every row on its own: the union of
independent Poisson samples of the shards is a Poisson sample of the table. Clipped sums over shards add up to the
clipped sum over the table, by one all-reduce; noise is drawn once, from a key that all devices share, and added after
it. So answers have the law that they have in one piece, and the certificate is the same.

*The same bits on any number of devices.* Which records are drawn, and which are added up together before they are
rounded, is decided shard by shard, in steps of one shape; the rest is exact sums of whole numbers. So a run depends on
the number of its shards, as on its seed, and not on the devices that hold them, nor on whether rows come from memory
or from disk (`tile`: full passes read both in the same portions). A record's own numbers are the same as long as the
compiler rounds `one` alike in both programs. It does where LLVM's optimisations are on, as tests find. Without them a
function as long as that of normals is rounded otherwise in some programs. The bound on what a record moves holds for
either, so privacy does not rest on it.

More shards than devices have a price. The size of a Poisson sample is random, and each shard needs room for its own:
eight times room for 1/8 of 256 records is twice the room for 256. So a table on one device is one shard, unless it is
told otherwise, and only tables on meshes have eight.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from gossamer.base import processes
from gossamer.base.messages import is_whole, plain, shown
from gossamer.base.trees import PyTree
from gossamer.oracle.lattice import BLOCK, zeros_like

SHARDS = 8
"""Of a table on a mesh, where that many can be shared out evenly."""


@dataclass(frozen=True)
class Shards:
    """A table of n rows in shards, over the devices of a mesh; with no axes, on one device."""

    n: int
    axes: tuple[str, ...] = ()
    devices: int = 1
    count: int = 1
    """How many shards there are: a multiple of the devices."""
    longest: int | None = None
    """How many rows a full pass has in memory at a time, at most; None: all of a shard."""

    @classmethod
    def over(cls, mesh: Mesh | None, n: int, count: int | None = None, longest: int | None = None) -> "Shards":
        """Return the shards of n rows over a mesh, all of its axes together."""
        devices, axes = (1, ()) if mesh is None else (mesh.size, mesh.axis_names)
        if n < devices:
            raise ValueError(f"data has n = {n} records, fewer than the mesh has devices ({devices}). Use fewer.")
        if (count := plain(count)) is None:
            count = SHARDS if mesh is not None and SHARDS % devices == 0 and n >= SHARDS else devices
        if not (is_whole(count) and count % devices == 0 and count <= n):
            raise ValueError(
                f"shards = {shown(count)} must be a multiple of the number of devices ({devices}), and at most the "
                f"number of records ({n}). Leave it out, or choose {devices * max(1, min(n, SHARDS) // devices)}."
            )
        return cls(n, axes, devices, count, longest)

    @property
    def here(self) -> int:
        """Return how many shards each device has."""
        return self.count // self.devices

    @functools.cached_property
    def tile(self) -> int:
        """Return how many rows a full pass has in memory at a time: a shard's, shared out evenly, in whole blocks."""
        rows = -(-self.n // self.count)
        if self.longest is None or rows <= self.longest:
            return rows
        return BLOCK * -(-rows // (-(-rows // self.longest) * BLOCK))

    @property
    def rows(self) -> int:
        """Return how many rows a shard has, padding included; a table in one piece has none."""
        rows = -(-self.n // self.count)
        return rows if self.count == 1 else self.tile * -(-rows // self.tile)

    def size(self, shard: Any) -> Any:
        """Return how many rows of a shard count."""
        return self.n // self.count + (shard < self.n % self.count)

    def first(self, shard: int) -> int:
        """Return which row of the table is the first of a shard."""
        return shard * (self.n // self.count) + min(shard, self.n % self.count)

    def numbers(self) -> jax.Array:
        """Return the shards of the device that runs this, inside of `jax.shard_map` if there is a mesh."""
        return self.here * (jax.lax.axis_index(self.axes) if self.axes else 0) + jnp.arange(self.here, dtype=jnp.int32)

    def each(self, one: Callable[[jax.Array, Any], PyTree], operands: PyTree) -> PyTree:
        """Return Σ one(shard, operands of that shard), exact sums, over all shards of all devices.

        `operands` have one row for each shard of this device, but for a table in one piece, where they are its own.
        The loop does not know how often it runs: a compiler that did would take apart one of a single turn, and what it
        then makes of `one` might be rounded otherwise.
        """
        if self.count == 1:
            return self.add_up(one(jnp.int32(0), operands))
        numbers = self.numbers()

        def add(turn: jax.Array, sums: PyTree) -> PyTree:
            cut = jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, turn, keepdims=False), operands)
            return jax.tree.map(jax.lax.add, sums, one(numbers[turn], cut))

        shapes = jax.eval_shape(lambda: one(numbers[0], jax.tree.map(lambda leaf: leaf[0], operands)))
        turns = jax.lax.optimization_barrier(jnp.int32(self.here))
        return self.add_up(jax.lax.fori_loop(jnp.int32(0), turns, add, zeros_like(shapes)))

    def in_tiles(self, fetch: Callable[[jax.Array], PyTree], mask: jax.Array, total: Callable[..., PyTree]) -> PyTree:
        """Return Σ total(fetch(start), mask there), exact sums, over the tiles of one shard."""
        if len(mask) <= self.tile:
            return total(fetch(jnp.int32(0)), mask)
        starts = jnp.arange(0, len(mask), self.tile, dtype=jnp.int32)
        mask = jnp.pad(mask, (0, len(starts) * self.tile - len(mask)))

        def add(sums: PyTree, start: jax.Array) -> tuple[PyTree, None]:
            counts = jax.lax.dynamic_slice_in_dim(mask, start, self.tile)
            return jax.tree.map(jax.lax.add, sums, total(fetch(start), counts)), None

        shapes = jax.eval_shape(lambda: total(fetch(starts[0]), mask[: self.tile]))
        return jax.lax.scan(add, zeros_like(shapes), starts)[0]

    def add_up(self, sums: PyTree) -> PyTree:
        """Return the sums over all devices of these sums over one: one all-reduce of one vector."""
        if not self.axes:
            return sums
        with jax.enable_x64(True):  # lattice points are whole numbers in float64, and stay so
            vector, restore = ravel_pytree(sums)
            return restore(jax.lax.psum(vector, self.axes))


def local_rows(n: int, mesh: Mesh, shards: int | None = None) -> slice:
    """Return which rows of a table of n records this process must load to train on a mesh of many processes.

    Args:
      n: how many records there are in all.
      mesh: the devices of all processes.
      shards: what `gs.solve` is told, if anything.
    """
    cut = Shards.over(mesh, n, shards)
    mine = [k for k, device in enumerate(mesh.devices.flat) if device.process_index == jax.process_index()]
    if not mine:
        raise ValueError("the mesh has no device of this process. Build it from jax.devices().")
    if mine != list(range(mine[0], mine[-1] + 1)):
        raise ValueError(
            f"this process has the devices number {mine} of the mesh, which are not consecutive. Build the mesh from "
            "jax.devices() in their order: Mesh(jax.devices(), ('records',))."
        )
    return slice(cut.first(mine[0] * cut.here), cut.first((mine[-1] + 1) * cut.here))


def spread(rows: PyTree, shards: Shards, mesh: Mesh | None, begin: int) -> PyTree:
    """Return the rows of this process, from `begin` on, in their shards, each padded with zeros to the same length."""

    def cut(k: int) -> slice:
        return slice(shards.first(k) - begin, shards.first(k) - begin + shards.size(k))

    return _laid(rows, cut, shards.rows, shards, mesh)


def spread_parts(
    rows: PyTree, first: np.ndarray, counts: np.ndarray, shards: Shards, *, mesh: Mesh | None, begin: int
) -> tuple[PyTree, PyTree, PyTree]:
    """Spread records that are parts of longer arrays: those of this process, from record `begin` on.

    Record i has `counts[i]` rows from `first[i]` on, one record's behind those of the one before. Returns rows, first
    and counts in their shards. Rows are padded to those of the longest shard, and `first` counts from the first row of
    the device. Records of padding have no rows.
    """
    ends = np.append(first, first[-1] + counts[-1])

    def cut(k: int) -> slice:
        start = shards.first(k) - begin
        return slice(int(ends[start]), int(ends[start + shards.size(k)]))

    mine = _mine(shards, mesh)
    longest = max(processes.of_all(max(cut(k).stop - cut(k).start for k in mine)))
    if shards.here * longest >= 2**31 - 1:
        raise ValueError("a table by persons must have fewer than 2^31 rows on one device.")
    moved = np.repeat([k % shards.here * longest - cut(k).start for k in mine], [shards.size(k) for k in mine])
    own = (first + moved).astype(np.int32)
    return _laid(rows, cut, longest, shards, mesh), *spread((own, counts), shards, mesh, begin)


def _mine(shards: Shards, mesh: Mesh | None) -> range:
    """Return the shards of this process."""
    if mesh is None:
        return range(shards.count)
    mine = [k for k, device in enumerate(mesh.devices.flat) if device.process_index == jax.process_index()]
    return range(mine[0] * shards.here, (mine[-1] + 1) * shards.here)


def _laid(rows: PyTree, cut: Callable[[int], slice], length: int, shards: Shards, mesh: Mesh | None) -> PyTree:
    """Return arrays in which every shard has so much room, for what is cut out of rows for it, and zeros behind."""

    def padded(leaf: np.ndarray, numbers: range) -> np.ndarray:
        parts = np.zeros((len(numbers), length, *leaf.shape[1:]), leaf.dtype)
        for part, k in zip(parts, numbers, strict=True):
            own = leaf[cut(k)]
            part[: len(own)] = own
        return parts.reshape(-1, *leaf.shape[1:])

    def place(leaf: np.ndarray) -> jax.Array:
        def device(index: Any) -> np.ndarray:
            k = (index[0].start or 0) // length
            return padded(leaf, range(k, k + shards.here))

        if mesh is None:
            return jnp.asarray(padded(leaf, range(shards.count)))
        return jax.make_array_from_callback((shards.count * length, *leaf.shape[1:]), over_rows(mesh), device)

    return jax.tree.map(place, jax.tree.map(np.asarray, rows))


def over_rows(mesh: Mesh) -> NamedSharding:
    """Return how arrays with one row per record lie on a mesh."""
    return NamedSharding(mesh, P(mesh.axis_names))
