"""Which rows lie where when a table is spread over the devices of a mesh.

Shard k of D holds ⌈(n − k)/D⌉ consecutive rows, so sizes differ by at most one, and is padded to ⌈n/D⌉; a mask tells
rows from padding. Privacy needs nothing new. A Poisson sample includes every row on its own: the union of independent
Poisson samples of the shards is a Poisson sample of the table. Clipped sums over shards add up to the clipped sum over
the table, by one all-reduce; noise is drawn once, from a key that all devices share, and added after it. So answers
have the law that they have on one device, and the certificate is the same.
"""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from gossamer.base import processes
from gossamer.base.trees import PyTree


@dataclass(frozen=True)
class Shards:
    """A table of n rows over the devices of a mesh; with no axes, on one device."""

    n: int
    axes: tuple[str, ...] = ()
    count: int = 1

    @classmethod
    def over(cls, mesh: Mesh | None, n: int) -> "Shards":
        """Return the shards of n rows over a mesh, all of its axes together."""
        if mesh is None:
            return cls(n)
        if n < mesh.size:
            raise ValueError(f"data has n = {n} records, fewer than the mesh has devices ({mesh.size}). Use fewer.")
        return cls(n, mesh.axis_names, mesh.size)

    @property
    def rows(self) -> int:
        """Return how many rows a shard has, padding included."""
        return -(-self.n // self.count)

    def size(self, shard: Any) -> Any:
        """Return how many rows of a shard count."""
        return self.n // self.count + (shard < self.n % self.count)

    def first(self, shard: int) -> int:
        """Return which row of the table is the first of a shard."""
        return shard * (self.n // self.count) + min(shard, self.n % self.count)

    def here(self) -> jax.Array | int:
        """Return the shard of the device that runs this, inside of `jax.shard_map`."""
        return jax.lax.axis_index(self.axes) if self.axes else 0

    def add_up(self, sums: PyTree) -> PyTree:
        """Return the sums over all shards of these sums over one: one all-reduce of one vector."""
        if not self.axes:
            return sums
        with jax.enable_x64(True):  # lattice points are whole numbers in float64, and stay so
            vector, restore = ravel_pytree(sums)
            return restore(jax.lax.psum(vector, self.axes))


def local_rows(n: int, mesh: Mesh) -> slice:
    """Return which rows of a table of n records this process must load to train on a mesh of many processes."""
    shards = Shards.over(mesh, n)
    mine = [k for k, device in enumerate(mesh.devices.flat) if device.process_index == jax.process_index()]
    if not mine:
        raise ValueError("the mesh has no device of this process. Build it from jax.devices().")
    if mine != list(range(mine[0], mine[-1] + 1)):
        raise ValueError(
            f"this process has the devices number {mine} of the mesh, which are not consecutive. Build the mesh from "
            "jax.devices() in their order: Mesh(jax.devices(), ('records',))."
        )
    return slice(shards.first(mine[0]), shards.first(mine[-1]) + shards.size(mine[-1]))


def spread(rows: PyTree, n: int, mesh: Mesh) -> PyTree:
    """Return the rows of this process as arrays over the mesh, every shard padded with zeros to the same length."""
    shards = Shards.over(mesh, n)
    begin = local_rows(n, mesh).start

    def place(leaf: np.ndarray) -> jax.Array:
        def shard(index: Any) -> np.ndarray:
            k = (index[0].start or 0) // shards.rows
            first = shards.first(k) - begin
            part = np.asarray(leaf[first : first + shards.size(k)])
            return np.pad(part, [(0, shards.rows - len(part)), *[(0, 0)] * (part.ndim - 1)])

        shape = (shards.count * shards.rows, *leaf.shape[1:])
        return jax.make_array_from_callback(shape, over_rows(mesh), shard)

    return jax.tree.map(place, rows)


def spread_parts(
    rows: PyTree, first: np.ndarray, counts: np.ndarray, *, n: int, mesh: Mesh
) -> tuple[PyTree, jax.Array, jax.Array]:
    """Spread records that are parts of longer arrays: n of them in all, this process's with `counts` rows from `first`.

    Rows are consecutive, record by record. Returns rows, first and counts over the mesh; on every shard `first` counts
    from the shard's own first row, and all shards are padded to the longest.
    """
    shards, begin = Shards.over(mesh, n), local_rows(n, mesh).start
    mine = [k for k, device in enumerate(mesh.devices.flat) if device.process_index == jax.process_index()]
    ends = np.append(first, first[-1] + counts[-1])
    cuts = {k: (ends[shards.first(k) - begin], ends[shards.first(k) - begin + shards.size(k)]) for k in mine}
    longest = max(processes.of_all(int(max(stop - start for start, stop in cuts.values()))))
    starts = np.repeat([cuts[k][0] for k in mine], [shards.size(k) for k in mine])

    def place(leaf: np.ndarray) -> jax.Array:
        def shard(index: Any) -> np.ndarray:
            part = np.asarray(leaf[slice(*cuts[(index[0].start or 0) // longest])])
            return np.pad(part, [(0, longest - len(part)), *[(0, 0)] * (part.ndim - 1)])

        return jax.make_array_from_callback((shards.count * longest, *leaf.shape[1:]), over_rows(mesh), shard)

    own = (first - starts).astype(first.dtype)
    return jax.tree.map(place, rows), *spread((own, counts), n, mesh)


def over_rows(mesh: Mesh) -> NamedSharding:
    """Return how arrays with one row per record lie on a mesh."""
    return NamedSharding(mesh, P(mesh.axis_names))
