"""How many trials a private selection makes: the law of a secret number K, which is public and knows no record.

A law is the list of chances P(K = 0), P(K = 1), ..., P(K = most). So it always has an end, and its probability
generating function f(x) = E x^K is a polynomial: what is accounted for is the law that is drawn from, cap included.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from gossamer.base.messages import is_number, is_whole, plain, shown

_LONGEST = 10_000
_SUM = 1e-9
"""How far the chances may be from adding up to 1 before they are divided by their sum."""


@dataclass(frozen=True)
class Trials:
    """The law of the number of trials.

    Args:
      chances: P(K = 0), P(K = 1), and so on. K = 0 releases nothing.

    Example:
      >>> Trials((0.0, 0.5, 0.5)).mean
      1.5
    """

    chances: tuple[float, ...]

    def __post_init__(self) -> None:
        chances = tuple(map(float, plain(self.chances)))
        total = math.fsum(chances)
        if not (all(0 <= chance <= 1 for chance in chances) and abs(total - 1) <= _SUM):
            raise ValueError(f"chances = {shown(self.chances)} must be numbers of at least 0 that add up to 1.")
        if not 2 <= len(chances) <= _LONGEST + 1 or chances[0] >= 1:
            raise ValueError(
                f"there are {len(chances)} chances: give P(K = 0), P(K = 1), ... up to P(K = most), with `most` from 1 "
                f"to {_LONGEST}, and not all on 0."
            )
        object.__setattr__(self, "chances", tuple(chance / total for chance in chances))

    @property
    def most(self) -> int:
        """The largest number of trials."""
        return len(self.chances) - 1

    @property
    def mean(self) -> float:
        """The expected number of trials, f'(1)."""
        return math.fsum(k * chance for k, chance in enumerate(self.chances))

    def slope(self, x: np.ndarray) -> np.ndarray:
        """Return f'(x) for x in [0, 1]: the best of K independent draws has density f'(F) relative to one draw."""
        return _horner(self._slopes(1), x)

    def bend(self, x: np.ndarray) -> np.ndarray:
        """Return f''(x)."""
        return _horner(self._slopes(2), x)

    def missed(self, share: float) -> float:
        """Return the chance f(1 − share) that no trial meets what a trial meets with this chance."""
        return float(_horner(np.array(self.chances), np.array(1.0 - share)))

    def draw(self, uniform: float) -> int:
        """Return the K that a number from [0, 1) stands for."""
        return int(np.searchsorted(np.cumsum(self.chances)[:-1], uniform, side="right"))

    def _slopes(self, order: int) -> np.ndarray:
        return np.polynomial.polynomial.polyder(np.array(self.chances), order)


def negative_binomial(trials: float, eta: float = 2.0, most: int = 100) -> Trials:
    """Return a truncated negative binomial law with this mean: from 1 to `most`.

    P(K = k) is proportional to Γ(k + η)/k!·(1 − γ)^k. η = 1 is the geometric law and η = 0 the logarithmic one.

    Args:
      trials: the expected number of trials, above 1.
      eta: η > −1, the shape: the larger, the less often K is far from its mean.
      most: the largest number of trials.
    """
    trials, eta, most = plain(trials), plain(eta), plain(most)
    if not (is_whole(most) and most <= _LONGEST):
        raise ValueError(f"most = {shown(most)} must be a whole number from 1 to {_LONGEST}: the most trials.")
    if not (is_number(eta) and -1 < eta < math.inf):
        raise ValueError(f"eta = {shown(eta)} must be a finite number above -1; 2 is a good choice.")
    k = np.arange(1, most + 1)
    log_weights = special.gammaln(k + eta) - special.gammaln(k + 1)

    def chances(log_ratio: float) -> np.ndarray:
        logs = log_weights + k * log_ratio
        weights = np.exp(logs - logs.max())
        return weights / weights.sum()

    # 1 − γ < 1: beyond that it would be no negative binomial law, but rise towards its end.
    low, high = -40.0, -1e-12
    reached = float(k @ chances(high))
    if not (is_number(trials) and 1 < trials < reached):
        raise ValueError(
            f"trials = {shown(trials)} must be above 1 and below {reached:.4g}, the largest mean of such a law with "
            f"most = {most}. Allow more trials at most, or expect fewer."
        )
    log_ratio = optimize.brentq(lambda x: float(k @ chances(x)) - trials, low, high, xtol=1e-15)
    return Trials((0.0, *chances(float(log_ratio)).tolist()))


def poisson(trials: float, most: int = 100) -> Trials:
    """Return the Poisson law with this parameter, given that it is at most `most`. K = 0 releases nothing."""
    k = np.arange(most + 1)
    logs = k * math.log(trials) - special.gammaln(k + 1)
    weights = np.exp(logs - logs.max())
    return Trials(tuple((weights / weights.sum()).tolist()))


def fixed(trials: int) -> Trials:
    """Return the law of a number that everybody knows."""
    return Trials((*(0.0 for _ in range(trials)), 1.0))


def _horner(coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return a polynomial's values; all its coefficients are at least 0, so that nothing cancels."""
    return np.asarray(np.polynomial.polynomial.polyval(x, coefficients))
