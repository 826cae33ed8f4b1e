"""Box–Muller of random words by mpmath at 60 digits, and how far `gossamer.oracle.integer_noise` is from it.

As a program it prints the largest errors, relative to what is proved, compiled as users compile.
"""

import itertools
import json
import sys

import jax
import mpmath
import numpy as np

from gossamer.oracle import integer_noise

mpmath.mp.dps = 60
SECOND_ERROR = 2200 * 2.0**-106


def pair(words, more=(), end=0):
    """Return the exact pair of normals for words that are all followed by zeros (end = 0) or by ones (end = 1)."""
    u0, u1, a0, a1 = map(int, words)
    more = list(map(int, more))
    x = _fraction([(u0 & 0x7FFFFFFF, 32), (u1, 32), *((w, 32) for w in more[:6])], end)
    if x == 0 and u0 < 1 << 31:
        return mpmath.inf, mpmath.inf
    radius = mpmath.sqrt(-2 * (mpmath.log1p(-x) if u0 >= 1 << 31 else mpmath.log(x)))
    a0 -= (a0 >> 31) << 32
    turns = _fraction([(a0, 32), (a1 >> 2, 30), *((w, 32) for w in more[6:])], end) + (a1 & 3) % 2 + 2 * ((a1 & 3) // 2)
    return radius * mpmath.cos(turns * mpmath.pi / 2), radius * mpmath.sin(turns * mpmath.pi / 2)


def _fraction(digits, end):
    total, bits = 0, 0
    for word, length in digits:
        total, bits = (total << length) + word, bits + length
    return mpmath.mpf(total + end) / mpmath.mpf(2) ** bits


def words(count, seed):
    """Return hard words, and random ones: (4, n) of the first level, (8, n) of the second."""
    generator = np.random.default_rng(seed)
    powers = [2**j + d for j in range(32) for d in (-1, 0, 1)]
    edges = [0, 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1]
    radii = [(u0, u1) for u0 in {*powers, *(2**31 + p for p in powers), *edges} for u1 in (0, 2**31, 2**32 - 1)]
    radii += [(2**31 * top, u1) for top in (0, 1) for u1 in powers]
    radii = [(u0 % 2**32, u1) for u0, u1 in radii]
    angles = [(a0 % 2**32, a1) for a0 in {*powers, *edges} for a1 in (*range(4), *range(2**32 - 4, 2**32))]
    size = max(len(radii), len(angles))
    hard = np.array(
        [(*r, *a) for r, a in itertools.islice(zip(itertools.cycle(radii), itertools.cycle(angles)), 2 * size)]
    )
    drawn = np.concatenate([hard, generator.integers(0, 2**32, (count, 4))]).T.astype(np.uint32)
    more = generator.integers(0, 2**32, (8, drawn.shape[1]), np.uint32)
    more[:, ::3] = generator.choice(np.array([0, 2**32 - 1], np.uint32), (8, more[:, ::3].shape[1]))
    return drawn, more


def errors(count, seed):
    """Return the largest errors of both levels, relative to those that are proved, and how many pairs there were."""
    drawn, more = words(count, seed)
    with jax.enable_x64(True):
        first, settled = map(np.asarray, jax.jit(integer_noise.first_level)(drawn))
    second = integer_noise.second_level(drawn, more)
    worst = {"first": 0.0, "second": 0.0, "low words": 0.0, "pairs": drawn.shape[1], "settled": int(settled.sum())}
    for i in range(drawn.shape[1]):
        for end in (0, 1):
            if settled[i]:
                for value, exact in zip(first[:, i], pair(drawn[:, i], end=end), strict=True):
                    worst["first"] = max(worst["first"], float(abs(value - exact)) / integer_noise.FIRST_ERROR)
            exact = pair(drawn[:, i], more[:, i], end)
            for hi, lo, z in zip(second.hi[:, i], second.lo[:, i], exact, strict=True):
                if drawn[0, i] | drawn[1, i] | more[0, i] | more[1, i] | more[2, i]:  # U ≥ 2^-160
                    worst["second"] = max(
                        worst["second"], float(abs(mpmath.mpf(float(hi)) + float(lo) - z)) / SECOND_ERROR
                    )
                    worst["low words"] = max(worst["low words"], float(abs(mpmath.mpf(float(hi)) - z)) / SECOND_ERROR)
    return worst


if __name__ == "__main__":
    print(json.dumps(errors(int(sys.argv[1]), seed=1)))
