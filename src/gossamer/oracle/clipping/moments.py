"""Second moments and outer products, in products of whole blocks: a record is one vector, or a few, by themselves.

A vector is shortened by the root of its factor on each side of the product, so that what is added up is the outer
product of one vector with itself: the angle between two of them is acute in the very numbers that are added.

A person's matrix has many rows, whose products would have to be added up in the block: it is made and stored instead,
and added up like any vector (`per_record`).
"""

import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree
from gossamer.oracle.clipping.factors import clip_factors, once, raised, squared_norms
from gossamer.oracle.lattice import Lattice, add_up
from gossamer.oracle.queries import OuterProducts, SecondMoments, triangle, unit_rows, weighted


def clipped_sum(
    h: SecondMoments | OuterProducts,
    batch: PyTree,
    mask: jax.Array,
    clip: jax.Array | float,
    lattice: Lattice | None = None,
) -> jax.Array:
    """Return Σ clip(h(z_i)) over the masked rows; on a lattice, if there is one.

    For the lattice's count of roundings: a record's absolute terms have norm (Σ_j ‖v_j‖⁴)^½ ≤ C, and a block's products
    are multiplied by √2 once after they were added up, one rounding more than other sums have.
    """
    if isinstance(h, OuterProducts):
        return once(lambda v: _products(v, mask, clip, lattice), jax.vmap(h.vectors)(batch).astype(jnp.float32))
    rows = unit_rows(jax.vmap(h.row)(batch).astype(jnp.float32))
    if not h.diagonal:
        return once(lambda rows: _products(rows[:, None], mask, clip, lattice)[0], rows)

    def clipped(rows: jax.Array) -> jax.Array:
        squares = rows * rows
        factors = clip_factors(squared_norms(squares), clip, mask)[:, None]
        shortened = jnp.where(factors > 0, squares, 0.0) * factors
        return add_up(lattice, lambda v: jnp.sum(v, axis=0), (shortened,), clip)

    return once(clipped, rows)


def _products(vectors: jax.Array, mask: jax.Array, clip: jax.Array | float, lattice: Lattice | None) -> jax.Array:
    """Return the clipped sums of k outer products of each record: triangles, one under the other."""
    count = vectors.shape[1]
    # Where a fourth power underflows, the product is shorter than any threshold that counts.
    lengths = raised(jnp.sum(squared_norms(vectors) ** 2, axis=-1), 1 + count)
    factors = clip_factors(lengths, clip, mask)[:, None, None]
    # The root's rounding on each side is one of the few that clipping is charged for.
    shortened = jnp.where(factors > 0, vectors, 0.0) * jnp.sqrt(factors)
    total = add_up(
        lattice,
        lambda *stacks: jnp.stack([weighted(v.T @ v) for v in stacks]),
        tuple(shortened[:, j] for j in range(count)),
        clip,
    )
    return jnp.stack([triangle(square) for square in total])
