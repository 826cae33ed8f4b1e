"""Which records a query looks at: Poisson samples in O(batch), static blocks, everything.

A Poisson sample includes every record on its own with probability q. Walking through the rows, the number of
rows skipped before the next included one is geometric, so the sample is the sequence of partial sums of
independent geometric gaps: O(batch) work, and exactly the law that the accountant assumes. (The
two-step recipe, a binomial size and then distinct rows, needs a pseudo-random permutation whose quality
can only be hoped for, and a binomial sampler that float32 spoils for large n.)

The digits of a geometric variable in base b are independent: with P(G ≥ k) = (1−q)^k and r = (1−q)^(b^j),
digit j has P(digit ≥ k) = (r^k − r^b)/(1 − r^b). Each digit is drawn by comparing a uniform number of 128 bits with a
table of 255 thresholds made in whole numbers: no logarithms, the same on every device. The leading 32 bits nearly
always decide, and the others are drawn only where they do not.

*How far a drawn sample is from a Poisson sample.* Every threshold is within 2⁻¹²⁸ of its probability (`_thresholds`).
Two laws on 256 values whose distribution functions differ by e_1, …, e_255 are Σ|e_k| apart at most in total variation,
so a digit can be coupled to an exact one from which it differs with probability 255·2⁻¹²⁸ < 2⁻¹²⁰ at most. A shard has
less than 2³¹ rows and a gap therefore at most 4 digits; a sample of `capacity` gaps differs from an exact one, cut at
that capacity, with probability capacity·2⁻¹¹⁸ at most.

*Slots.* A sample is put in uniformly random slots of its capacity, with empty ones in between. Take i out of a
uniformly random placement of S ∪ {i}, and what is left is a uniformly random placement of S. So neighbours can be
coupled such that all records but i, and a record that replaces it, are in the same slots: only the part of the sum with
the slot of i can differ. Packed by rank, every later record would move, and with it the rounding of every later sum.
Slots are in the order of 128 random bits for each. Unless two are equal, which has probability capacity²·2⁻¹²⁹ at most,
all orders are equally probable.

On all shards of a table of n rows together there are at most 2n slots, so that a whole sample is n·2⁻¹¹⁷ + n²·2⁻¹²⁷
away from its ideal. `gossamer.privacy.sampling.Poisson.sampling_error` is that number, and it is charged to δ.

*Empty slots* show the first row of the table, whatever the sample is: masked, its weight is 0. Which slots are empty
depends on how many records were drawn and on chance, and on nothing else.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.oracle.shards import Shards

_DIGIT_BITS = 8
_BASE = 1 << _DIGIT_BITS
_ROOT = 1 << _DIGIT_BITS // 2
_WORDS = 4
"""Of 32 bits in a number that is compared with thresholds, and in one that slots are ordered by."""
_MOST_ROWS = 1 << 31


@dataclass(frozen=True)
class Sampler:
    """Draws the part on one shard of a query's samples (`gossamer.privacy.sampling.Sampler`)."""

    shards: Shards
    order: jax.Array
    """A random order of the shard's rows, in which blocks are cut."""
    present: jax.Array | None
    """Rows that count; None: all."""
    key: jax.Array
    """Of this shard: with one key for all, rows of different shards would come together."""
    capacity: int
    """The static size of a Poisson sample."""
    first: jax.Array
    """Where in the order of the whole table the block begins."""
    shard: jax.Array | int = 0
    """Its number."""

    def everything(self) -> "Sample":
        """Return all rows, in their order."""
        return Sample(None, jnp.ones(self.shards.rows, bool) if self.present is None else self.present)

    def poisson(self, rate: float) -> "Sample":
        """Return each row with this probability, in random slots.

        The words of both are drawn at once, which takes as long as those of the rows alone. They are different words
        of the key, and what else rows and slots need comes from different children of it: all are independent.
        """
        n, size = self.shards.rows, self.capacity
        places = _digit_table(n, rate).shape[1]
        words = jax.random.bits(self.key, (places + _slot_words(size), size), jnp.uint32)
        rows = _poisson(words[:places], _more(self.key, 0), n, rate)
        return _scattered(words[places:], _more(self.key, 1), self._of_present(rows))

    def block(self, rows: int) -> "Sample":
        """Return the next rows in the order."""
        return self._of_present(block(self.first, rows, self.order, self.shard, self.shards.count))

    def _of_present(self, sample: "Sample") -> "Sample":
        if self.present is None:
            return sample
        assert sample.rows is not None
        mask = sample.mask & self.present[sample.rows]
        return Sample(jnp.where(mask, sample.rows, 0), mask)


class Sample(NamedTuple):
    """Rows of a sample, padded to a static size: where `mask` is False the row does not count."""

    rows: jax.Array | None
    """Row numbers; None: every row of the table in its order."""
    mask: jax.Array
    coming: jax.Array | None = None
    """For a table on disk: the rows of the next sample of this kind, to be read ahead."""
    spot: jax.Array | int = 0
    """The place in the sample of the record whose contribution is measured."""


More = Callable[[tuple[int, ...]], jax.Array]
"""Draws further words."""


def _more(key: jax.Array, number: int) -> More:
    """Return what draws words of a key's child, which shares nothing with the key's own (`base.generator`, Domains)."""
    return lambda shape: jax.random.bits(jax.random.fold_in(jax.random.clone(key), number), shape, jnp.uint32)


def poisson(key: jax.Array, n: int, rate: float, capacity: int) -> Sample:
    """Draw each of n rows with probability `rate`; at most `capacity` of them, the first in row order.

    Truncation is part of the certificate: `gossamer.privacy.accounting.capacities` chooses a capacity that is outgrown
    with negligible probability and charges that probability to δ.
    """
    leading = jax.random.bits(key, (_digit_table(n, rate).shape[1], capacity), jnp.uint32)
    return _poisson(leading, _more(key, 0), n, rate)


def _poisson(leading: jax.Array, more: More, n: int, rate: float) -> Sample:
    """Return the sample whose digits these leading words decide, or further ones where they do not."""
    table = jnp.asarray(_digit_table(n, rate))
    likely = _digits(leading[None], table[:1])
    places = jnp.arange(table.shape[1], dtype=jnp.uint32)[:, None]
    last_reached = table[0].reshape(-1)[jnp.maximum(places * _BASE + likely, 1) - 1]

    def exact() -> jax.Array:
        return _digits(jnp.concatenate([leading[None], more((_WORDS - 1, *leading.shape))]), table)

    # Only a number whose leading word is a threshold's is undecided.
    undecided = jnp.any((likely > 0) & (leading == last_reached))
    digits = jax.lax.cond(undecided, exact, lambda: likely)
    gap = jnp.sum(digits << (_DIGIT_BITS * places), axis=0, dtype=jnp.uint32)
    # A saturating sum: what has left the table stays outside it, and 2(n + 1) ≤ 2^32 cannot wrap.
    ends = jax.lax.associative_scan(lambda a, b: jnp.minimum(a + b, n + 1), jnp.minimum(gap, n) + 1)
    mask = ends <= n
    return Sample(jnp.where(mask, ends - 1, 0).astype(jnp.int32), mask)


def _digits(numbers: jax.Array, table: jax.Array) -> jax.Array:
    """Count the thresholds that each number reaches: first among every 16th, then among the 15 between two of those.

    Numbers are (words, places, capacity), thresholds (words, places, 256). Bisection needs fewer comparisons, but the
    compiler fuses a chain of look-ups into every level of the scan that follows and repeats it there; a sum it computes
    once.
    """
    words, places, _ = table.shape
    table = table.reshape(words, places, _ROOT, _ROOT)
    numbers = numbers[..., None]
    coarse = jnp.sum(_reaches(numbers, table[:, :, None, :-1, -1]), axis=-1, dtype=jnp.uint32)
    between = table[:, jnp.arange(places)[:, None], coarse, :-1]
    return coarse * _ROOT + jnp.sum(_reaches(numbers, between), axis=-1, dtype=jnp.uint32)


def _reaches(numbers: jax.Array, thresholds: jax.Array) -> jax.Array:
    """Return whether number ≥ threshold, for words in the first axis."""
    *leading, last = zip(numbers, thresholds, strict=True)
    reached = last[0] >= last[1]
    for number, threshold in reversed(leading):
        reached = (number > threshold) | ((number == threshold) & reached)
    return reached


@functools.lru_cache(maxsize=64)
def _digit_table(n: int, rate: float) -> np.ndarray:
    """Return the thresholds of all digits as 32-bit words, the leading one first: an array (4, places, 256).

    The last one of each digit is filler.
    """
    shifts = range(32 * (_WORDS - 1), -1, -32)
    thresholds = [[*digit, 0] for digit in _thresholds(n, rate)]
    return np.array([[[t >> s & 0xFFFFFFFF for t in digit] for digit in thresholds] for s in shifts], np.uint32)


def _thresholds(n: int, rate: float) -> list[list[int]]:
    """Return the thresholds of each base-b digit of the gap, in units of 2^-128: digit ≥ k iff the number reaches k's.

    The highest digit is not truncated at b: its last value b − 1 also stands for all longer gaps. There are enough
    digits that such a gap leaves the table, whatever its exact length.

    Each is within one unit of its probability. Powers of 1 − q are whole multiples of 2^-p, rounded down. A product
    of two of them is low by what they are low by and less than one multiple more, as neither exceeds 1: (1−q)^m is
    low by less than m ≤ 2^32 multiples. So 1 − r^k and 1 − r^b are high by as much, and their quotient is off by at
    most 2^(32−p)/(1 − r^b) ≤ 2^(32−p)/q. With 2^e > q ≥ 2^(e−1) and p = 200 − e this is below 2^-166, and rounding to
    the nearest unit adds half a unit. A certain event would need 2^128, which no number holds: one unit less is taken.
    """
    if n >= _MOST_ROWS:
        raise ValueError(f"a shard has n = {n} rows; samples are drawn of less than 2^31. Spread the table further.")
    places = 1
    while (_BASE - 1) * _BASE ** (places - 1) < n:
        places += 1
    precision, units = 200 - math.frexp(rate)[1], 1 << 32 * _WORDS
    one = 1 << precision
    r = int((1 - Fraction(rate)) * one)
    thresholds = []
    for place in range(places):
        powers = [r]
        while len(powers) < _BASE:
            powers.append(powers[-1] * r >> precision)
        whole = one if place == places - 1 else one - powers[-1]
        thresholds.append([min((2 * (one - power) * units + whole) // (2 * whole), units - 1) for power in powers[:-1]])
        r = powers[-1]
    return thresholds


def scattered(key: jax.Array, sample: Sample) -> Sample:
    """Put a sample in uniformly random slots, so that without one of its rows the others could be where they are."""
    (size,) = sample.mask.shape
    first = jax.random.bits(key, (_slot_words(size), size), jnp.uint32)
    return _scattered(first, _more(key, 0), sample)


def _scattered(first: jax.Array, more: More, sample: Sample) -> Sample:
    """Put a sample in the slots that these words decide, or further ones where they do not.

    Slots are sorted by random numbers. Of the first 32 bits, or 64 where there are many slots, as many as the slot's
    own number needs make room for it: a sort of single numbers is faster than one that carries others along. Where two
    of these are equal, all slots are sorted by 128 bits, so that in either case the order is that of all bits.
    """
    words, size = first.shape
    room = _room(size)
    slots = jnp.arange(size, dtype=jnp.uint32)
    with jax.enable_x64(True):
        numbers = first[0] if words == 1 else first[0].astype(jnp.uint64) << 32 | first[1].astype(jnp.uint64)
        ordered = jax.lax.sort((numbers >> room) << room | slots.astype(numbers.dtype))
        alike = jnp.any(ordered[1:] >> room == ordered[:-1] >> room)
        order = (ordered & ((1 << room) - 1)).astype(jnp.uint32)

    def by_all_bits() -> jax.Array:
        return jax.lax.sort((*first, *more((_WORDS - words, size)), slots), num_keys=_WORDS)[-1]

    order = jax.lax.cond(alike, by_all_bits, lambda: order)
    assert sample.rows is not None
    return Sample(sample.rows[order], sample.mask[order])


def _room(size: int) -> int:
    """Return how many bits the number of a slot needs."""
    return max(1, (size - 1).bit_length())


def _slot_words(size: int) -> int:
    """Return how many words sort slots at first: with one, two of the size²/2 pairs are alike at most 1 time in 64."""
    return 1 if 3 * _room(size) + 5 <= 32 else 2


def block(start: jax.Array, size: int, order: jax.Array, shard: jax.Array | int = 0, shards: int = 1) -> Sample:
    """Return the part on one shard of the block of `size` rows that begins at place `start` of the table's order.

    Place p is place p // shards of shard p % shards in that shard's own order: blocks are spread evenly.
    """
    first = (start - shard + shards - 1) // shards
    count = (start + size - shard + shards - 1) // shards - first
    places = first + jnp.arange(-(-size // shards))
    mask = jnp.arange(len(places)) < count
    return Sample(order[jnp.where(mask, places, 0)], mask)
