"""Each record's contribution to a leaf, held in whichever form is cheapest: its norm, and weighted sums over records.

Every form gives the norm of the vector whose weighted sum it returns, rounded up, if both are computed of the same
stored arrays (`factors.once`). Rounding *before* that vector (in the network's forward and backward passes) changes
what is contributed, never by how much it may exceed the threshold. Where a vector is a sum of terms that may cancel,
each of them is bounded too, by a margin in the norm: a weighted sum over records adds them one by one, and a term of
1e30 that the next one takes back would take other records' parts with it.
"""

from dataclasses import dataclass, field
from typing import Protocol

import jax
import jax.numpy as jnp
from jax import lax

from ..factors import raised, squared_norms, unit
from .sites import Bilinear, Lookup

LEAST_MARGIN = 64
"""The least margin for terms that may cancel, in roundings: no term is then longer than 512 times what is left."""


class Contribution(Protocol):
    """The gradients (or differences) of a batch of records in one value of parameters."""

    def squared_norms(self) -> jax.Array:
        """Return ‖g_i‖² for each record, rounded up."""

    def weighted(self, weights: jax.Array) -> tuple[jax.Array, ...]:
        """Return arrays with one row per record whose `added` is Σ_i s_i g_i over those with s_i > 0.

        The others may hold NaN: they are blanked here.
        """

    def added(self, *rows: jax.Array) -> jax.Array:
        """Add up weighted rows of some of the records."""

    @property
    def wide(self) -> bool:
        """Whether one record's terms may cancel, so that exact sums must be taken in float64."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Rows:
    """Instantiated gradients, one row per record."""

    values: jax.Array

    def squared_norms(self) -> jax.Array:
        """Sum squares."""
        return squared_norms(self.values, self.values.ndim - 1)

    def weighted(self, weights: jax.Array) -> tuple[jax.Array, ...]:
        """Blank the rows of records that do not count."""
        rows = self.values.reshape(len(self.values), -1)
        return _blanked(weights, rows), weights.astype(rows.dtype)

    def added(self, *rows: jax.Array) -> jax.Array:
        """Sum weighted rows."""
        # As a product: the CPU backend's reduction over a leading axis is many times slower.
        values, weights = rows
        return jnp.einsum("bn,b->n", values, weights).reshape(self.values.shape[1:])

    wide = False


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Outer:
    """Gradients a ⊗ d, one position per record, for each of H groups: a is (B, H, n) and d is (B, H, m)."""

    a: jax.Array
    d: jax.Array

    def squared_norms(self) -> jax.Array:
        """‖a‖²‖d‖², summed over groups."""
        return raised((squared_norms(self.a) * squared_norms(self.d)).sum(axis=1), self.a.shape[1])

    def weighted(self, weights: jax.Array) -> tuple[jax.Array, ...]:
        """A and s ⊙ D."""
        return _blanked(weights, self.a), _weigh(weights, self.d)

    def added(self, *rows: jax.Array) -> jax.Array:
        """Aᵀ(s ⊙ D)."""
        return jnp.einsum("bhn,bhm->hnm", *rows)

    wide = False


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class OuterDifference:
    """Differences a1 ⊗ d1 − a2 ⊗ d2 of outer products, held as r ⊗ d1 + a2 ⊗ e without cancellation.

    Exactly, a1 ⊗ d1 − a2 ⊗ d2 = Δa ⊗ d1 + a2 ⊗ Δd, and ‖·‖² = ‖Δa‖²‖d1‖² + ‖a2‖²‖Δd‖² + 2⟨Δa,a2⟩⟨d1,Δd⟩. The two
    terms are as small as the difference unless they cancel each other, as when a grows while d shrinks. So the part
    of Δa along a2 is moved to the other term: with Δa = r + αa2 it is r ⊗ d1 + a2 ⊗ e, e = Δd + αd1, whose terms are
    orthogonal and whose squared norm is a sum of squares. What rounding leaves of ⟨r,a2⟩ is added with its sign, and
    then a margin: an inner product of n terms is wrong by at most n roundings of the product of the lengths, in any
    order, so that the cross term is wrong by at most 2(n + m + 2) of ‖r‖‖a2‖‖d1‖‖e‖, and this is by the inequality of
    means at most n + m + 2 of the two squares' sum. |α| ≤ 1e6 keeps αd1 from overflowing when a2 is all but zero; the
    terms are then not orthogonal, and the margin still covers the cross term.
    """

    r: jax.Array
    d1: jax.Array
    a2: jax.Array
    e: jax.Array

    @staticmethod
    def of(a1: jax.Array, d1: jax.Array, a2: jax.Array, d2: jax.Array) -> "OuterDifference":
        """Split the difference of a1 ⊗ d1 and a2 ⊗ d2."""
        da, dd = a1 - a2, d1 - d2
        length = jnp.sum(a2 * a2, axis=-1, keepdims=True)
        alpha = jnp.sum(da * a2, axis=-1, keepdims=True) / jnp.where(length > 0, length, 1.0)
        alpha = jnp.clip(alpha, -1e6, 1e6)
        return OuterDifference(da - alpha * a2, d1, a2, dd + alpha * d1)

    def squared_norms(self) -> jax.Array:
        """‖r‖²‖d1‖² + ‖a2‖²‖e‖² + 2⟨r,a2⟩⟨d1,e⟩ and a margin for the rounding of the last term."""
        r, d1, a2, e = (squared_norms(x) for x in (self.r, self.d1, self.a2, self.e))
        squares = raised(r * d1 + a2 * e, 2)
        cross = 2.0 * jnp.sum(self.r * self.a2, axis=-1) * jnp.sum(self.d1 * self.e, axis=-1)
        margin = _margin(squares, self.r.shape[-1] + self.d1.shape[-1])
        # The lengths of both terms may not be more than twice the norm: `gossamer.oracle.lattice` needs that. They are
        # at most √2 of it where the terms are orthogonal.
        lengths = raised(jnp.square(jnp.sqrt(r * d1) + jnp.sqrt(a2 * e)) / 4, 4)
        norms = jnp.maximum(jnp.maximum(squares + cross, 0.0) + margin, lengths)
        return raised(norms.sum(axis=1), self.r.shape[1])

    def weighted(self, weights: jax.Array) -> tuple[jax.Array, ...]:
        """R, s ⊙ D1, A2 and s ⊙ E."""
        first, second = Outer(self.r, self.d1), Outer(self.a2, self.e)
        return *first.weighted(weights), *second.weighted(weights)

    def added(self, *rows: jax.Array) -> jax.Array:
        """Rᵀ(s ⊙ D1) + A2ᵀ(s ⊙ E)."""
        return jnp.einsum("bhn,bhm->hnm", *rows[:2]) + jnp.einsum("bhn,bhm->hnm", *rows[2:])

    wide = False


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Gram:
    """Gradients Σ_t a_t ⊗ d_t over few positions of a large site: a is (B, H, T, n) and d is (B, H, T, m).

    ‖Σ_t a_t ⊗ d_t‖² = Σ_tu ⟨a_t,a_u⟩⟨d_t,d_u⟩. Its terms may cancel. Inner products of n and m terms, their product and
    two sums of T terms are wrong, in any order, by at most n + m + 1 + 2T roundings of ‖a_t‖‖a_u‖‖d_t‖‖d_u‖, and these
    add up to (Σ_t ‖a_t‖‖d_t‖)²: that margin is added.
    """

    a: jax.Array
    d: jax.Array

    def squared_norms(self) -> jax.Array:
        """Sum the product of the two Gram matrices."""
        alike = jnp.einsum("bhtn,bhun->bhtu", self.a, self.a)
        errors = jnp.einsum("bhtm,bhum->bhtu", self.d, self.d)
        (_, groups, positions, n), m = self.a.shape, self.d.shape[-1]
        # Two sums of T terms, not one of T²: the barrier keeps the compiler from merging them.
        total = lax.optimization_barrier((alike * errors).sum(axis=-1)).sum(axis=-1)
        lengths = raised(jnp.sqrt(squared_norms(self.a) * squared_norms(self.d)).sum(axis=-1), positions)
        margin = _margin(lengths**2, n + m + 2 * positions)
        return raised((jnp.maximum(total, 0.0) + margin).sum(axis=1), groups)

    def weighted(self, weights: jax.Array) -> tuple[jax.Array, ...]:
        """A and s ⊙ D."""
        return _blanked(weights, self.a), _weigh(weights, self.d)

    def added(self, *rows: jax.Array) -> jax.Array:
        """Aᵀ(s ⊙ D) over all records and positions at once."""
        return jnp.einsum("bhtn,bhtm->hnm", *rows)

    wide = True


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Spread:
    """Gradients of looked-up rows: the error at each position, added to the row it was read from."""

    lookup: Lookup = field(metadata={"static": True})
    indices: tuple[jax.Array, ...]
    error: jax.Array

    def squared_norms(self) -> jax.Array:
        """Add the errors of positions that read the same row, then sum squares.

        Positions are merged by a 0/1 matrix that sends each to the first that reads its row; rows outside the table
        are dropped. Errors that are merged may cancel: T of them added in any order are wrong by at most T roundings of
        Σ_t ‖d_t‖, and a square of the sum by twice that of (Σ_t ‖d_t‖)².
        """
        d = self.lookup.columns(self.error)
        if self.lookup.rows is None:
            return squared_norms(d, 2)
        rows = self.lookup.rows(*self.indices)
        first = jnp.argmax(rows[:, :, None] == rows[:, None, :], axis=-1)
        slots = jnp.arange(self.lookup.positions)
        merge = (first[:, None, :] == slots[:, None]) & (rows[:, None, :] >= 0)
        merged = jnp.einsum("btu,bud->btd", merge.astype(d.dtype), d)
        lengths = raised(jnp.sqrt(squared_norms(d)).sum(axis=-1), self.lookup.positions)
        return squared_norms(merged, 2) + _margin(lengths**2, 2 * self.lookup.positions)

    def weighted(self, weights: jax.Array) -> tuple[jax.Array, ...]:
        """Row numbers, and weighted errors."""
        return *self.indices, _weigh(weights, self.error)

    def added(self, *rows: jax.Array) -> jax.Array:
        """Add the weighted errors of all records to their rows."""
        *indices, errors = rows
        return self.lookup.spread(indices, errors)

    wide = True


def instantiated(site: Bilinear) -> bool:
    """Whether building Σ_t a_t ⊗ d_t takes no more than twice the memory of its factors.

    What is built is read several times, for its norm and its sum; Gram matrices cost little beside that, and sums of
    factors in float64 about as much as building.
    """
    return site.positions > 1 and site.n * site.m <= 2 * site.positions * (site.n + site.m)


def bilinear_gradient(site: Bilinear, x: jax.Array, d: jax.Array) -> Contribution:
    """Hold the gradients of a bilinear site, with input x and error d, in the cheapest form."""
    if instantiated(site):
        return Rows(bilinear_rows(site, x, d))
    a, d = site.rows(x), site.columns(d)
    return Outer(a[:, :, 0], d[:, :, 0]) if site.positions == 1 else Gram(a, d)


def bilinear_difference(site: Bilinear, x1: jax.Array, d1: jax.Array, x2: jax.Array, d2: jax.Array) -> Contribution:
    """Hold the differences of a bilinear site's gradients at two points in the cheapest form."""
    if site.positions == 1:
        a1, d1, a2, d2 = (x[:, :, 0] for x in (site.rows(x1), site.columns(d1), site.rows(x2), site.columns(d2)))
        return OuterDifference.of(a1, d1, a2, d2)
    if instantiated(site):
        return Rows(bilinear_rows_difference(site, x1, d1, x2, d2))
    a = jnp.concatenate([site.rows(x1 - x2), site.rows(x2)], axis=2)
    return Gram(a, jnp.concatenate([site.columns(d1), site.columns(d1 - d2)], axis=2))


def bilinear_rows(site: Bilinear, x: jax.Array, d: jax.Array) -> jax.Array:
    """Instantiate Σ_t a_t ⊗ d_t by one batched product."""
    # Adding 0 · d delays the patches of a convolution until the error is there: otherwise the compiler makes all
    # of them in the forward pass and keeps them. (Where it is NaN the record's gradient is not finite anyway.)
    x = x + 0.0 * d.reshape(len(d), -1)[:, 0].reshape(-1, *(1,) * (x.ndim - 1))
    return jnp.einsum("bhtn,bhtm->bhnm", site.rows(x), site.columns(d))


def bilinear_rows_difference(site: Bilinear, x1: jax.Array, d1: jax.Array, x2: jax.Array, d2: jax.Array) -> jax.Array:
    """Instantiate the differences, as Σ_t Δa_t ⊗ d1_t + Σ_t a2_t ⊗ Δd_t."""
    return bilinear_rows(site, x1 - x2, d1) + bilinear_rows(site, x2, d1 - d2)


def _margin(terms: jax.Array, roundings: int) -> jax.Array:
    """Return what so many roundings of these terms come to; a few more pay for the rounding of the margin itself."""
    return max(LEAST_MARGIN, roundings + 8) * unit(terms) * terms


def _blanked(weights: jax.Array, a: jax.Array) -> jax.Array:
    """Leave out the rows of records that do not count, since 0 · NaN is NaN.

    That copies a, so it is done only if some of it is not finite. The branch chooses operands and not programs: whether
    one record is finite must not change how others are added up.
    """
    finite = jnp.isfinite(squared_norms(a)).all()
    return lax.cond(finite, lambda a: a, lambda a: jnp.where(_align(weights, a) > 0, a, 0.0), a)


def _weigh(weights: jax.Array, x: jax.Array) -> jax.Array:
    """Multiply rows by weights, blanking those of records that do not count."""
    weights = _align(weights, x)
    return jnp.where(weights > 0, weights * x, 0.0)


def _align(weights: jax.Array, x: jax.Array) -> jax.Array:
    return weights.astype(x.dtype).reshape(-1, *(1,) * (x.ndim - 1))
