"""The table behind the door: checked once, before anything is spent."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from gossamer.base import processes
from gossamer.base.trees import PyTree
from gossamer.oracle.people import People
from gossamer.oracle.shards import Shards, local_rows, spread, spread_parts
from gossamer.oracle.stored import Store, StoredPeople, chunks_of, is_stored, longest_tile, marks_of
from gossamer.privacy.facts import Unit


class Records(NamedTuple):
    """A table where it is used: on a device, over a mesh, or on disk."""

    data: PyTree
    """Arrays for the compiled loop; none if the table stays on disk."""
    n: int
    """How many records there are, in all processes."""
    record: PyTree
    """The shape of one record."""
    shards: Shards
    store: Store | None = None
    unit: Unit = Unit("row")


def place(data: PyTree, mesh: Mesh | None = None, count: int | None = None) -> Records:
    """Check a table, of which every process has its own rows, and put it where it is used, in so many shards.

    Arrays that are mapped from files (`numpy.memmap`) stay on disk. The checks are those of `check_records`.
    """
    if isinstance(data, People):
        return _place_people(data, mesh, count)
    stored = is_stored(data)
    marks = marks_of(data)
    checked, here = processes.all_agree(lambda: _check_stored(data) if stored else check_records(data))
    n = sum(processes.of_all(here))
    shards = Shards.over(mesh, n, count, longest_tile(checked))
    begin = processes.all_agree(lambda: _check_share(here, shards, mesh))
    if stored:
        store = processes.all_agree(lambda: Store(checked, shards, begin, marks))
        return Records((), n, store.record(), shards, store)
    record = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), checked)
    whole = mesh is None and shards.count == 1
    return Records(checked if whole else spread(checked, shards, mesh, begin), n, record, shards)


def _place_people(people: People, mesh: Mesh | None, count: int | None) -> Records:
    """Put a table of persons where it is used; with one row for each it is a table like any other."""
    stored = is_stored(people.rows)
    if people.cap == 1 and not stored:
        return place(people.gathered(), mesh, count)._replace(unit=people.unit)
    marks = marks_of(people.rows)
    rows, _ = processes.all_agree(lambda: _check_stored(people.rows) if stored else check_records(people.rows))
    n = sum(processes.of_all(people.n))
    shards = Shards.over(mesh, n, count, longest_tile(people.rows, people.cap))
    begin = processes.all_agree(lambda: _check_share(people.n, shards, mesh))
    if stored:
        store = processes.all_agree(lambda: StoredPeople(people, shards, begin, marks))
        return Records((), n, store.record(), shards, store, unit=people.unit)
    if mesh is None and shards.count == 1:
        placed = people.holding(rows, jnp.asarray(people.first), jnp.asarray(people.counts))
    else:
        placed = people.holding(*spread_parts(rows, people.first, people.counts, shards, mesh=mesh, begin=begin))
    return Records(placed, n, people.record(), shards, unit=people.unit)


def check_records(data: PyTree) -> tuple[PyTree, int]:
    """Return the table as device arrays, and its number of records n.

    These checks speak to the owner of the data, before the first query: what they say is outside the guarantee.
    """
    n = _check_shapes(data)
    _check_numbers(data)
    return jax.tree.map(_on_device, data), n


def _check_stored(data: PyTree) -> tuple[PyTree, int]:
    n = _check_shapes(data)
    for leaves in chunks_of(data):
        _check_numbers(jax.tree.unflatten(jax.tree.structure(data), leaves))
        for leaf in leaves:
            _on_device(leaf)
    return data, n


def _check_share(here: int, shards: Shards, mesh: Mesh | None) -> int:
    """Return which row of the table is this process's first; refuse rows that are not its share."""
    if mesh is None:
        if processes.many():
            raise ValueError("this run has many processes but no mesh. Pass mesh=Mesh(jax.devices(), ('records',)).")
        return 0
    share = local_rows(shards.n, mesh, shards.count)
    if share.stop - share.start != here:
        raise ValueError(
            f"process {jax.process_index()} has {here} of the n = {shards.n} records, but the mesh gives it the "
            f"{share.stop - share.start} rows {share.start}:{share.stop}. Load data[gs.local_rows(n, mesh)]."
        )
    return share.start


def _check_shapes(data: PyTree) -> int:
    leaves = jax.tree_util.tree_leaves_with_path(data)
    if not leaves:
        raise ValueError("data has no arrays. Pass a pytree of arrays with one row per record, such as (X, y).")
    sizes = {}
    for path, leaf in leaves:
        name = "data" + jax.tree_util.keystr(path)
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            raise ValueError(f"{name} is a {type(leaf).__name__}, not an array. Convert it with numpy.asarray.")
        if not (jnp.issubdtype(leaf.dtype, jnp.number) or leaf.dtype == bool):
            raise ValueError(f"{name} has dtype {leaf.dtype}; records must be numbers. Encode text and dates first.")
        if leaf.ndim == 0:
            raise ValueError(f"{name} is a single number; every array needs a leading axis with one row per record.")
        sizes[name] = leaf.shape[0]
    if len(set(sizes.values())) > 1:
        raise ValueError(f"data is ragged: {sizes}. All arrays must have the same number of rows, one per record.")
    n = next(iter(sizes.values()))
    if n == 0:
        raise ValueError("data has n = 0 records. At least one is needed.")
    if n >= 2**31 - 1:
        raise ValueError(f"data has n = {n} records; one device holds fewer than 2^31.")
    return n


def _check_numbers(data: PyTree) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        if jnp.issubdtype(leaf.dtype, jnp.inexact) and not bool(np.all(np.isfinite(leaf))):
            raise ValueError(
                f"data{jax.tree_util.keystr(path)} has NaN or infinite entries. Drop or impute those records first."
            )


def _on_device(leaf: Any) -> jax.Array:
    array = jnp.asarray(leaf)
    if jnp.issubdtype(array.dtype, jnp.integer) and not np.array_equal(np.asarray(array), np.asarray(leaf)):
        raise ValueError("data has integers beyond 32 bits. Rescale or re-encode that column.")
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        return array
    if not bool(jnp.all(jnp.isfinite(array))):
        raise ValueError("data has numbers beyond the range of float32 (3.4e38). Rescale that column.")
    return array
