"""Numbers of about 104 bits: the sum hi + lo of two float64 with |lo| ≤ v|hi|, v = 2^-53.

In NumPy, on the host: every operation is rounded on its own, as IEEE 754 says. (A compiler would contract a·b + c into
one rounding, and rewrite (x + c) + d, which undoes `two_sum`.) A product is only formed of factors with at most 26
bits, so it is exact. What remains is rounded sums, and a quotient and a square root that the next step corrects.
Errors, with S = |x| + |y|, P = |x·y|, no overflow or underflow:

* `two_sum` (Knuth) is exact for all a, b, and its second result is at most v times its first.
* x + y within 4v²S. e is exact and |e| ≤ vS; xl + yl ≤ vS is rounded (v²S); e + (xl + yl) ≤ 2vS is rounded (2v²S).
* x·y within 21v²P. `_halves` gives |a2| ≤ 2^-26|xh|, |a3| ≤ 1.01v|xh|, |a4| ≤ 2^-26·v|xh|. Not computed: xl·yl ≤ v²P
  and a2·b4 + a4·b2 ≤ 4v²P. Of the sums that are rounded, in the code's order, the first is at most 2.05vP; so are the
  second and third; the fourth is at most 4.1vP, the fifth 5.2vP: 15.5v²P. Together 20.5v²P.
* x/y within 40v²|x/y|. q is within 3.1v of x/y. ρ = x − q·y has an error of (21 + 8)v²|x|, and dividing by yh in
  place of y, leaving ρ's low part and rounding spoil 3.1v of the quotient by 3v: 9.3v². Together 38.3v².
* √x within 20v²√x. y is within 1.6v of √x. ρ = x − y² has an error of (21 + 8)v²x, half of which arrives; dividing
  by 2y in place of y + √x, ρ's low part and rounding spoil 1.6v by 3v: 4.8v². Together 19.3v².

All constants leave room for terms of third order in v.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np


@dataclass(frozen=True)
class Double:
    """The number hi + lo, elementwise."""

    hi: np.ndarray
    lo: np.ndarray

    def __add__(self, other: "Double") -> "Double":
        s, e = two_sum(self.hi, other.hi)
        return Double(*two_sum(s, e + (self.lo + other.lo)))

    def __neg__(self) -> "Double":
        return Double(-self.hi, -self.lo)

    def __sub__(self, other: "Double") -> "Double":
        return self + (-other)

    def __mul__(self, other: "Double") -> "Double":
        (a1, a2), (a3, a4) = _halves(self.hi), _halves(self.lo)
        (b1, b2), (b3, b4) = _halves(other.hi), _halves(other.lo)
        t, t_rest = two_sum(a1 * b2, a2 * b1)
        s, s_rest = two_sum(a1 * b1, t)
        small = (a1 * b3 + a3 * b1) + ((a2 * b3 + a3 * b2) + (a1 * b4 + a4 * b1))
        return Double(*two_sum(s, (small + (a2 * b2 + t_rest)) + s_rest))

    def __truediv__(self, other: "Double") -> "Double":
        q = self.hi / other.hi
        rest = self - exactly(q) * other
        return Double(*two_sum(q, rest.hi / other.hi))

    def scaled(self, power: np.ndarray | float) -> "Double":
        """Return this number times a power of two: exact."""
        return Double(self.hi * power, self.lo * power)


def exactly(x: np.ndarray) -> Double:
    """Return a float64 as it is."""
    return Double(x, np.zeros_like(x))


def constant(number: Fraction) -> Double:
    """Return a constant, within v²|number|."""
    hi = float(number)
    return Double(np.array(hi), np.array(float(number - Fraction(hi))))


def root(x: Double) -> Double:
    """Return √x for x > 0."""
    y = np.sqrt(x.hi)
    rest = x - exactly(y) * exactly(y)
    return Double(*two_sum(y, rest.hi / (y + y)))


def polynomials(tables: list[list[Fraction]], arguments: list[Double]) -> list[Double]:
    """Evaluate polynomials, constant terms first, by Horner's rule."""
    values = []
    for table, x in zip(tables, arguments, strict=True):
        value = constant(table[-1])
        for c in reversed(table[:-1]):
            value = value * x + constant(c)
        values.append(value)
    return values


def two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return fl(a + b) and what was rounded off."""
    s = a + b
    b_part = s - a
    return s, (a - (s - b_part)) + (b - b_part)


def _halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the upper and the lower 26 bits of a, whose sum is a: rounded to 26 bits, and the signed rest."""
    bits = np.asarray(a, np.float64).view(np.int64)
    upper = ((bits + (1 << 26)) & ~np.int64((1 << 27) - 1)).view(np.float64)
    return upper, a - upper
