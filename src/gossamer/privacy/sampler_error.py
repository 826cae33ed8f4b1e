"""How far the law of the integer noise is from that of rounded Gaussians.

The proof is in `gossamer.oracle.integer_noise`. For every event A, in a run that draws m integers of deviation at most
D, with P̃ as drawn and P as they should be, P̃(A) ≤ e^a P(A) + δ and P(A) ≤ e^a P̃(A) + δ. So (ε, δ₀) of the exact
run becomes (ε + 2a, e^a δ₀ + (1 + e^{ε+a})δ).
"""


def log_ratio(coordinates: float, deviation: float) -> float:
    """Return a = 5000·2^-106·m·max(D, 128), for D ≤ 2^47."""
    return 5000 * 2.0**-106 * coordinates * max(deviation, 128.0)


def excess(coordinates: float) -> float:
    """Return δ = m·2^-158."""
    return coordinates * 2.0**-158
