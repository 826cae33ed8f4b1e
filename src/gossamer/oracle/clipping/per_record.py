"""The backend for anything: every record's vector, built by `vmap`."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree
from gossamer.oracle.clipping.factors import Clip, as_blocks, clip_factors, once, raised
from gossamer.oracle.clipping.ghost.contributions import Rows
from gossamer.oracle.lattice import Lattice, add_up


def clipped_sum(
    h: Callable[[PyTree], PyTree], batch: PyTree, mask: jax.Array, clip: Clip, lattice: Lattice | None = None
) -> PyTree:
    """Return Σ clip(h(z_i)) over the masked rows, with every vector in memory; on a lattice, if there is one."""
    return clip_vectors(jax.vmap(h)(batch), mask, clip, lattice)


def clip_vectors(vectors: PyTree, mask: jax.Array, clip: Clip, lattice: Lattice | None = None) -> PyTree:
    """Return Σ clip(v_i) over the masked rows of vectors that are in memory; on a lattice, if there is one."""
    for leaf in jax.tree.leaves(vectors):
        if jnp.issubdtype(leaf.dtype, jnp.complexfloating):
            raise TypeError("a query must return real numbers. Return the real and the imaginary part instead.")

    def clipped(held: PyTree) -> PyTree:
        blocks, thresholds = as_blocks(held, clip)
        sums = tuple(_clipped_block(block, mask, c, lattice) for block, c in zip(blocks, thresholds, strict=True))
        return sums if isinstance(clip, tuple) else sums[0]

    # Flat before they are stored, or the compiler stores them in an order that neither norms nor sums want.
    flat = jax.tree.map(lambda leaf: leaf.astype(jnp.float32).reshape(len(leaf), math.prod(leaf.shape[1:])), vectors)
    sums = once(clipped, flat)
    return jax.tree.map(lambda leaf, like: leaf.reshape(like.shape[1:]), sums, vectors)


def _clipped_block(block: PyTree, mask: jax.Array, clip: jax.Array | float, lattice: Lattice | None) -> PyTree:
    squares = [Rows(leaf).squared_norms() for leaf in jax.tree.leaves(block)]
    total = sum(squares, jnp.zeros(mask.shape, jnp.float32))
    weights = clip_factors(raised(total, len(squares)), clip, mask)
    return jax.tree.map(lambda leaf: add_up(lattice, Rows(leaf).added, Rows(leaf).weighted(weights), clip), block)
