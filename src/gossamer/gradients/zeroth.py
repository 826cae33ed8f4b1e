"""Gradients from values alone: the smoothed loss f̂(x) = E f(x + radius·v), v uniform in the unit ball.

GRAD(x; z)    = mean over directions u of (d/2r)(f(x + ru; z) − f(x − ru; z)) u          has mean ∇f̂(x; z)
DIFF(x, y; z) = GRAD(x; z) − GRAD(y; z), both with the same directions u                 has mean ∇f̂(x; z) − ∇f̂(y; z)

with u uniform on the unit sphere of the d parameters (paper ZO, Algorithms 1 and 2; Lemma 2.2 for the means).
*Changed:* in print DIFF is the one-sided (d/r)(f(x + ru) − f(y + ru)) u. It has the same mean, but even for a linear f,
whose gradients do not differ at all, it is √d·|f(x) − f(y)|/r long; the two-sided one is zero there, for twice
the evaluations. What is clipped and covered by noise is that length.

Each record has directions of its own, drawn from a public key and the record's bits: h stays a function of one record,
which is all that the door asks of it, and the directions' noise averages out over a batch. `shared` directions are
those of the key alone: then a sample of any size is evaluated at 2·directions points, which is what a Python
function that takes batches wants.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from gossamer.base.trees import PyTree
from gossamer.oracle import Value

Evaluate = Callable[[PyTree, PyTree], jax.Array]


def smoothed_gradient(
    value: Evaluate, at: PyTree, radius: float, directions: int | None, key: jax.Array, shared: bool = False
) -> Value:
    """Return the query GRAD(at; z). `directions` is their number, None for one per parameter."""

    def h(record: PyTree) -> PyTree:
        flat, restore = ravel_pytree(at)
        u = _directions(key, record, directions, flat.size, shared)
        return restore(_estimate(_over_vectors(value, restore, record), flat, radius, u))

    return Value(h)


def smoothed_difference(
    value: Evaluate,
    at: PyTree,
    other: PyTree,
    radius: float,
    directions: int | None,
    key: jax.Array,
    shared: bool = False,
) -> Value:
    """Return the query DIFF(at, other; z)."""

    def h(record: PyTree) -> PyTree:
        here, restore = ravel_pytree(at)
        there, _ = ravel_pytree(other)
        u = _directions(key, record, directions, here.size, shared)
        f = _over_vectors(value, restore, record)
        return restore(_estimate(f, here, radius, u) - _estimate(f, there, radius, u))

    return Value(h)


def _over_vectors(value: Evaluate, restore: Callable, record: PyTree) -> Callable[[jax.Array], jax.Array]:
    return lambda vector: value(restore(vector), record)


def _estimate(f: Callable[[jax.Array], jax.Array], x: jax.Array, radius: float, u: jax.Array) -> jax.Array:
    """Return the mean over the rows of u of (d/2r)(f(x + ru) − f(x − ru)) u."""
    count, d = u.shape
    # Two calls and not one on both sets of points: a Python function is handed what `vmap` makes of each.
    rises = jax.vmap(f)(x + radius * u) - jax.vmap(f)(x - radius * u)
    with jax.default_matmul_precision("highest"):
        return (d / (2 * radius * count)) * (rises @ u)


def _directions(key: jax.Array, record: PyTree, count: int | None, d: int, shared: bool) -> jax.Array:
    """Return `count` independent unit vectors, as rows."""
    normals = jax.random.normal(key if shared else _own_key(key, record), (d if count is None else count, d))
    return normals / jnp.linalg.norm(normals, axis=1, keepdims=True)


def _own_key(key: jax.Array, record: PyTree) -> jax.Array:
    """Return a key of the record's own: a hash of the record's words and their places, folded into the public key.

    Records that hash alike share directions, which costs a little variance and no privacy.
    """
    words = jnp.concatenate([jnp.ravel(_bits(leaf)) for leaf in jax.tree.leaves(record)])
    for factor in (0x45D9F3B, 0x119DE1F3):
        words = (words ^ (words >> 16)) * jnp.uint32(factor) + jnp.arange(words.size, dtype=jnp.uint32)
    return jax.random.fold_in(key, jnp.sum(words ^ (words >> 15), dtype=jnp.uint32))


def _bits(leaf: jax.Array) -> jax.Array:
    if jnp.issubdtype(leaf.dtype, jnp.inexact):
        return jax.lax.bitcast_convert_type(leaf.astype(jnp.float32), jnp.uint32)
    return leaf.astype(jnp.uint32)
