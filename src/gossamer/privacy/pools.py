"""What a budget that many runs share is divided into: pools, whose sizes are fixed when it is granted.

*Privacy.* A budget (ε, δ) is divided once: a Gaussian pool r, tails S, samples that are cut D, and a pair (e, d) that
is set aside for what is known by an ε and a δ alone, such that

    d + S + D + δ_√r(ε − e) ≤ δ.

A run takes its envelope (μ_j², s_j) from (r, S) and (1 + e^ε)τ_j from D, τ_j the chance that its samples are not ideal
ones and ε that of the whole budget; or it takes (ε_j, δ_j) from (e, d). If no pool is ever overdrawn, everything
together is (ε, δ)-DP, however runs and their costs are chosen after looking at earlier results.

*Proof.* Let runs be ideal first. The claim is, with what is left of the pools, that all runs to come have
H_γ ≤ φ(γ) = d + S + (1 − S)·H_{γ/exp(e)}(G_√r). It is proved by induction on their number. If the next one takes an
envelope, `gossamer.privacy.envelope` has the step; d and e do not change. If it takes (ε₁, δ₁), let φ₁ be the φ of what
is left after it. Its loss L is at most ε₁ but for a chance δ₁, in the pair that dominates it, and φ₁ is at most 1 and
falls: E φ₁(γe^(−L)) ≤ δ₁ + φ₁(γe^(−ε₁)), which is φ(γ). At last, real runs differ from ideal ones with a chance of at
most Στ_j ≤ D/(1 + e^ε) on either table, which adds (1 + e^ε)Στ_j ≤ D to δ (`accounting.capacities`). ∎

The sums are exact: amounts are decimals, rounded up where a run is charged and down where a pool is made.
"""

import decimal
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from gossamer.base.exceptions import AccountingError
from gossamer.privacy import accounting
from gossamer.privacy.budget import Budget
from gossamer.privacy.envelope import envelope, largest_gaussian
from gossamer.privacy.planning import Plan

TAILS = 0.01
"""S, as a share of the δ that is not set aside."""
CUTS = 0.05
"""D, as a share of it. Samples of a run are cut so rarely that this is seldom the pool that is empty first."""
_LEAST_TAIL = accounting.SMALLEST_DELTA
_DIGITS = 12
# Sums of float64 numbers in decimal need less than 700 digits; a sum that needed more would be an error, not rounded.
_EXACT = decimal.Context(prec=1000, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow])


class Amount(NamedTuple):
    """What is in the pools, or taken from them, exactly: the decimal numbers that were written down."""

    epsilon: Decimal = Decimal(0)
    """e, of what is known by its pair (ε, δ)."""
    delta: Decimal = Decimal(0)
    """d, of the same."""
    variance: Decimal = Decimal(0)
    """r = μ², of Gaussians."""
    tail: Decimal = Decimal(0)
    """S, of what their envelopes leave to chance."""
    cut: Decimal = Decimal(0)
    """D, of samples that are cut."""

    def __str__(self) -> str:
        pair = f"epsilon = {shown(self.epsilon)}, delta = {shown(self.delta)}"
        return (
            pair
            if not self.is_enveloped
            else f"mu^2 = {float(self.variance):.6g}" + (f", and {pair} set aside" if self.epsilon else "")
        )

    @property
    def is_enveloped(self) -> bool:
        """Whether there is anything of the Gaussian pool in it."""
        return self.variance > 0

    def covers(self, other: "Amount") -> bool:
        """Return whether no pool has less than another amount."""
        return all(mine >= others for mine, others in zip(self, other, strict=True))

    def plus(self, others: Iterable["Amount"]) -> "Amount":
        """Return the sum, exactly."""
        with decimal.localcontext(_EXACT):
            return Amount(*(sum(parts, Decimal(0)) for parts in zip(self, *others, strict=True)))

    def minus(self, taken: Iterable["Amount"]) -> "Amount":
        """Return what is left, exactly."""
        with decimal.localcontext(_EXACT):
            return Amount(*(mine - others for mine, others in zip(self, Amount().plus(taken), strict=True)))


def pair(epsilon: float, delta: float) -> Amount:
    """Return an ε and a δ as decimals: 0.1 means one tenth, which is what a certificate states."""
    return Amount(Decimal(repr(float(epsilon))), Decimal(repr(float(delta))))


def divide(whole: Budget, aside: Amount) -> Amount:
    """Return the pools of a budget, of which a pair is set aside; all of it aside leaves no other pool."""
    promised = pair(whole.epsilon, whole.delta)
    rest = promised.minus([aside])
    if rest.epsilon < 0 or rest.delta < 0:
        raise ValueError(f"what is set aside ({aside}) is more than what is granted ({promised}).")
    if rest.epsilon == 0 or rest.delta == 0:
        return aside
    epsilon, delta = float(rest.epsilon) * (1 - 1e-12), float(rest.delta) * (1 - 1e-12)
    tail, cut = TAILS * delta, CUTS * delta
    return Amount(
        aside.epsilon,
        aside.delta,
        rounded(largest_gaussian(epsilon, delta - tail - cut), decimal.ROUND_FLOOR),
        rounded(tail, decimal.ROUND_FLOOR),
        rounded(cut, decimal.ROUND_FLOOR),
    )


def charge(planned: Plan, whole: Budget, pools: Amount) -> Amount:
    """Return what a planned run takes from pools: its envelope, found from its schedule, and what its samples cost.

    Args:
      planned: what the run will ask.
      whole: the budget that was granted.
      pools: what it was divided into.
    """
    schedule, neighbors = planned.schedule, planned.budget.neighbors
    if not planned.budget.is_private:
        raise ValueError("a run without privacy costs more than any budget file holds.")
    profile = accounting.profile(accounting.costs_of(schedule, neighbors), neighbors, schedule.surcharge(neighbors))
    # The tail in proportion to the variance, so that both pools are empty at the same time; which s is free, as it is
    # fixed before the run.
    rough = envelope(profile, max(_LEAST_TAIL, TAILS * planned.budget.delta))
    tail = max(_LEAST_TAIL, float(pools.tail) * min(1.0, rough**2 / float(pools.variance)))
    mu = envelope(profile, tail)
    cut = accounting.truncation(schedule, planned.n, dict(planned.capacities), whole.epsilon)
    return Amount(
        variance=rounded(mu**2 * (1 + 1e-12), decimal.ROUND_CEILING),
        tail=rounded(tail, decimal.ROUND_CEILING),
        cut=rounded(cut, decimal.ROUND_CEILING),
    )


def spent_epsilon(whole: Budget, left: Amount, pools: Amount) -> float:
    """Return ε, at the whole budget's δ, of what was taken so far: for information. The promise is about the whole."""
    taken = pools.minus([left])
    delta = whole.delta - float(taken.delta) - float(pools.tail) - float(pools.cut)
    mu = math.sqrt(float(taken.variance))
    if mu == 0:
        return float(taken.epsilon)
    low, high = 0.0, whole.epsilon
    while high - low > 1e-6 * whole.epsilon:
        middle = (low + high) / 2
        fits = float(accounting.gaussian_delta(mu, np.array([middle]))[0]) <= delta
        low, high = (low, middle) if fits else (middle, high)
    return float(taken.epsilon) + high


def more_like(last: Amount, left: Amount) -> int:
    """Return how many more runs with the same cost fit into what is left."""
    counts = [int(mine // each) for mine, each in zip(left, last, strict=True) if each > 0]
    return min(counts) if counts else 0


def rounded(value: float, direction: str) -> Decimal:
    """Return a number as a decimal of twelve digits, rounded in one direction."""
    if not (math.isfinite(value) and value >= 0):
        raise AccountingError(f"{value} is no cost.")
    return decimal.Context(prec=_DIGITS, rounding=direction).create_decimal_from_float(value)


def shown(value: Decimal) -> str:
    """Return a number exactly, in few characters if these do."""
    short = f"{float(value):.6g}"
    return short if Decimal(short) == value else str(value)
