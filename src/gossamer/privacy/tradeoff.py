"""How well any test could tell two neighbouring tables apart: the limits that a promise sets to every attack.

Let f(α) be the smallest share of members that any test misses when it accuses a share α of non-members: the trade-off
function of the pair of output laws. (ε, δ)-DP says

    f(α) ≥ f_{ε,δ}(α) = max(0, 1 − δ − e^ε α, e^{−ε}(1 − δ − α))                (Wasserman and Zhou, 2010)

So the share of members found at false positive rate α is at most 1 − f(α), and the area under the ROC curve at most
1 − ∫f. The two lines of f_{ε,δ} meet at α = f = (1 − δ)/(1 + e^ε) and end at (0, 1 − δ) and (1 − δ, 0), which makes
∫f_{ε,δ} = (1 − δ)²/(1 + e^ε). A schedule is (ε, δ(ε))-DP for every ε, not only at the budget's, so f is at least the
largest of all f_{ε,δ(ε)}: the tighter limits are those of this envelope, on a grid of ε (fewer ε: looser limits).

A guess between two neighbours at even odds is right with probability ½(1 − f(α)) + ½(1 − α). For f_{ε,δ} that is
largest where its two lines meet, and there it is (e^ε + δ)/(1 + e^ε).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy import special

from gossamer.privacy import accounting
from gossamer.privacy.budget import Budget
from gossamer.privacy.schedule import Schedule

_GRID = 64
_CELLS = 1 << 14
_LARGEST = 600.0
"""Beyond this e^ε is out of range, and no limit worth having."""


@dataclass(frozen=True)
class TradeOff:
    """The envelope of f_{ε,δ} over pairs (ε, δ) that all hold."""

    epsilons: np.ndarray
    deltas: np.ndarray

    def together(self, other: "TradeOff") -> "TradeOff":
        """Return the envelope of both."""
        return TradeOff(np.append(self.epsilons, other.epsilons), np.append(self.deltas, other.deltas))

    def missed(self, alpha: np.ndarray) -> np.ndarray:
        """Return a lower bound on f(α): the share of members that every test misses."""
        largest = np.zeros_like(alpha)
        for epsilon, delta in zip(self.epsilons, self.deltas, strict=True):
            if epsilon == np.inf:
                continue
            steep = 1 - delta - np.exp(min(epsilon, 700.0)) * alpha
            largest = np.maximum(largest, np.maximum(steep, np.exp(-epsilon) * (1 - delta - alpha)))
        return largest

    def found(self, alpha: float) -> float:
        """Return the largest share of members that any test finds at false positive rate α."""
        return 1 - float(self.missed(np.array([alpha]))[0])

    def auc(self) -> float:
        """Return the largest area under the ROC curve of any test."""
        if len(self.epsilons) == 1:
            return 1 - float((1 - self.deltas[0]) ** 2 * special.expit(-self.epsilons[0]))
        # A convex function lies above its tangent in the middle of a cell: this area of f is never too large.
        return 1 - float(np.mean(self.missed((np.arange(_CELLS) + 0.5) / _CELLS)))

    def advantage(self) -> float:
        """Return the largest difference between found members and accused non-members of any test."""
        return 2 * self.even_odds() - 1

    def right_accusations(self, prior: float, alpha: float) -> float:
        """Return the largest share of accusations that are right, of a test that accuses a share α of non-members.

        Of all records, a share `prior` are members: Bayes' rule with the most that can be found.
        """
        found = prior * self.found(alpha)
        return found / (found + (1 - prior) * alpha)

    def of_group(self, size: int) -> "TradeOff":
        """Return the limits for `size` records at once: (ε, δ) becomes (kε, δ·(e^(kε) − 1)/(e^ε − 1))."""
        growth = 1 + sum(np.exp(np.minimum(j * self.epsilons, 700.0)) for j in range(1, size))
        return TradeOff(size * self.epsilons, np.minimum(self.deltas * growth, 1.0))

    def gaussian(self, largest: float) -> float:
        """Return μ of the least Gaussian differential privacy that covers the pairs whose ε is at most `largest`, or ∞.

        μ-GDP is (ε, Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ))-DP for every ε (Dong, Roth and Su, 2022), which grows with μ.
        """

        def delta(mu: float, epsilon: float) -> float:
            return float(special.ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * special.ndtr(-mu / 2 - epsilon / mu))

        mus = []
        for epsilon, target in zip(self.epsilons, self.deltas, strict=True):
            if np.isfinite(epsilon) and epsilon <= largest and 0 < target < 1:
                low, high = 1e-6, 100.0
                for _ in range(60):
                    middle = (low * high) ** 0.5
                    low, high = (middle, high) if delta(middle, epsilon) < target else (low, middle)
                mus.append(high)
        return max(mus, default=float(np.inf))

    def even_odds(self) -> float:
        """Return the largest probability of a right guess between two neighbours at even odds."""
        return float(np.min(special.expit(self.epsilons) + self.deltas * special.expit(-self.epsilons)))


def certified(budget: Budget) -> TradeOff:
    """Return what (ε, δ) alone implies."""
    return TradeOff(np.array([budget.epsilon]), np.array([budget.delta]))


def scheduled(schedule: Schedule, budget: Budget, n: int, capacities: Mapping[str, int]) -> TradeOff:
    """Return what a calibrated schedule implies by its whole curve δ(ε), an upper bound from the PLD accountant.

    Args:
      schedule: the queries with their noise.
      budget: its neighbours; and its ε, which says where the grid lies.
      n: the number of records.
      capacities: the static size of each sample whose size is random.
    """
    if not budget.is_private:
        return certified(budget)
    extra = schedule.surcharge(budget.neighbors)
    grid = np.linspace(0.0, min(2 * budget.epsilon, _LARGEST), _GRID + 1)
    noise = np.maximum(accounting.pld_deltas(schedule, grid, budget.neighbors), accounting.SMALLEST_DELTA)
    truncation = [accounting.truncation(schedule, n, capacities, e) for e in grid]
    return TradeOff(extra.epsilon + grid, np.minimum(extra.factor * noise + truncation, 1.0))
