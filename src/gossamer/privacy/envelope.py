"""What a run costs a budget that others share: one Gaussian that stands for it, and a small chance of everything.

A run has the *envelope* (μ, s) if H_γ ≤ (1 − s)·H_γ(N(μ, 1)‖N(0, 1)) + s for all γ ≥ 0 and both orders of two
neighbouring tables, H_γ(P‖Q) = sup_S P(S) − γQ(S): it is dominated by a mechanism that tells everything with chance s,
and otherwise is one Gaussian of parameter μ.

*Theorem.* Let runs be chosen one after the other, envelopes included, after looking at all results before, such that
always Σμ_j² ≤ r and Σs_j ≤ S, with r and S fixed at the start. Then all results together have the envelope (√r, S), so
that δ(ε) ≤ S + (1 − S)·δ_{√r}(ε).

*Proof* by induction on the number of runs still to come. Let (μ₁, s₁) be the envelope of the next run, L its privacy
loss, and r' = r − μ₁², S' = S − s₁ what is left after it. Given any result y, the runs after it have the envelope
(√r', S') by induction, which does not depend on y: their H_γ is at most φ(γ) = (1 − S')H_γ(G_√r') + S', with G_μ the
Gaussian pair. Hence

    H_γ(all) = E_{P₁} H_{γ e^(−L(y))}(rest | y) ≤ E_{P₁} φ(γ e^(−L)) = H_γ(run₁ ⊗ (√r', S')).

The last is at most H_γ of the two envelopes together, as composing keeps domination. Gaussians compose to one with
μ₁² + r' = r, and something is told in full unless neither does: (1 − s₁)(1 − S')H_γ(G_√r) + 1 − (1 − s₁)(1 − S'). As
(1 − s₁)(1 − S') ≥ 1 − S and H_γ ≤ 1, that is at most (1 − S)H_γ(G_√r) + S. ∎

The sizes r and S must not move. A filter that composes the exact costs of all runs so far and compares with (ε, δ), or
that lets what is left of one pool pay for another, is not valid: what is left then depends on results, and after a
telling result an analyst takes the kind of run that gains most from it (Regehr et al., *Privacy filters are captured by
residues*, 2026; `tests/privacy/test_envelope.py` has both, and what they are exceeded by).

Gaussians alone: Smith and Thakurta (2022), Koskela, Tobaben and Honkela (2022).
"""

import math

import numpy as np
from scipy import special

from gossamer.base.exceptions import AccountingError
from gossamer.privacy.accounting import gaussian_delta
from gossamer.privacy.selection import Profile

_FARTHEST = 64.0
_CELLS = 3000
_LARGEST = 100.0
_ROUNDING = 1e-9


def envelope(profile: Profile, tail: float) -> float:
    """Return the least μ, rounded up, such that (μ, tail) is an envelope of a run.

    On a cell of γ = e^ε, H_γ is convex and so at most its chord, and the envelope is convex and so at least its
    tangent in the middle: it is enough to compare these at both ends. γ < 1 follows by exchanging the two tables:
    H_γ(P‖Q) = 1 − γ + γ H_{1/γ}(Q‖P).

    Args:
      profile: an upper bound on δ(ε) of the run for each ε ≥ 0 of an array, in both orders.
      tail: s, what may be left to chance: above 0.
    """
    ends = np.geomspace(0.01, _FARTHEST, 40)
    enough = profile(ends) <= tail
    if not enough[-1]:
        raise AccountingError(
            f"a run that costs more than {tail:.2g} of delta even at epsilon = {_FARTHEST:g} has no envelope."
        )
    epsilons = ends[np.argmax(enough)] * np.linspace(0.0, 1.0, _CELLS + 1) ** 2
    gammas, costs = np.exp(epsilons), profile(epsilons)

    def holds(mu: float) -> bool:
        middles = (gammas[1:] + gammas[:-1]) / 2
        at = np.log(middles)
        height, fall = gaussian_delta(mu, at), special.ndtr(-mu / 2 - at / mu)
        for edge, cost in ((gammas[:-1], costs[:-1]), (gammas[1:], costs[1:])):
            allowed = (1 - tail) * (height - fall * (edge - middles)) + tail
            if np.any(cost * (1 + _ROUNDING) > allowed):
                return False
        return True

    low, high = 1e-6, _LARGEST
    if not holds(high):
        raise AccountingError(f"a run with envelopes of mu above {_LARGEST:g} only protects nobody.")
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def largest_gaussian(epsilon: float, delta: float) -> float:
    """Return r = μ², rounded down, of the largest Gaussian that is (ε, δ)-DP."""
    low, high = 1e-6, _LARGEST
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        fits = float(gaussian_delta(middle, np.array([epsilon]))[0]) * (1 + _ROUNDING) <= delta
        low, high = (middle, high) if fits else (low, middle)
    return low**2 * (1 - _ROUNDING)
