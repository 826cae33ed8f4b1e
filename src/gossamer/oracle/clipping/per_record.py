"""The backend for anything: every record's vector, built by `vmap`."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from gossamer.oracle.clipping.factors import Clip, as_blocks, clip_factors

PyTree = Any


def clipped_sum(h: Callable[[PyTree], PyTree], batch: PyTree, mask: jax.Array, clip: Clip) -> PyTree:
    """Return Σ clip(h(z_i)) over the masked rows, with every vector in memory."""
    blocks, thresholds = as_blocks(jax.vmap(h)(batch), clip)
    sums = tuple(_clipped_block(block, mask, c) for block, c in zip(blocks, thresholds, strict=True))
    return sums if isinstance(clip, tuple) else sums[0]


def _clipped_block(vectors: PyTree, mask: jax.Array, clip: jax.Array | float) -> PyTree:
    leaves = [leaf.astype(jnp.float32) for leaf in jax.tree.leaves(vectors)]
    squared = sum(jnp.sum(jnp.square(leaf.reshape(leaf.shape[0], -1)), axis=1) for leaf in leaves)
    factors = clip_factors(jnp.asarray(squared), clip, mask)

    def weighted_sum(leaf: jax.Array) -> jax.Array:
        leaf = leaf.astype(jnp.float32)
        counts = (factors > 0).reshape((-1,) + (1,) * (leaf.ndim - 1))
        return jnp.tensordot(factors, jnp.where(counts, leaf, 0.0), axes=1)

    return jax.tree.map(weighted_sum, vectors)
