"""Sums that are exact, so that the guarantee is about the bits that are released.

Noise in floating point does not hide a floating-point sum: of all numbers fl(sum + noise) about a tenth are out of
reach of a given sum, and which ones tells tables apart. So nothing is released but whole numbers plus whole numbers:

    points = 2^β / C                                     lattice points per unit of the sum
    k_B    = rint(points · fl32(Σ_{i∈B} s_i v_i))        for each block B of 64 records: float32 within, float64 here
    K      = Σ_B k_B                                     over blocks, chunks and shards: whole numbers below 2^53, exact
    J      = rint(σ 2^β Z), Z standard normal            `gossamer.oracle.integer_noise`
    answer = float32((K + J) · C 2^-β / m)               a function of the whole number K + J alone

**Theorem.** Let an accountant say that the run with noise multipliers σ/(1 + ι) on real numbers is (ε, δ)-private. Then
what is released is (ε + 2a, e^a δ + (1 + e^(ε + a))δ′)-private, with ι = `arithmetic.INFLATION`, and a and δ′ from
`integer_noise`. (δ′ is what tails beyond 14 deviations weigh: less than 2^-114.)

*Proof.* (i) *Ideal noise.* Let G be an exact normal of deviation σ2^β. K is whole, so K + rint(G) = rint(K + G): a
function of the Gaussian mechanism on K. If a record moves K by at most (1 + ι)·Δ·2^β, Δ what the accountant assumes
(C or 2C) in units of C, that is a Gaussian query of multiplier σ/(1 + ι). Ties have probability 0.
(ii) *Real noise.* All J together have the law of the ideal ones up to a factor e^±a and δ′, whatever was answered
before. So P̃(A) ≤ e^a P(A) + δ′ ≤ e^a (e^ε Q(A) + δ) + δ′ ≤ e^(ε + a) (e^a Q̃(A) + δ′) + e^a δ + δ′. ∎

**How far one record moves K.** Take two tables that differ in one record, and the same sample in the same slots, with
the record, without it, or with another in its place. All other records' vectors and factors have the same bits, being
functions of the record, its slot and public numbers (locality: assumed, and tested). So one block changes. Its vectors
have norms of at most C(1 + 1e-6) each, `clip_factors` says why. In units of C:

* *clipping*: 1 + 1e-6, or twice that where a record is replaced;
* *block*: R terms added in any order, products fused or not, are wrong by at most (R + 1)u Σ|terms| in each coordinate,
  u = 2^-24. The norm of that over coordinates is at most (R + 1)u Σ_i S_i, where S_i bounds the norm of the absolute
  terms of record i: C where a record's vector is one row or one outer product, since ‖|a| ⊗ |d|‖ = ‖a‖‖d‖; 2C where it
  is a sum of two outer products, whose `squared_norms` counts half the sum of their lengths as a norm. Twice, for the
  two sums: at most 2·64·66·2u = 1.01e-3. Leaves are cut in the same blocks, and Minkowski's inequality adds up errors.
  Forms with many positions are added up in float64, where the same bound is below 1e-5 for 10^4 positions.
  A person (`gossamer.oracle.people`) is a record of many positions, its rows. Its vector is made and stored before it
  is measured and added (linear, second moments, vmap, instantiated ghost), so that it is one row here, however many
  rows it came from; or it is such a form with many positions (Gram, lookups), added up in float64. A block has 64
  persons in either case.
* *lattice*: rint moves each of two sums by half a point per coordinate, and their difference by √d points at most:
  √d 2^-β ≤ 1.3e-4 for the d that are answered.
* *underflow*: a number below 1.2e-38 counts as 0. In s·d that loses at most 1.2e-38·√m·‖a‖, and ‖a‖ < 2e19, or its
  square would not be finite. For 64 records, two sums and m ≤ 2^26 this is 2.5e-13, or 2.5e-5 of C ≥ `SMALLEST_CLIP`.

Empty slots show some record with a factor of 0, blanked if it is not finite: they add zeros to a float32 sum, which
does not change unless it is zero itself, and then in its sign at most. Negative zeros end where points become
integers: an integer has one zero. The set of whole numbers that can be released does not depend on the table.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gossamer.privacy import arithmetic

BLOCK = 64
"""How many records are added up in float32."""

TOLERANCE = 1e-3
"""By how much a sum may be seen to pass what its records may add up to before the run is stopped."""

_LARGE, _ROOM = 1 << 15, 1 << 22
"""From how many numbers on a total is large, and how many the blocks of one turn may have together: 16 MB."""

Product = Callable[..., jax.Array]
"""Adds up products of its operands over their leading axis, the records."""


@dataclass(frozen=True)
class Lattice:
    """The lattice of one query's sums: a threshold has 2^bits points."""

    bits: int

    def add_up(self, product: Product, operands: tuple[jax.Array, ...], clip: Any, wide: bool = False) -> jax.Array:
        """Return Σ over records in lattice points: whole numbers held in float64.

        Args:
          product: what adds up one block.
          operands: arrays with one row per record, clipped.
          clip: the threshold that they were clipped at.
          wide: whether each block is added up in float64, because terms of one record may cancel.
        """
        size = operands[0].shape[0]

        def part(start: Any, rows: int) -> jax.Array:
            cut = [lax.dynamic_slice_in_dim(x, start, rows) for x in operands] if rows < size else operands
            if wide:
                with jax.enable_x64(True):
                    return self.rounded(product(*(_wide(x) for x in cut)), clip)
            return self.rounded(product(*cut), clip)

        whole, rest = divmod(size, BLOCK)
        if size <= BLOCK:
            return part(0, size)
        last = part(whole * BLOCK, rest) if rest else None
        with jax.enable_x64(True):
            shape = jax.eval_shape(lambda: part(0, BLOCK)).shape
            zero = jnp.zeros(shape, jnp.float64)
            total = zero if last is None else last
            # Several blocks at a turn, where the total is large: it is then read and written less often.
            numbers = math.prod(shape)
            at_a_turn = max(1, min(8, _ROOM // numbers)) if numbers >= _LARGE else 1
            ends = np.int32(0), np.int32(whole)
            return lax.fori_loop(*ends, lambda i, t: t + part(i * BLOCK, BLOCK), total, unroll=at_a_turn)

    def rounded(self, total: jax.Array, clip: Any) -> jax.Array:
        """Return a sum as lattice points."""
        with jax.enable_x64(True):
            return jnp.rint(total.astype(jnp.float64) * self.points(clip))

    def fits(self, total: Any, count: jax.Array, rows: int) -> jax.Array:
        """Whether points may be the sum of `count` clipped records, in `rows` rows: like `factors.fits`."""
        blocks = -(-rows // BLOCK)
        with jax.enable_x64(True):
            leaves = [leaf * 2.0**-self.bits for leaf in jax.tree.leaves(total)]
            slack = 0.5 * blocks * 2.0**-self.bits * sum(leaf.size for leaf in leaves) ** 0.5
            length = jnp.sqrt(sum(jnp.sum(jnp.square(leaf)) for leaf in leaves))
            return length <= count.astype(jnp.float64) * (1 + TOLERANCE) + slack

    def affords(self, multiplier: Any, numbers: int) -> jax.Array:
        """Whether so many numbers of noise of this multiplier are no more than the sampler's error is charged for."""
        with jax.enable_x64(True):
            deviation = jnp.asarray(multiplier, jnp.float64) * 2.0**self.bits
            few = (numbers <= arithmetic.MOST_NUMBERS) & (deviation * float(numbers) <= arithmetic.MOST_NOISE)
            return few & (deviation <= arithmetic.LARGEST_NOISE)

    def check(self, total: Any) -> None:
        """Refuse an answer of so many numbers that rounding them could cost more than is charged."""
        coordinates, most = sum(x.size for x in jax.tree.leaves(total)), arithmetic.most_coordinates(self.bits)
        if coordinates > most:
            raise ValueError(
                f"an answer has {coordinates} numbers; on a lattice of {self.bits} bits it may have at most {most}. "
                "Ask about fewer parameters at a time."
            )

    def released(self, total: Any, noise: Any, clip: Any, size: Any) -> Any:
        """Return (K + J)·C·2^-β/m in float32; NaN where the sum is NaN or could not be exact.

        Everything behind K + J is computed of that whole number alone.
        """
        if isinstance(clip, tuple):
            return tuple(self.released(*block, size) for block in zip(total, noise, clip, strict=True))

        def one(points: jax.Array, noise: jax.Array) -> jax.Array:
            exact = jnp.abs(points) < 2.0**53  # also false where it is NaN
            whole = jnp.where(exact, points, 0.0).astype(jnp.int64) + noise
            unit = jnp.asarray(clip).astype(jnp.float64) * (2.0**-self.bits / size)
            return jnp.where(exact, whole.astype(jnp.float64) * unit, jnp.nan).astype(jnp.float32)

        with jax.enable_x64(True):
            return jax.tree.map(one, total, noise)

    def in_thresholds(self, points: jax.Array) -> jax.Array:
        """Return points in units of the threshold, in float32: for those who look at sums, as audits do."""
        with jax.enable_x64(True):
            return (points * 2.0**-self.bits).astype(jnp.float32)

    def points(self, clip: Any) -> jax.Array:
        """Return how many lattice points a unit of the sum has; at a threshold of 0 there is nothing to add up."""
        with jax.enable_x64(True):
            clip = jnp.asarray(clip).astype(jnp.float64)
            return jnp.where(clip > 0, 2.0**self.bits / jnp.where(clip > 0, clip, 1.0), 0.0 * clip)


def add_up(
    lattice: Lattice | None, product: Product, operands: tuple[jax.Array, ...], clip: Any, wide: bool = False
) -> jax.Array:
    """Return Σ over records: in lattice points, or without a lattice as plain floats, which no noise could hide."""
    return product(*operands) if lattice is None else lattice.add_up(product, operands, clip, wide)


def zeros_like(shapes: Any) -> Any:
    """Return zeros of these shapes and types, float64 among them."""
    with jax.enable_x64(True):
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


def _wide(x: jax.Array) -> jax.Array:
    return x.astype(jnp.float64) if jnp.issubdtype(x.dtype, jnp.floating) else x
