"""Pytrees of arrays as if they were vectors.

The plain arithmetic stays in the precision of the leaves. What follows `widen` takes sums and norms in at least float32
and returns results to each leaf's own dtype, so that a bfloat16 tree keeps its type without losing its norm.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import DictKey, GetAttrKey

PyTree = Any


def add(x: PyTree, y: PyTree, scale: jax.Array | float = 1.0) -> PyTree:
    """Return x + scale·y in the precision of x."""
    return jax.tree.map(lambda a, b: (a + scale * b).astype(a.dtype), x, y)


def zeros_like(x: PyTree) -> PyTree:
    """Return the zero vector of the same shape."""
    return jax.tree.map(jnp.zeros_like, x)


def count(x: PyTree) -> int:
    """Return the number of coordinates."""
    return sum(map(np.size, jax.tree.leaves(x)))


def norm(x: PyTree) -> jax.Array:
    """Return the Euclidean norm of a vector of moderate size; `safe_tree_norm` never overflows."""
    return jnp.sqrt(sum((jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(x)), jnp.float32(0)))


def distance(x: PyTree, y: PyTree) -> jax.Array:
    """Return ‖x − y‖."""
    return norm(jax.tree.map(jnp.subtract, x, y))


def dot(x: PyTree, y: PyTree) -> jax.Array:
    """Return the inner product ⟨x, y⟩."""
    return sum(jax.tree.leaves(jax.tree.map(lambda a, b: jnp.sum(a * b), x, y)), jnp.float32(0))


def select(predicate: jax.Array, x: PyTree, y: PyTree) -> PyTree:
    """Return x where the predicate holds, else y."""
    return jax.tree.map(lambda a, b: jnp.where(predicate, a, b), x, y)


def all_finite(x: PyTree) -> jax.Array:
    """Whether every entry is finite."""
    return jnp.all(jnp.array([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(x)]))


def is_key(leaf: Any) -> bool:
    """Return whether a leaf is a key of JAX's random numbers, which no file and no message can hold as it is."""
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


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


def safe_tree_norm(tree: PyTree) -> jax.Array:
    """Euclidean norm of the whole tree, whose squares neither overflow nor vanish."""
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
