"""Second moments of unit rows, in products of whole blocks: a record's vector is the outer product of its row.

A row that came out a little longer than 1 is shortened by half of its factor on each side of the product, so that what
is added up is the outer product of one vector with itself: the angle between two of them is acute in the very numbers
that are added.

A person's matrix has many rows, whose products would have to be added up in the block: it is made and stored instead,
and added up like any vector (`per_record`).
"""

import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree
from gossamer.oracle.clipping.factors import clip_factors, once, raised, squared_norms
from gossamer.oracle.lattice import Lattice, add_up
from gossamer.oracle.queries import SecondMoments, triangle, unit_rows, weighted


def clipped_sum(
    h: SecondMoments, batch: PyTree, mask: jax.Array, clip: jax.Array | float, lattice: Lattice | None = None
) -> jax.Array:
    """Return Σ clip(h(z_i)) over the masked rows; on a lattice, if there is one.

    For the lattice's count of roundings: a record's absolute terms have norm ‖x̂‖² ≤ C, and a block's products are
    multiplied by √2 once after they were added up, one rounding more than other sums have.
    """
    rows = unit_rows(jax.vmap(h.row)(batch).astype(jnp.float32))

    def clipped(rows: jax.Array) -> jax.Array:
        vectors = rows * rows if h.diagonal else rows
        lengths = squared_norms(vectors) if h.diagonal else raised(squared_norms(rows) ** 2, 2)
        factors = clip_factors(lengths, clip, mask)[:, None]
        if h.diagonal:
            shortened = jnp.where(factors > 0, vectors, 0.0) * factors
            return add_up(lattice, lambda v: jnp.sum(v, axis=0), (shortened,), clip)
        # The root's rounding on each side is one of the few that clipping is charged for.
        shortened = jnp.where(factors > 0, rows, 0.0) * jnp.sqrt(factors)
        return triangle(add_up(lattice, lambda x: weighted(x.T @ x), (shortened,), clip))

    return once(clipped, rows)
