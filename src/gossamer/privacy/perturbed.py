"""What a perturbed objective costs: twice a Gaussian query (four times when a record is replaced), at a smaller ε.

A perturbed objective releases w = argmin J, J(w) = Σ f_i(w) + (nλ/2)‖w‖² + ⟨b, w⟩ with b ~ N(0, (σG)² I), for a linear
model: f_i(w) = ℓ(⟨x_i, w⟩, y_i) with ℓ convex in the score and ℓ' Lipschitz. Here x_i is the row with the intercept's
1, G bounds ‖∇f_i‖ = |ℓ'|·‖x_i‖, and β bounds ℓ''·‖x_i‖², the one eigenvalue of ∇²f_i that is not zero.

*Claim.* Let c = ln(1 + β/(nλ)), and let Γ(ε) be the δ of the run in which the perturbed objective is replaced by
a Gaussian query of noise multiplier σ, all other queries as they are. Then the run is (ε, δ)-DP with
δ = 2Γ(ε − c) when neighbours differ by an absent record, and δ = 4Γ(ε − c) when a record is replaced.

*Proof.*

1. *Densities.* J is strongly convex, so w is where ∇J vanishes: b = B(w) := −Σ∇f_i(w) − nλw. As −B is strongly
   monotone, B is one-to-one and onto, and Lipschitz both ways. So the density of w is φ(B(w))·det A(w), φ that of b
   and A = Σ∇²f_i + nλI, which exists almost everywhere even if ℓ'' jumps.
2. *Determinants.* For neighbours D and D', take off both the records in which they differ: A₀ ⪰ nλI is left. Putting
   z back multiplies det A₀ by 1 + ℓ''·xᵀA₀⁻¹x, between 1 and 1 + β/(nλ) = e^c. So whether D has a record more, one
   less or another one, det A/det A' ≤ e^c.
3. *Gaussians.* B' = B + g with g = ∇f_z(w) when D has a record more, −∇f_z'(w) when it has one less, and their sum
   when one is replaced. So ln φ(B)/φ(B') = (⟨B, g⟩ + ‖g‖²/2)/(σG)².
4. *Corners.* g depends on w, and so on b: ⟨b, g⟩ is not Gaussian. But in a linear model only the coefficients of
   g = αx̂ − α'x̂' do, |α|, |α'| ≤ G, while the directions x̂ = x/‖x‖ and x̂' are fixed. The expression in 3. is convex
   in (α, α'), hence at most max_k ℓ_k(b), ℓ_k = (⟨b, g_k⟩ + ‖g_k‖²/2)/(σG)² its value at a corner: g_k is one of
   2 fixed vectors ±Gx̂ of norm G when a record is absent, of 4 fixed vectors ±Gx̂ ± Gx̂' of norm ≤ 2G when it is replaced.
5. *One Gaussian for each corner.* On D, B(w) = b is drawn from φ. So ℓ_k is the privacy loss of the Gaussian mechanism
   that moves b by g_k: of a query with noise multiplier σ, at worst. Let L be the loss of the other queries, given w.
   The loss of the run is at most c + max_k ℓ_k + L, and t ↦ (1 − e^(ε−t))₊ is increasing and not negative, so
   δ(ε) ≤ E max_k (1 − e^(ε−c−ℓ_k−L))₊ ≤ Σ_k E (1 − e^(ε−c−ℓ_k−L))₊ ≤ Σ_k Γ(ε − c). ∎

Several perturbed objectives in one run multiply the corners and add up the c. For one of them alone the sum over
corners gives away little: for an absent record, E (1 − e^(ε−c−m²/2−m|N|))₊ with m = 1/σ and N standard normal equals
2Γ(ε − c) as soon as ε − c ≥ m²/2, as every useful budget has it.

Chaudhuri, Monteleoni and Sarwate (2011) have steps 1 to 3; Kifer, Smith and Thakurta (2012) brought Gaussian b;
Redberg, Koskela and Wang (2023) bound δ by the same integral for an absent record. For other models step 4 fails, and
with it every proof that takes ⟨b, g⟩ for Gaussian.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import dp_accounting

from gossamer.base.messages import is_number, plain, shown
from gossamer.privacy.budget import Neighbors
from gossamer.privacy.saddle_point import Cost
from gossamer.privacy.sampling import Drawn, Sampler, Sampling, Surcharge

_CORNERS: dict[Neighbors, int] = {"replace_one": 4, "add_remove": 2}


@dataclass(frozen=True)
class PerturbedObjective(Sampling):
    """The minimiser of an objective of all records with a random linear term, whose deviation is σ·C: no mean query.

    Args:
      jacobian: c, the bound on the logarithm of the ratio of Jacobians.
    """

    jacobian: float
    kind: ClassVar[str] = "perturbed objective"

    def __post_init__(self) -> None:
        object.__setattr__(self, "jacobian", plain(self.jacobian))
        if not (is_number(self.jacobian) and 0 <= self.jacobian < math.inf):
            raise ValueError(f"jacobian = {shown(self.jacobian)} must be a finite number of at least 0.")

    def __str__(self) -> str:
        return f"a perturbed objective of all records, whose Jacobian costs {self.jacobian:.4g} of ε besides"

    def size(self, n: int) -> float:
        """Return n."""
        return float(n)

    def cost(self, noise_multiplier: float, count: int) -> Cost:
        """Return the Gaussian queries of Γ."""
        return Cost(1.0, noise_multiplier, count)

    def surcharge(self, count: int, neighbors: Neighbors) -> Surcharge:
        """Return c, and the number of corners, for each objective."""
        return Surcharge(count * self.jacobian, _CORNERS[neighbors] ** count)

    def event(self, noise_multiplier: float, count: int) -> dp_accounting.DpEvent:
        """Refuse: an accountant outside would be told half of the cost."""
        raise ValueError("schedule: dp-accounting has no event for a perturbed objective; use Certificate.verify.")

    def draw(self, sampler: Sampler[Drawn]) -> Drawn:
        """Refuse: the door answers mean queries, and its proof is not about this one."""
        raise TypeError("a perturbed objective is no mean query: gossamer.oracle.minimiser answers it, not `ask`.")
