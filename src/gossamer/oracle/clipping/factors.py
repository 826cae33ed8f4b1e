"""How much of each record's vector survives clipping, and of which vector: the rules every backend shares."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

Clip = Any
"""A threshold, or a tuple of thresholds: one for each block of a tuple-valued query."""

SMALLEST_CLIP = 1e-12
"""A square below 1e-38 is lost in float32: up to 1e8 entries of 1e-19 hide a norm of 1e-15, a thousandth of this."""


def clip_factors(squared_norms: jax.Array, clip: jax.Array | float, mask: jax.Array) -> jax.Array:
    """Return s_i = min(1, C/‖v_i‖) for rows that count and 0 for the others.

    A row counts when its mask is set and its squared norm is finite in float32: a record whose vector
    is NaN, infinite or longer than about 1e19 contributes zero, like any other bounded contribution.
    The caller must still replace non-finite entries before it multiplies, since 0 · NaN is NaN. Below
    `SMALLEST_CLIP` nothing counts: squares of such small vectors underflow, and their norms could not be trusted.
    """
    squared_norms = squared_norms.astype(jnp.float32)
    clip = jnp.asarray(clip, jnp.float32)
    norms = jnp.sqrt(squared_norms)
    factors = jnp.where(norms > clip, clip / jnp.where(norms > 0, norms, 1.0), 1.0)
    return jnp.where(mask & jnp.isfinite(squared_norms) & ~(clip < SMALLEST_CLIP), factors, 0.0)


def once(compute: Callable[[Any], Any], vectors: Any) -> Any:
    """Return compute(vectors), where all that is computed of the vectors is computed of the same numbers.

    A compiler may make a vector anew for each of its uses, and round it differently there: with a product and a sum
    rounded together here, apart there. Where its terms cancel, a vector that is 0 for its norm may then be as long as
    one likes in the sum. So the vectors are stored before `compute`, as what a branch is given, and neither taken apart
    nor made again behind that: the barrier tells the compiler so while it simplifies, the branch while it fuses.
    """
    shapes = jax.eval_shape(compute, vectors)

    def never(_: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    always, vectors = lax.optimization_barrier((jnp.bool_(True), vectors))
    return lax.cond(always, compute, never, vectors)


def as_blocks(tree: Any, clip: Clip) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Split a query's value into blocks, one per threshold: a scalar clip makes the whole tree one block."""
    if not isinstance(clip, tuple):
        return (tree,), (clip,)
    if not isinstance(tree, Sequence) or len(tree) != len(clip):
        got = f"a tuple of {len(tree)}" if isinstance(tree, Sequence) else f"a {type(tree).__name__}"
        raise ValueError(
            f"clip has {len(clip)} thresholds, so the query must return a tuple of {len(clip)} blocks, not {got}. "
            "Pass one number to clip all of it by its joint norm."
        )
    return tuple(tree), clip
