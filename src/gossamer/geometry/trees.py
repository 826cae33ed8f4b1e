"""Pytrees as flat vectors: the few operations that the geometry modules share.

Sums and norms are taken in at least float32, and results return to each leaf's own dtype, so that a bfloat16 tree
keeps its type without losing its norm.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.tree_util import DictKey, GetAttrKey

PyTree = Any


def widen(x: Any) -> jax.Array:
    """Return `x` as an array of at least float32."""
    x = jnp.asarray(x)
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def safe_norm(x: Any, axis: tuple[int, ...] | None = None) -> jax.Array:
    """Euclidean norm over `axis` (all by default), keeping reduced axes when `axis` is given.

    Scaled by the largest entry, so that squares neither overflow nor vanish in float32.
    """
    x = widen(x)
    keepdims = axis is not None
    largest = jnp.max(jnp.abs(x), axis=axis, keepdims=True, initial=0.0)
    scale = jnp.where(largest > 0, largest, 1.0)
    norm = scale * jnp.sqrt(jnp.sum(jnp.square(x / scale), axis=axis, keepdims=True))
    return norm if keepdims else norm.reshape(())


def tree_norm(tree: PyTree) -> jax.Array:
    """Euclidean norm of the whole tree."""
    return safe_norm(jnp.asarray([safe_norm(leaf) for leaf in jax.tree.leaves(tree)]))


def tree_sum(function: Callable[[jax.Array], jax.Array], leaves: list[Any]) -> jax.Array:
    """Sum of `function` over all entries of `leaves`."""
    return sum((jnp.sum(function(widen(leaf))) for leaf in leaves), start=jnp.zeros(()))


def tree_ravel(tree: PyTree) -> tuple[jax.Array, Callable[[jax.Array], PyTree]]:
    """Return the tree as one vector of at least float32, and the way back to the tree's shapes and dtypes."""
    flat, unravel = ravel_pytree(tree)
    return widen(flat), lambda vector: unravel(vector.astype(flat.dtype))


def map_leaves(function: Callable[[jax.Array], jax.Array], tree: PyTree) -> PyTree:
    """Apply `function` to every leaf in at least float32, keeping the leaf's dtype."""
    return jax.tree.map(lambda leaf: function(widen(leaf)).astype(jnp.asarray(leaf).dtype), tree)


def map_named(
    function: Callable[[jax.Array], jax.Array],
    tree: PyTree,
    exclude: tuple[str, ...],
    otherwise: Callable[[jax.Array], jax.Array] = lambda x: x,
) -> PyTree:
    """Apply `function` to the leaves that `exclude` does not name, and `otherwise` to those that it names."""
    leaves, structure = jax.tree.flatten(tree)
    flags = _named(tree, exclude)
    mapped = [map_leaves(otherwise if flag else function, leaf) for leaf, flag in zip(leaves, flags, strict=True)]
    return jax.tree.unflatten(structure, mapped)


def leaves_not_named(tree: PyTree, exclude: tuple[str, ...]) -> list[Any]:
    """Return the leaves that `exclude` does not name."""
    return [leaf for leaf, flag in zip(jax.tree.leaves(tree), _named(tree, exclude), strict=True) if not flag]


def _named(tree: PyTree, exclude: tuple[str, ...]) -> list[bool]:
    """Say for each leaf whether a dictionary key or attribute on its path is in `exclude`."""
    names = [
        {key.key if isinstance(key, DictKey) else key.name for key in path if isinstance(key, DictKey | GetAttrKey)}
        for path, _ in jax.tree_util.tree_flatten_with_path(tree)[0]
    ]
    known = set().union(*names)
    # A misspelt name would silently penalise the very leaf that was to be spared.
    for name in exclude:
        if name not in known:
            raise ValueError(
                f"exclude={exclude!r} names {name!r}, which is no key or attribute of the parameters; "
                f"use some of {sorted(map(str, known))}"
            )
    return [not own.isdisjoint(exclude) for own in names]
