"""Numbers of about 104 bits: the sum hi + lo of two float64 with |lo| ≤ v|hi|, v = 2^-53.

Compilers may contract a·b + c into one rounding, here and not there, and so break textbook algorithms that round a
product. Here a product is only formed of factors with at most 26 bits. It is exact, so contracting it changes no bit:
one program has one result, whatever the compiler chooses. What remains is rounded sums, and a quotient and a square
root that the next step corrects. Errors, with S = |x| + |y|, P = |x·y|, no overflow or underflow:

* `two_sum` (Knuth) is exact for all a, b, and its second result is at most v times its first.
* x + y within 4v²S. e is exact and |e| ≤ vS; xl + yl ≤ vS is rounded (v²S); e + (xl + yl) ≤ 2vS is rounded (2v²S).
* x·y within 21v²P. `_halves` gives |a2| ≤ 2^-26|xh|, |a3| ≤ 1.01v|xh|, |a4| ≤ 2^-26·v|xh|. Not computed: xl·yl ≤ v²P
  and a2·b4 + a4·b2 ≤ 4v²P. Of the sums that are rounded, in the code's order, the first is at most 2.05vP; so are the
  second and third; the fourth is at most 4.1vP, the fifth 5.2vP: 15.5v²P. Together 20.5v²P.
* x/y within 40v²|x/y|. q is within 3.1v of x/y. ρ = x − q·y has an error of (21 + 8)v²|x|, and dividing by yh in
  place of y, leaving ρ's low part and rounding spoil 3.1v of the quotient by 3v: 9.3v². Together 38.3v².
* √x within 20v²√x. y is within 1.6v of √x. ρ = x − y² has an error of (21 + 8)v²x, half of which arrives; dividing
  by 2y in place of y + √x, ρ's low part and rounding spoil 1.6v by 3v: 4.8v². Together 19.3v².

All constants leave room for terms of third order in v. XLA rewrites (x + c) + d to x + (c + d) where c and d are
constants, which undoes `two_sum`: constants therefore come from `constant`, which hides them.
"""

import functools
from dataclasses import dataclass
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np


@functools.partial(jax.tree_util.register_dataclass, data_fields=["hi", "lo"], meta_fields=[])
@dataclass(frozen=True)
class Double:
    """The number hi + lo, elementwise."""

    hi: jax.Array
    lo: jax.Array

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

    def scaled(self, power: jax.Array | float) -> "Double":
        """Return this number times a power of two: exact."""
        return Double(self.hi * power, self.lo * power)


def exactly(x: jax.Array) -> Double:
    """Return a float64 as it is."""
    return Double(x, jnp.zeros_like(x))


def constant(number: Fraction) -> Double:
    """Return a constant, within v²|number| and hidden from the compiler."""
    hi = float(number)
    parts = jnp.float64(hi), jnp.float64(float(number - Fraction(hi)))
    return Double(*jax.lax.optimization_barrier(parts))


def root(x: Double) -> Double:
    """Return √x for x > 0."""
    y = jnp.sqrt(x.hi)
    rest = x - exactly(y) * exactly(y)
    return Double(*two_sum(y, rest.hi / (y + y)))


def polynomials(tables: list[list[Fraction]], arguments: list[Double]) -> list[Double]:
    """Evaluate polynomials, constant terms first, by Horner's rule: all at once in a loop, which compiles quickly."""
    length = max(map(len, tables))
    padded = [table + [Fraction(0)] * (length - len(table)) for table in tables]
    parts = np.array([[(float(c), float(c - Fraction(float(c)))) for c in table] for table in padded])
    x = jax.tree.map(lambda *numbers: jnp.stack(numbers), *arguments)
    columns = parts.transpose(1, 2, 0)[::-1].reshape(length, 2, len(tables), *[1] * (x.hi.ndim - 1))

    def step(y: Double, c: jax.Array) -> tuple[Double, None]:
        return y * x + Double(c[0], c[1]), None

    values = jax.lax.scan(step, x.scaled(0.0), jnp.asarray(columns))[0]
    return [Double(values.hi[i], values.lo[i]) for i in range(len(tables))]


def two_sum(a: jax.Array, b: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return fl(a + b) and what was rounded off."""
    s = a + b
    b_part = s - a
    return s, (a - (s - b_part)) + (b - b_part)


def _halves(a: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the upper and the lower 26 bits of a, whose sum is a: rounded to 26 bits, and the signed rest."""
    bits = jax.lax.bitcast_convert_type(a, jnp.int64)
    upper = jax.lax.bitcast_convert_type((bits + (1 << 26)) & ~((1 << 27) - 1), jnp.float64)
    return upper, a - upper
