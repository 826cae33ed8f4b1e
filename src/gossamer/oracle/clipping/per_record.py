"""The backend for anything: every record's vector, built by `vmap`."""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gossamer.oracle.clipping.factors import Clip, as_blocks, clip_factors, once
from gossamer.oracle.clipping.ghost.contributions import Rows

PyTree = Any


def clipped_sum(h: Callable[[PyTree], PyTree], batch: PyTree, mask: jax.Array, clip: Clip) -> PyTree:
    """Return Σ clip(h(z_i)) over the masked rows, with every vector in memory."""
    vectors = jax.vmap(h)(batch)

    def clipped(held: PyTree) -> PyTree:
        blocks, thresholds = as_blocks(held, clip)
        sums = tuple(_clipped_block(block, mask, c) for block, c in zip(blocks, thresholds, strict=True))
        return sums if isinstance(clip, tuple) else sums[0]

    # Flat before they are stored, or the compiler stores them in an order that neither norms nor sums want.
    flat = jax.tree.map(lambda leaf: leaf.astype(jnp.float32).reshape(len(leaf), math.prod(leaf.shape[1:])), vectors)
    sums = once(clipped, flat)
    return jax.tree.map(lambda leaf, like: leaf.reshape(like.shape[1:]), sums, vectors)


def _clipped_block(block: PyTree, mask: jax.Array, clip: jax.Array | float) -> PyTree:
    squared = sum(Rows(leaf).squared_norms() for leaf in jax.tree.leaves(block))
    weights = clip_factors(jnp.asarray(squared), clip, mask)
    return jax.tree.map(lambda leaf: Rows(leaf).weighted_sum(weights), block)
