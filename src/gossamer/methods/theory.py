"""What theorems' settings share (`for_problem`): counts of queries that balance noise, sampling and descent.

Every setting is made of the problem's constants so that units cancel: in another unit of the loss or of the parameters
the constants have other values, and the settings are those of the same run.
"""

import math
from typing import NamedTuple

from gossamer.privacy.budget import Budget


class Walk(NamedTuple):
    """How a carried estimate is spent: see `walk`."""

    steps: int
    period: int
    batch: float
    """Records of a difference."""
    error: float
    """Up to which the gradient is then known."""


def walk(n: int, s: float, *, smoothness: float, gap: float, bound: float) -> Walk:
    """Return what balances descent against the noise of SPIDER with s = nε/√(d ln(1/δ)) (Arora et al., 2023).

    T steps descend to √(LF₀/T). T²/s² refreshes of all records, with gradients of length M, have noise M·T/s². Both
    are e = (LF₀M)^(1/3) s^(−2/3) for T = (LF₀/M²)^(1/3) s^(4/3), with a refresh every s²/T steps. Differences ask
    max(s²/T, n/√T) records. Constants that the theorem hides are 1.
    """
    positive(smoothness=smoothness, gap=gap, bound=bound)
    steps = whole((smoothness * gap / bound**2) ** (1 / 3) * s ** (4 / 3))
    return Walk(
        steps=steps,
        period=whole(s**2 / steps, steps),
        batch=max(s**2 / steps, n / math.sqrt(steps)),
        error=(smoothness * gap * bound) ** (1 / 3) * s ** (-2 / 3),
    )


def condition_number(smoothness: float, curvature: float, name: str = "strong_concavity") -> float:
    """Return κ = l/μ, or refuse constants that no function has; `name` is what μ is called."""
    if not 0 < curvature <= smoothness < math.inf:
        raise ValueError(f"{name} = {curvature!r} must be above 0 and at most smoothness = {smoothness!r}.")
    return smoothness / curvature


def signal(n: int, d: int, budget: Budget) -> float:
    """Return nε/√(d ln(1/δ)), in which the theorems are stated, or 1: below it they promise nothing."""
    if not budget.is_private:
        raise ValueError("epsilon = inf: the theorems balance noise against steps, and there is no noise to balance.")
    return max(1.0, n * budget.epsilon / math.sqrt(d * math.log(1 / budget.delta)))


def batch_for(size: float, count: int, n: int, budget: Budget) -> int:
    """Return a theorem's batch size, or n√(ε/(4·count)) if larger: below it `count` queries cost more than it says."""
    return whole(max(size, n * math.sqrt(budget.epsilon / (4 * count))), n)


def whole(value: float, largest: int | None = None) -> int:
    """Round to the nearest whole number of at least 1 and at most `largest`."""
    number = max(1, round(value))
    return number if largest is None else min(number, largest)


def positive(**constants: float) -> None:
    """Refuse a constant that is no finite number above 0."""
    for name, value in constants.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} = {value!r} must be a finite number above 0.")
