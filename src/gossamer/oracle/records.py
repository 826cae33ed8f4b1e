"""The table behind the door: checked once, before anything is spent."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

PyTree = Any


def check_records(data: PyTree) -> tuple[PyTree, int]:
    """Return the table as device arrays, and its number of records n.

    These checks speak to the owner of the data, before the first query: what they say is outside the guarantee.
    """
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
    for path, leaf in leaves:
        if jnp.issubdtype(leaf.dtype, jnp.inexact) and not bool(np.all(np.isfinite(leaf))):
            raise ValueError(
                f"data{jax.tree_util.keystr(path)} has NaN or infinite entries. Drop or impute those records first."
            )
    return jax.tree.map(_on_device, data), n


def _on_device(leaf: Any) -> jax.Array:
    array = jnp.asarray(leaf)
    if jnp.issubdtype(array.dtype, jnp.integer) and not np.array_equal(np.asarray(array), np.asarray(leaf)):
        raise ValueError("data has integers beyond 32 bits. Rescale or re-encode that column.")
    if not jnp.issubdtype(array.dtype, jnp.inexact):
        return array
    if not bool(jnp.all(jnp.isfinite(array))):
        raise ValueError("data has numbers beyond the range of float32 (3.4e38). Rescale that column.")
    return array
