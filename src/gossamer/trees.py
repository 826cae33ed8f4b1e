"""Arithmetic on pytrees of arrays as if they were vectors."""

from typing import Any

import jax
import jax.numpy as jnp

PyTree = Any


def add(x: PyTree, y: PyTree, scale: jax.Array | float = 1.0) -> PyTree:
    """Return x + scale·y in the precision of x."""
    return jax.tree.map(lambda a, b: (a + scale * b).astype(a.dtype), x, y)


def zeros_like(x: PyTree) -> PyTree:
    """Return the zero vector of the same shape."""
    return jax.tree.map(jnp.zeros_like, x)


def norm(x: PyTree) -> jax.Array:
    """Return the Euclidean norm of a vector of moderate size; `geometry.trees` has one that never overflows."""
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
