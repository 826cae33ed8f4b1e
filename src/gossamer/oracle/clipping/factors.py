"""How much of each record's vector survives clipping: the one rule every backend shares."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

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
