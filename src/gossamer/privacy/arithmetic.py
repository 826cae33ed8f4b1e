"""What it costs that computers round: what calibration charges to every run so that the promise is about bits.

The theorem is in `gossamer.oracle.lattice`: sums and noise are whole numbers on a lattice. One record moves the sum by
a little more than it would in real numbers (`INFLATION`), and the noise has nearly the law of a rounded Gaussian
(`EPSILON`, `FACTOR`). Both are the same numbers for every run: `verify` charges them again.
"""

import math

from gossamer.base.exceptions import AccountingError
from gossamer.privacy import sampler_error

INFLATION = 1.2e-3
"""ι: one record moves the sum by at most (1 + ι) times what it may move it by in real numbers.

1.01e-3 for adding up blocks of 64 records in float32, 1.3e-4 for rounding to the lattice, the rest for clipping itself.
"""
LATTICE_BITS = 26
"""A threshold has 2^26 lattice points, unless a table is so large that its sums would not be exact: `lattice_bits`."""
MOST_COORDINATES = 1 << 26
"""How many numbers an answer may have: rounding that many by half a point each moves a sum by 1.3e-4 thresholds."""
MOST_NOISE = 2.0**74
"""The numbers of noise that a run may draw, times their deviation in points: a trillion at a multiplier of 200."""
MOST_NUMBERS = 2.0**44
"""How many numbers of noise a run may draw at all."""
LARGEST_NOISE = 2.0**47
"""The largest deviation of the noise in points: a multiplier of two million."""
_A = sampler_error.log_ratio(1.0, MOST_NOISE)
EPSILON = 2 * _A
"""2a: what the sampler may add to ε, 2.4e-6."""
FACTOR = math.exp(_A) * (1 + 1e-6)
"""By how much it may multiply δ; 1e-6 of δ is for tails that it never reaches."""
_EXACT_BITS = 52


def lattice_bits(n: int) -> int:
    """Return how many bits of a threshold the lattice resolves, so that sums of n records stay below 2^53 points.

    Fewer than 26 only from 2^26 records on; with less than 22 an answer could have few numbers.
    """
    bits = min(LATTICE_BITS, _EXACT_BITS - n.bit_length())
    if bits < LATTICE_BITS - 4:
        raise ValueError(f"n = {n} records are more than sums can be exact for: it must be below 2^30.")
    return bits


def most_coordinates(bits: int) -> int:
    """Return how many numbers an answer may have on a lattice of so many bits."""
    return MOST_COORDINATES >> 2 * (LATTICE_BITS - bits)


def check_tails(epsilon: float, delta: float) -> None:
    """Refuse a budget whose ε is so large that tails which the sampler never reaches would matter.

    For m numbers they add (1 + e^(ε + a))·m·2^-158 to δ, and `FACTOR` pays for a millionth of δ.
    """
    log_growth = math.log1p(math.exp(min(epsilon + _A, 700.0)))
    if log_growth + math.log(sampler_error.excess(MOST_NUMBERS)) > math.log(1e-6 * delta):
        raise AccountingError(
            f"epsilon = {epsilon:g} is so large that the finite tails of the noise would matter at delta = {delta:g}. "
            "Choose a smaller epsilon, or math.inf for a run without privacy."
        )
