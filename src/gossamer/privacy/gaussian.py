"""What a budget is worth in full passes: the μ of Gaussian differential privacy.

For rules that choose settings. Nothing is charged by it.
"""

import functools
import math

from scipy import optimize, special


@functools.lru_cache(maxsize=1024)
def mu(epsilon: float, delta: float) -> float:
    """Return the largest μ such that N(μ, 1) against N(0, 1) is (ε, δ)-private (Dong, Roth and Su, 2022, Cor. 2.13)."""
    if not math.isfinite(epsilon):
        return math.inf

    def excess(log_mu: float) -> float:
        m = math.exp(log_mu)
        # Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2), the second in logarithms: e^ε may be large.
        lost = special.ndtr(-epsilon / m + m / 2) - math.exp(epsilon + special.log_ndtr(-epsilon / m - m / 2))
        return lost - delta

    return math.exp(optimize.brentq(excess, math.log(1e-6), math.log(1e3)))
