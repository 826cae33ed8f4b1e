"""Integer noise whose law is that of rounded Gaussians, up to a factor of e^±10^-7 in a whole run.

    J = rint(D·Z),   Z = r(U)·cosine or sine of a uniform angle,   r = √(−2 log U)          (Box–Muller; D: deviation)

Think of U and of the angle as infinitely many random bits, of which few are drawn. The *first level* draws 64 of each
and computes in float64. If no value of the other bits, and no rounding, can move D·Z across a half-integer, then J is
known, and it is that of exact arithmetic. Otherwise, once in 10^4 pairs for D ≤ 2^30, the *second level* draws 192
bits more for U, 64 for the angle, and computes to 100 bits (`gossamer.oracle.double_double`). Only it can err. It runs
on the host, called back by the compiled program: it is rare, compiling it would take seconds, and compilers rewrite
such arithmetic.

*Bits.* U's first bit says whether U = x or U = 1 − x; the others are x in (0, ½), so both ends have their full
precision. The angle is a right angle times a number of two bits, the lowest of its second word, plus a in [-½, ½).

*Formulas.* U = (1 − t)·2^-k with t in [0, ½]: t = x, k = 0, or x = (1 − t)·2^-k. With s = t/(2 − t) ≤ ⅓ all terms of
−2 log U = 2k·log 2 + 4 atanh s are positive, so nothing cancels. Series of Taylor for atanh, and for sine and cosine
within ±π/4. Only +, −, ×, ÷ and √ occur, rounded as IEEE 754 says. A compiler may contract products and sums.

*(i) First level.* If x ≥ 2^-16, then |z̃ − z| + 2^-53|z̃| ≤ 61.5·2^-53 < FIRST_ERROR = 2^-47, whatever bits follow: x is
off by 2^-65 + 2^-53·x, a by 2^-63 + 2^-54, and from there `testkit.running_error` bounds every rounding of `polar` and
what the series leave out, by running `polar` on intervals that cover all inputs. So with p = D·z̃ computed, rounded by
at most 2^-53·D|z̃|, and an integer n: if |p − n| < ½ − D·FIRST_ERROR then n = rint(D·z) for all z. The 2^-50 in
`integers` covers p − n contracted, and the roundings of the comparison. Where x < 2^-16, the second level is asked.

*(ii) Second level.* In the same way, |z̃ − z| ≤ e = 2200·2^-106 < 2^-94.8, the rounding of D·z̃ included, if U ≥ 2^-160:
x is off by 2^-257 + 8.1·2^-106·x, 1 − x·2^k by 8·2^-106 more, a by 2^-127 + 4.1·2^-106. Call the rest, of probability
2^-160, T. Outside of T, r < 14.9. `rounded` is exact. So outside of T, whichever level decides, J = rint(D·z′) with
|z′ − z| ≤ e, (z, y) an *exact* normal pair; likewise y.

*(iii) Cells.* Let I = [a, a + w], w = 1/D, 0 < a < 15, be the cell of an integer (or its mirror image), I⁺ and I⁻ the
cell made longer and shorter by e at each end, φ the normal density, h = min(w, 1/128). As φ falls on I,
P(I) ≥ hφ(a + h) ≥ hφ(a)/1.125. Each shell has at most eφ(a − e) ≤ 1.0001·eφ(a). So P(I⁺) and P(I⁻) are within a
relative q = 2.26·e·max(D, 128) of P(I). The cell of 0 has P ≥ hφ(h/2), and its shells eφ(0) at most: the same.
For cells (I, I′) of a pair that come within e of the disc r < 14.9, other cells being met in T only,

    P̃(I×I′ and not T) ≤ P(I⁺)P(I′⁺) ≤ e^2q P(I×I′),
    P̃(I×I′) ≥ P(I⁻)P(I′⁻) − P(T and I×I′) ≥ e^-2q′ P(I×I′) − P(T and I×I′)

with q′ = q/(1 − q), and where one of a pair is used, the same with one factor. Sum over the cells of an event A of n
independent pairs, m ≤ 2n numbers in all, one pair after the other:

    P̃(A) ≤ e^a P(A) + δ,    P(A) ≤ e^a P̃(A) + δ,    a = 5000·2^-106·m·max(D, 128),    δ = m·2^-158.

(n ≤ m. Per pair P̃ = μ + ν with μ ≤ e^2q P, ν of mass P(T); the product of n such is at most e^2qn Pⁿ and a rest of mass
n·P(T). In the other direction the mass is (1 + e^2q)P(T).) The noise is independent of the history, so this holds for
adaptive queries. A run that is (ε, δ₀)-DP with exact rounded Gaussians is
(ε + 2a, e^a δ₀ + (1 + e^{ε+a})δ)-DP with these: apply the first line, the promise, and the second line in turn.
`gossamer.privacy.sampler_error` has a and δ: a ≤ 10^-7 for m·D ≤ 2^70.

*Assumed*: words are independent and uniform, given the key; float64 is IEEE 754 in +, −, ×, ÷, √, rint.
"""

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.oracle import double_double
from gossamer.oracle.double_double import Double, exactly, two_sum

FIRST_ERROR = 2.0**-47
"""How far a settled normal of the first level, or its product with D over D, is from the exact one."""
_ENDS = 1 << 16
"""The first word of x = 2^-16."""
_MOST_COLUMNS = 1 << 12
"""Of the matrix of pairs: each takes eight further words in every turn of the second level."""
_LN2 = Fraction("0.69314718055994530941723212145817656807550013436025525412068")
_PI = Fraction("3.14159265358979323846264338327950288419716939937510582097494")

Number = Any
"""A float64 array, a `Double`, or whatever a proof puts in their place."""


State = tuple[jax.Array, jax.Array, jax.Array, jax.Array]


class Arithmetic(NamedTuple):
    """How a level computes: its numbers, and how many terms of each series it needs."""

    number: Callable[[Fraction], Number]
    polynomials: Callable[[list[list[Fraction]], list[Number]], list[Number]]
    root: Callable[[Number], Number]
    atanh: int
    sine: int
    cosine: int


@functools.partial(jax.jit, static_argnames="shape")
def integers(key: jax.Array, shape: tuple[int, ...], deviation: jax.Array) -> jax.Array:
    """Draw independent integers, each the nearest to deviation·Z for a standard normal Z, as int64.

    Args:
      key: any typed key; it must serve nothing else.
      shape: of the result.
      deviation: float64, from 0 to 2^47.
    """

    def first(z: jax.Array) -> tuple[jax.Array, jax.Array]:
        product = deviation * z
        nearest = jnp.rint(product)
        sure = jnp.abs(product - nearest) < 0.5 - (deviation * FIRST_ERROR + 2.0**-50)
        return nearest.astype(jnp.int64), sure

    return _draw(key, shape, first, lambda z, deviation: rounded(exactly(deviation) * z), deviation)


def normals(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Draw independent standard normals in float64, each within `FIRST_ERROR` of an exact one if U ≥ 2^-160."""
    return _draw(key, shape, lambda z: (z, jnp.ones_like(z, bool)), lambda z, _: z.hi, jnp.float64(1.0))


def _draw(
    key: jax.Array,
    shape: tuple[int, ...],
    first: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    second: Callable[[Double, np.ndarray], np.ndarray],
    deviation: jax.Array,
) -> jax.Array:
    """Draw pairs, and make values of them: of the first level where that is sure of them, else of the second.

    The pairs are a matrix. Each turn of the loop takes one pair of every column that has one left. A turn looks through
    the matrix and calls the host, so there are enough columns that one turn nearly always does for all that are left:
    about one pair in 10^4, and one column for a few dozen pairs.
    """
    size = math.prod(shape)
    pairs = max(1, (size + 1) // 2)
    columns = min(pairs, _MOST_COLUMNS, 16 * (1 + pairs // 1024))
    rows = -(-pairs // columns)
    # For children, which share nothing with what is drawn (`base.generator`, Domains).
    second_key = jax.random.clone(key)
    words = jax.random.bits(key, (4, rows, columns), jnp.uint32)
    normal, settled = first_level(words)
    values, sure = first(normal)
    left = ~(settled & sure[0] & sure[1])
    row_numbers = jnp.arange(rows, dtype=jnp.int32)[:, None]
    column_numbers = jnp.arange(columns)

    def next_rows(left: jax.Array) -> jax.Array:
        """Return the first row of each column that has a pair left, or the number of rows."""
        return jnp.min(jnp.where(left, row_numbers, rows), axis=0)

    def unfinished(state: State) -> jax.Array:
        return jnp.any(state[1] < rows)

    def settle(state: State) -> State:
        turn, row, left, values = state
        place = (slice(None), row, column_numbers)
        more = jax.random.bits(jax.random.fold_in(second_key, turn), (8, columns), jnp.uint32)
        drawn = words.at[place].get(mode="clip")
        pair = on_host(drawn, more, row < rows)
        left = left.at[row, column_numbers].set(False, mode="drop")
        return turn + 1, next_rows(left), left, values.at[place].set(pair, mode="drop")

    def compute(words: Any, deviation: Any) -> np.ndarray:
        """Compute those pairs of a turn that are asked for; arguments and results are words of 32 bits."""
        # Numbers of 64 bits would be cut on their way: only this part of the program knows them.
        words = np.moveaxis(np.asarray(words), -2, 0)
        widths = np.ascontiguousarray(np.asarray(deviation)).view(np.float64)[..., 0]
        pairs = np.zeros((2, *words.shape[1:]), values.dtype)
        asked = words[-1] == 1
        with np.errstate(all="ignore"):
            pairs[:, asked] = second(second_level(words[:4, asked], words[4:12, asked]), widths[asked])
        return np.moveaxis(pairs, 0, -2)[..., None].view(np.uint32)

    def on_host(drawn: jax.Array, more: jax.Array, asked: jax.Array) -> jax.Array:
        width = jax.lax.bitcast_convert_type(jnp.broadcast_to(deviation, asked.shape), jnp.uint32)
        inputs = jnp.concatenate([drawn, more, asked[None].astype(jnp.uint32)])
        result = jax.ShapeDtypeStruct((2, columns, 2), jnp.uint32)
        pair = jax.pure_callback(compute, result, inputs, width, vmap_method="broadcast_all")
        return jax.lax.bitcast_convert_type(pair, values.dtype)

    start = (jnp.uint32(0), next_rows(left), left, values)
    values = jax.lax.while_loop(unfinished, settle, start)[3]
    return values.reshape(-1)[:size].reshape(shape)


def first_level(words: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return pairs of normals made of four words each, and whether their error is at most `FIRST_ERROR`."""
    u0, u1, a0, a1 = words
    half, low = u0 & 0x7FFFFFFF, a1 >> 2
    x = _real(half) * 2.0**-32 + (_real(u1) + 0.5) * 2.0**-64
    angle = _signed(a0) * 2.0**-32 + (_real(low) + 0.5) * 2.0**-62
    exponent, scale = _exponent(x)
    upper = u0 >= 1 << 31
    t = jnp.where(upper, x, 1.0 - x * scale)
    k = jnp.where(upper, 0.0, exponent)
    radius, cosine, sine = polar(FIRST, k, t, angle)
    return radius * _turned(a1, cosine, sine), half >= _ENDS


def second_level(words: np.ndarray, more: np.ndarray) -> Double:
    """Return the same pairs more precisely, with eight further words each; in NumPy."""
    u0, u1, a0, a1 = words
    x = _sum(np.stack([u0 & 0x7FFFFFFF, u1, *more[:6]])).scaled(2.0**-32)
    angle = exactly(a0.view(np.int32) * 2.0**-32) + _sum(np.stack([a1 >> 2, *more[6:]])).scaled(2.0**-62)
    _, exponent = np.frexp(x.hi)
    upper = u0 >= 1 << 31
    t = _where(upper, x, double_double.constant(Fraction(1)) - x.scaled(np.ldexp(1.0, -exponent)))
    k = exactly(np.where(upper, 0.0, -exponent))
    radius, cosine, sine = polar(SECOND, k, t, angle)
    odd, sign = (a1 & 1) == 1, 1.0 - (a1 & 2)
    parts = (_where(odd, -sine, cosine), _where(odd, cosine, sine))
    return radius * Double(*(sign * np.stack([getattr(part, name) for part in parts]) for name in ("hi", "lo")))


def polar(arithmetic: Arithmetic, k: Number, t: Number, x: Number) -> tuple[Number, Number, Number]:
    """Return √(−2 log((1 − t)2^-k)) and cosine and sine of xπ/2, for t in [0, ½] and x in [-½, ½]."""
    number, polynomials, root, *terms = arithmetic
    atanh = [Fraction(4, 2 * i + 1) for i in range(terms[0])]
    sines = [Fraction((-1) ** i, math.factorial(2 * i + 1)) for i in range(terms[1])]
    cosines = [Fraction((-1) ** i, math.factorial(2 * i)) for i in range(terms[2])]
    s, angle = t / (number(Fraction(2)) - t), x * number(_PI / 2)
    square = angle * angle
    slope, cosine, ratio = polynomials([atanh, cosines, sines], [s * s, square, square])
    return root(k * number(2 * _LN2) + s * slope), cosine, angle * ratio


def rounded(x: Double) -> np.ndarray:
    """Return the integer nearest to x, |x| < 2^52, as int64."""
    nearest = np.rint(x.hi)
    rest, small = two_sum(x.hi - nearest, x.lo)
    up = (rest > 0.5) | ((rest == 0.5) & (small > 0))
    down = (rest < -0.5) | ((rest == -0.5) & (small < 0))
    return nearest.astype(np.int64) + up - down


def horner(tables: list[list[Fraction]], arguments: list[Number]) -> list[Number]:
    """Evaluate polynomials, constant terms first."""
    values = []
    for table, x in zip(tables, arguments, strict=True):
        value, *others = map(float, reversed(table))
        for c in others:
            value = value * x + c
        values.append(value)
    return values


FIRST = Arithmetic(float, horner, jnp.sqrt, atanh=17, sine=9, cosine=9)
SECOND = Arithmetic(double_double.constant, double_double.polynomials, double_double.root, atanh=33, sine=14, cosine=14)


def _real(word: jax.Array) -> jax.Array:
    return word.astype(jnp.float64)


def _signed(word: jax.Array) -> jax.Array:
    return jax.lax.bitcast_convert_type(word, jnp.int32).astype(jnp.float64)


def _exponent(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return k and 2^k such that x·2^k is in [½, 1), for x in [2^-300, ½]."""
    biased = jax.lax.bitcast_convert_type(x, jnp.int64) >> 52
    k = (1022 - biased.astype(jnp.int32)).astype(jnp.float64)
    return k, jax.lax.bitcast_convert_type((2045 - biased) << 52, jnp.float64)


def _sum(words: np.ndarray) -> Double:
    """Return word + 2^-32(word + 2^-32(... + ½))."""
    reals = words.astype(np.float64)
    total = exactly(reals[-1] + 0.5)
    for word in reals[-2::-1]:
        total = exactly(word) + total.scaled(2.0**-32)
    return total


def _where(condition: np.ndarray, x: Double, y: Double) -> Double:
    return Double(np.where(condition, x.hi, y.hi), np.where(condition, x.lo, y.lo))


def _turned(word: jax.Array, cosine: jax.Array, sine: jax.Array) -> jax.Array:
    """Turn a point of the circle by as many right angles as the two lowest bits of a word say."""
    odd, sign = (word & 1) == 1, 1.0 - _real(word & 2)
    return jnp.stack([sign * jnp.where(odd, -sine, cosine), sign * jnp.where(odd, cosine, sine)])
