"""What it costs to discover values that nobody has listed: noisy counts of those that occur, above a threshold.

Of c columns, every value that occurs is counted. Gaussian noise of deviation s is added to each count, and those values
are released whose noisy count is above τ = z·s, in alphabetical order. No value is named beforehand, so that this is no
query of the door: its answer has as many numbers as there are values.

*Claim.* Let Γ(ε) be the δ of the run in which the discovery is replaced by a Gaussian query of noise multiplier σ, with
s = σ·√(c/2) when a record is replaced and s = σ·√c when one is absent. Then discovery adds (1 + e^ε)·β to Γ(ε), with
β = c·Φ(−z).

*Proof.*

1. *With names.* Let D and D' be neighbours, and M̃ the same mechanism on a fixed list: the values of both tables. The
   counts are then one vector. A record has one value in each column. Replacing it moves two counts by one in each
   column at most, √(2c) in all; its absence moves one, √c in all. Relative to s this is 2/σ, and 1/σ: what a Gaussian
   query of noise multiplier σ costs under either relation. Thresholds and order are post-processing.
2. *Without names.* On D the real mechanism M draws no noise for values of D' alone. Noises are independent, so M and
   M̃ can be run with the same noise for all other values, and then differ only if noise alone lifts one of those above
   τ. D lacks at most c values of D', one of the differing record in each column. So M and M̃ differ with a chance
   of at most β on D, and for the same reason on D'.
3. As for truncated samples (`gossamer.privacy.accounting.capacities`) this adds (1 + e^ε)·β, with ε of the whole run. ∎
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import dp_accounting
from scipy import special

from gossamer.base.messages import is_number, is_whole, plain, shown
from gossamer.privacy.budget import Budget, Neighbors
from gossamer.privacy.saddle_point import Cost
from gossamer.privacy.sampling import Drawn, Sampler, Sampling

SHARE_OF_DELTA = 2e-4
"""What of δ pays for slips; the accountant sets a thousandth aside for these and for truncated samples."""


@dataclass(frozen=True)
class Discovery(Sampling):
    """Noisy counts of the values that occur in some columns of all records, above a threshold: no mean query.

    Args:
      columns: c, how many columns are counted.
      threshold: z, in deviations of a count.
    """

    columns: int
    threshold: float
    kind: ClassVar[str] = "discovery"

    def __post_init__(self) -> None:
        for name in ("columns", "threshold"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        if not is_whole(self.columns):
            raise ValueError(f"columns = {shown(self.columns)} must be a whole number of at least 1.")
        if not (is_number(self.threshold) and 0 < self.threshold < math.inf):
            raise ValueError(f"threshold = {shown(self.threshold)} must be a finite number above 0.")

    @classmethod
    def within(cls, budget: Budget, columns: int) -> "Discovery":
        """Return the discovery whose slips cost `SHARE_OF_DELTA` of a budget's δ."""
        growth = 1 + math.exp(budget.epsilon) if budget.is_private else 2.0
        return cls(columns, float(-special.ndtri(SHARE_OF_DELTA * budget.delta / growth / columns)))

    def __str__(self) -> str:
        return f"the values in {self.columns} columns of all records, released above {self.threshold:.3g} deviations"

    def deviation(self, noise_multiplier: float, neighbors: Neighbors) -> float:
        """Return s, the deviation of the noise of a count."""
        return noise_multiplier * math.sqrt(self.columns / (2 if neighbors == "replace_one" else 1))

    def size(self, n: int) -> float:
        """Return n."""
        return float(n)

    def cost(self, noise_multiplier: float, count: int) -> Cost:
        """Return the Gaussian queries of Γ."""
        return Cost(1.0, noise_multiplier, count)

    def sampling_error(self, n: int) -> float:
        """Return β."""
        return self.columns * float(special.ndtr(-self.threshold))

    def event(self, noise_multiplier: float, count: int) -> dp_accounting.DpEvent:
        """Return the Gaussian events of Γ; like that of truncated samples, the part of slips is not in it."""
        return dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(noise_multiplier), count)

    def draw(self, sampler: Sampler[Drawn]) -> Drawn:
        """Refuse: the door answers mean queries, and its proof is not about this one."""
        raise TypeError("discovery is no mean query: gossamer.oracle.discovery answers it, not `ask`.")
