"""How far one distribution over the records is from another: ψ-divergences, their conjugates and their worst cases.

    D_ψ(p, 1/n) = (1/n) Σ ψ(n p_i),     ψ*(s) = max over t ≥ 0 of  s t − ψ(t)

ψ is convex with ψ(1) = ψ′(1) = 0, so that ψ*(0) = 0 and (ψ*)′(0) = 1. The t that attains the maximum is (ψ*)′(s): the
weight n p_i that the worst case gives to a record. Duality (Shapiro, 2017) turns the worst case into one number η:

    max over p of  Σ p_i ℓ_i − λ D_ψ(p, 1/n)  =  min over η of  (1/n) Σ λ ψ*((ℓ_i − η)/λ) + η

    divergence        ψ(t)                                     ψ*(s)
    χ²                ½(t − 1)²                                ½((s + 1)₊² − 1)
    KL                t ln t − t + 1                           e^s − 1
    KL-CVaR(α)        the same, on [0, 1/α]                    e^s − 1 for s ≤ −ln α, (1 + s + ln α)/α − 1 beyond
    Cressie–Read(k)   (t^k − kt + k − 1)/(k(k − 1)), k > 1     (((k − 1)s + 1)₊^{k/(k−1)} − 1)/k

Table 1 of paper DRO prints two others, which are not the conjugates: −1 + ¼(s + 2)² for χ², and for KL-CVaR the
minimum of the two branches, which is always the second.

No weight exceeds e⁴⁰ here: ψ* of KL, and of Cressie–Read with k < 2, goes on as its tangent from there. A table would
need more than e⁴⁰ records to notice, and float32 needs it: a weight of 1e30 times a gradient has no norm.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

_LOG_LARGEST_WEIGHT = 40.0


class WorstCase(NamedTuple):
    """The distribution over the records that maximises, and the maximum."""

    weights: np.ndarray
    """p, which sums to 1."""
    value: float


class Divergence(ABC):
    """A convex ψ with ψ(1) = 0; subclasses are frozen dataclasses. Calling it gives ψ(t), +∞ outside its domain."""

    @abstractmethod
    def __call__(self, t: Any) -> jax.Array:
        """Return ψ(t)."""

    @abstractmethod
    def conjugate(self, s: Any) -> jax.Array:
        """Return ψ*(s)."""

    @abstractmethod
    def weight(self, s: Any) -> jax.Array:
        """Return (ψ*)′(s), the t that attains ψ*(s)."""

    @abstractmethod
    def smoothness(self, below: float = math.inf) -> float:
        """Return M, the largest (ψ*)″ on s ≤ `below`: how fast a weight changes; ∞ if there is no bound."""

    def shift(self, losses: jax.Array, penalty: jax.Array | float) -> jax.Array:
        """Return the minimising η: at which the weights have mean 1. Not private.

        The mean weight falls with η, and (ψ*)′(0) = 1: it is at least 1 at the smallest loss and at most 1 at the
        largest.
        """

        def too_large(eta: jax.Array) -> jax.Array:
            return jnp.mean(self.weight((losses - eta) / penalty)) < 1.0

        return turning_point(too_large, jnp.min(losses), jnp.max(losses))

    def worst_case(self, losses: Any, penalty: float) -> WorstCase:
        """Return the p that maximises Σ p_i ℓ_i − λ D_ψ(p, 1/n), and that maximum, in float64. Not private.

        Args:
          losses: one loss for each record.
          penalty: λ.
        """
        with jax.enable_x64(True):
            wide = jnp.asarray(np.asarray(losses, np.float64))
            weights = self.weight((wide - self.shift(wide, penalty)) / penalty)
            value = jnp.mean(weights * wide) - penalty * jnp.mean(self(weights))
            return WorstCase(np.asarray(weights / jnp.sum(weights)), float(value))


@dataclass(frozen=True)
class ChiSquare(Divergence):
    """χ²: ψ(t) = ½(t − 1)². A record's weight grows linearly with its loss."""

    def __call__(self, t: Any) -> jax.Array:
        """Return ψ(t)."""
        return _on(t, 0.5 * jnp.square(t - 1.0))

    def conjugate(self, s: Any) -> jax.Array:
        """Return ψ*(s) = ½((s + 1)₊² − 1)."""
        return 0.5 * (jnp.square(self.weight(s)) - 1.0)

    def weight(self, s: Any) -> jax.Array:
        """Return (s + 1)₊."""
        return jnp.maximum(jnp.add(s, 1.0), 0.0)

    def smoothness(self, below: float = math.inf) -> float:
        """Return M = 1."""
        return 1.0


@dataclass(frozen=True)
class KL(Divergence):
    """Kullback–Leibler: ψ(t) = t ln t − t + 1. A record's weight grows exponentially with its loss."""

    def __call__(self, t: Any) -> jax.Array:
        """Return ψ(t)."""
        return _on(t, _entropy(t))

    def conjugate(self, s: Any) -> jax.Array:
        """Return ψ*(s) = e^s − 1."""
        return _entropic_conjugate(s, _LOG_LARGEST_WEIGHT)

    def weight(self, s: Any) -> jax.Array:
        """Return e^s."""
        return _entropic_weight(s, _LOG_LARGEST_WEIGHT)

    def shift(self, losses: jax.Array, penalty: jax.Array | float) -> jax.Array:
        """Return the minimising η in closed form: λ ln of the mean of e^{ℓ/λ}."""
        return penalty * (jax.nn.logsumexp(losses / penalty) - math.log(losses.size))

    def smoothness(self, below: float = math.inf) -> float:
        """Return M = e^below."""
        return math.exp(below) if below < 700 else math.inf


@dataclass(frozen=True)
class KLCVaR(Divergence):
    """KL-regularised conditional value at risk: KL's ψ with weights of at most 1/α.

    The worst case is then spread over a share α of the records at least.

    Args:
      alpha: α in (0, 1).
    """

    alpha: float

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ValueError(f"alpha = {self.alpha!r} must be in (0, 1): it is the least share of records that count.")

    @property
    def log_largest_weight(self) -> float:
        """Return −ln α."""
        return -math.log(self.alpha)

    def __call__(self, t: Any) -> jax.Array:
        """Return ψ(t)."""
        return _on(t, _entropy(t), 1.0 / self.alpha)

    def conjugate(self, s: Any) -> jax.Array:
        """Return ψ*(s): e^s − 1 up to s = −ln α, and its tangent there beyond."""
        return _entropic_conjugate(s, self.log_largest_weight)

    def weight(self, s: Any) -> jax.Array:
        """Return min(e^s, 1/α)."""
        return _entropic_weight(s, self.log_largest_weight)

    def smoothness(self, below: float = math.inf) -> float:
        """Return M = min(e^below, 1/α)."""
        return math.exp(min(below, self.log_largest_weight))


@dataclass(frozen=True)
class CressieRead(Divergence):
    """The Cressie–Read family: ψ(t) = (t^k − kt + k − 1)/(k(k − 1)); k = 2 is χ², and k → 1 is KL.

    Args:
      k: above 1; the larger, the less a large weight is feared.
    """

    k: float

    def __post_init__(self) -> None:
        if not 1 < self.k < math.inf:
            raise ValueError(f"k = {self.k!r} must be above 1 and finite; gs.KL() is the limit k = 1.")

    @property
    def _largest(self) -> float:
        """The s at which the weight is e⁴⁰ (or beyond what float32 squares)."""
        power = _LOG_LARGEST_WEIGHT * (self.k - 1)
        return min(math.expm1(power) / (self.k - 1), 1e18) if power < 700 else 1e18

    def __call__(self, t: Any) -> jax.Array:
        """Return ψ(t)."""
        k = self.k
        inside = jnp.maximum(t, 0.0)
        return _on(t, (inside**k - k * inside + k - 1) / (k * (k - 1)))

    def conjugate(self, s: Any) -> jax.Array:
        """Return ψ*(s) = (((k − 1)s + 1)₊^{k/(k−1)} − 1)/k."""
        k, largest = self.k, self._largest
        curved = (self._base(s) ** (k / (k - 1)) - 1.0) / k
        return curved + self.weight(largest) * jnp.maximum(jnp.subtract(s, largest), 0.0)

    def weight(self, s: Any) -> jax.Array:
        """Return ((k − 1)s + 1)₊^{1/(k−1)}."""
        return self._base(s) ** (1.0 / (self.k - 1))

    def smoothness(self, below: float = math.inf) -> float:
        """Return M: 1 for k = 2; for k < 2 it grows with `below`; for k > 2 the weight has no slope at 0 to bound."""
        if self.k > 2:
            return math.inf
        if self.k == 2:
            return 1.0
        return max((self.k - 1) * below + 1, 0.0) ** ((2 - self.k) / (self.k - 1))

    def _base(self, s: Any) -> jax.Array:
        return jnp.maximum((self.k - 1) * jnp.minimum(s, self._largest) + 1.0, 0.0)


def turning_point(beyond: Callable[[jax.Array], jax.Array], low: jax.Array, high: jax.Array) -> jax.Array:
    """Return where a condition turns from false to true between two points: an end, if it does not turn."""

    def halve(_: int, bracket: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bracket
        middle = 0.5 * (low + high)
        return jnp.where(beyond(middle), low, middle), jnp.where(beyond(middle), middle, high)

    # More halvings than a float has bits: the bracket has closed.
    low, high = jax.lax.fori_loop(0, 100, halve, (low, high))
    return 0.5 * (low + high)


def _on(t: Any, value: jax.Array, largest: float = math.inf) -> jax.Array:
    """Return the value for t in [0, largest], and +∞ elsewhere."""
    # A worst case may meet the bound, and rounding must not throw it out.
    slack = 1 + 4 * float(jnp.finfo(value.dtype).eps)
    return jnp.where((t >= 0) & (t <= largest * slack), value, jnp.inf)


def _entropy(t: Any) -> jax.Array:
    return jax.scipy.special.xlogy(t, jnp.maximum(t, 0.0)) - t + 1.0


def _entropic_weight(s: Any, log_largest: float) -> jax.Array:
    return jnp.exp(jnp.minimum(s, log_largest))


def _entropic_conjugate(s: Any, log_largest: float) -> jax.Array:
    beyond = jnp.maximum(jnp.subtract(s, log_largest), 0.0)
    return jnp.expm1(jnp.minimum(s, log_largest)) + math.exp(log_largest) * beyond
