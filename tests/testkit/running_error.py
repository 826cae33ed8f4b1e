"""Proves the errors of `gossamer.oracle.integer_noise` by running its own formulas on intervals.

A `Ball` says: the exact value is in [low, high], and the computed one is within `error` of it. Every operation adds
what it may round, by the constants of IEEE 754 or of `gossamer.oracle.double_double`. Contraction only leaves out
roundings. What this arithmetic rounds itself is covered by widening each result by 2^-45 of it.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from gossamer.oracle import integer_noise

V = 2.0**-53
TAIL = 160
"""The second level is certified where U ≥ 2^-160."""


@dataclass
class Ball:
    low: np.ndarray
    high: np.ndarray
    error: np.ndarray
    units: ClassVar[tuple[float, ...]]
    """What a constant, product, quotient and root may be wrong by, relative to it."""

    def __post_init__(self):
        wide = 2.0**-45 * self.largest
        self.low, self.high, self.error = self.low - wide, self.high + wide, self.error * (1 + 2.0**-45)

    @property
    def largest(self):
        return np.maximum(abs(self.low), abs(self.high))

    @property
    def computed(self):
        """The largest computed value."""
        return self.largest + self.error

    @classmethod
    def number(cls, value: Fraction):
        return cls(np.float64(value), np.float64(value), cls.units[0] * abs(float(value)))

    def sum_rounding(self, other, exact, error):
        raise NotImplementedError

    def __add__(self, other):
        error = self.error + other.error
        low, high = self.low + other.low, self.high + other.high
        largest = np.maximum(abs(low), abs(high)) + error
        return type(self)(low, high, error + self.sum_rounding(other, largest))

    def __sub__(self, other):
        return self + type(self)(-other.high, -other.low, other.error)

    def __mul__(self, other):
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        error = self.largest * other.error + other.largest * self.error + self.error * other.error
        error = error + self.units[1] * self.computed * other.computed
        return type(self)(np.minimum.reduce(ends), np.maximum.reduce(ends), error)

    def __truediv__(self, other):
        """Divide by what is positive."""
        ends = [a / b for a in (self.low, self.high) for b in (other.low, other.high)]
        low, high = np.minimum.reduce(ends), np.maximum.reduce(ends)
        largest = np.maximum(abs(low), abs(high))
        error = (self.error + largest * other.error) / (other.low - other.error)
        return type(self)(low, high, error + self.units[2] * (largest + error))

    def root(self):
        error = self.error / np.sqrt(self.low)
        return type(self)(np.sqrt(self.low), np.sqrt(self.high), error + self.units[3] * (np.sqrt(self.high) + error))

    @classmethod
    def polynomials(cls, tables, arguments):
        """Evaluate by Horner's rule, and count what the infinite series has beyond."""
        return [cls.polynomial(table, x) for table, x in zip(tables, arguments, strict=True)]

    @classmethod
    def polynomial(cls, table, x):
        value = cls.number(table[-1])
        for c in reversed(table[:-1]):
            value = value * x + cls.number(c)
        power = x.largest ** len(table)
        if table[1] < 0:  # Alternating, with falling ratios: less than the first term that is left out.
            rest = abs(float(table[-1] ** 2 / table[-2])) * power
        else:  # Falling coefficients: less than a geometric series.
            rest = float(table[-1]) * power / (1 - x.largest)
        return cls(value.low - rest, value.high + rest, value.error + rest)


class First(Ball):
    units = (V, V, V, V)

    def sum_rounding(self, other, largest):
        return V * largest


class Second(Ball):
    units = (V**2, 21 * V**2, 40 * V**2, 20 * V**2)

    def sum_rounding(self, other, largest):
        return 4 * V**2 * (self.computed + other.computed)


def arithmetic(ball, like):
    return integer_noise.Arithmetic(ball.number, ball.polynomials, ball.root, *like[3:])


def between(ball, ends, error):
    """Return balls of all values between neighbours, and a little beyond."""
    low, high = np.minimum(ends[..., :-1], ends[..., 1:]), np.maximum(ends[..., :-1], ends[..., 1:])
    error = np.broadcast_to(error, low.shape)
    return ball(low - error, high + error, error)


def largest_error(ball, like, deepest, shallowest, rounding, difference, radius_bit, angle_bit, pieces):
    """Return the largest error of deviation·z in deviations, over all U ≥ 2^-deepest and 1 − U ≥ 2^-shallowest.

    Args:
      rounding: how much x and the angle are rounded when they are put together, relative to x and to ½.
      difference: how much 1 − x·2^k is rounded.
      radius_bit: half the distance of neighbours among the x; angle_bit: among the angles.
    """
    level = arithmetic(ball, like)
    grid = np.linspace(0.5, 1, pieces + 1)
    zero, still = ball.number(Fraction(0)), between(ball, np.array([0.0, 0.0]), 0.0)
    worst_angle = between(ball, np.linspace(-0.5, 0.5, 64 * pieces + 1), angle_bit + rounding / 2)
    _, cosine, sine = integer_noise.polar(level, zero, between(ball, np.array([0.25, 0.25]), 0.0), worst_angle)
    circle = ball(np.float64(-1.0), np.float64(1.0), max(cosine.error.max(), sine.error.max()))

    k = np.arange(1, deepest)[:, None]  # x = m/2^k with m ≥ ½
    lower = between(ball, 1 - grid[None] + 0.0 * k, rounding + difference + radius_bit * 2.0**k)
    whole = ball(k * np.ones(pieces), k * np.ones(pieces), 0.0 * lower.error)
    scale = 2.0 ** -np.arange(shallowest - 1)[:, None]
    upper = between(ball, 0.5 * grid[None] * scale, (radius_bit + rounding * 0.5 * scale))
    found = {}
    for name, number, t in (("lower", whole, lower), ("upper", zero, upper)):
        radius, _, _ = integer_noise.polar(level, number, t, still)
        z = radius * circle
        found[name] = float((z.error + ball.units[1] * (radius.computed + z.error)).max())
    return found | {"circle": float(circle.error)}


def first_error():
    """Bound the first level: 64 bits for U, x rounded once, 1 − x·2^k exact, U and 1 − U at least 2^-16."""
    return largest_error(First, integer_noise.FIRST, 16, 16, V, 0.0, 2.0**-65, 2.0**-63, 256)


def second_error():
    """Bound the second level: 256 bits for U, x is rounded by at most 8.1v² of it, the angle by 8.1v².

    `_sum` adds upwards. Let word i be the first that is not 0. Adding zeros is exact, and the sums before it, in units
    of the end, are at most 1, 2^-32, ... of what it is: 4v²(1 + 1 + 2^-32 + ...). The angle's last sum
    has S ≤ ½ + 2^-32. Where 1 − U < 2^-250, both radii are below 2^-124, and so is their distance.
    """
    return largest_error(Second, integer_noise.SECOND, TAIL, 250, 8.1 * V**2, 8 * V**2, 2.0**-257, 2.0**-127, 16)
