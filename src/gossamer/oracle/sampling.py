"""Which records a query looks at: Poisson samples in O(batch), static blocks, everything.

A Poisson sample includes every record on its own with probability q. Walking through the rows, the number of
rows skipped before the next included one is geometric, so the sample is the sequence of partial sums of
independent geometric gaps: O(batch) work, sorted rows, and exactly the law that the accountant assumes. (The
two-step recipe, a binomial size and then distinct rows, needs a pseudo-random permutation whose quality
can only be hoped for, and a binomial sampler that float32 spoils for large n.)

The digits of a geometric variable in base b are independent: with P(G ≥ k) = (1−q)^k and r = (1−q)^(b^j),
digit j has P(digit ≥ k) = (r^k − r^b)/(1 − r^b). Each digit is drawn by comparing one 32-bit word with a table of
thresholds made in float64: no logarithms, the same on every device, and each probability right to 2^-32.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.oracle.shards import Shards

_DIGIT_BITS = 8
_BASE = 1 << _DIGIT_BITS
_ROOT = 1 << _DIGIT_BITS // 2


@dataclass(frozen=True)
class Sampler:
    """Draws the part on one shard of a query's samples (`gossamer.privacy.sampling.Sampler`)."""

    shards: Shards
    order: jax.Array
    """A random order of the shard's rows, in which blocks are cut."""
    present: jax.Array | None
    """Rows that count; None: all."""
    key: jax.Array
    capacity: int
    """The static size of a Poisson sample."""
    first: jax.Array
    """Where in the order of the whole table the block begins."""

    def everything(self) -> "Sample":
        """Return all rows, in their order."""
        return Sample(None, jnp.ones(self.shards.rows, bool) if self.present is None else self.present)

    def poisson(self, rate: float) -> "Sample":
        """Return each row with this probability."""
        return self._of_present(poisson(self.key, self.shards.rows, rate, self.capacity))

    def block(self, rows: int) -> "Sample":
        """Return the next rows in the order."""
        return self._of_present(block(self.first, rows, self.order, self.shards.here(), self.shards.count))

    def _of_present(self, sample: "Sample") -> "Sample":
        present = self.present
        return sample if present is None else sample._replace(mask=sample.mask & present[sample.rows])


class Sample(NamedTuple):
    """Rows of a sample, padded to a static size: where `mask` is False the row does not count."""

    rows: jax.Array | None
    """Row numbers; None: every row of the table in its order."""
    mask: jax.Array
    coming: jax.Array | None = None
    """For a table on disk: the rows of the next sample of this kind, to be read ahead."""
    spot: jax.Array | int = 0
    """The place in the sample of the record whose contribution is measured."""


def poisson(key: jax.Array, n: int, rate: float, capacity: int) -> Sample:
    """Draw each of n rows with probability `rate`; at most `capacity` of them, the first in row order.

    Truncation is part of the certificate: `gossamer.privacy.accounting.capacities` chooses a capacity that is outgrown
    with negligible probability and charges that probability to δ.
    """
    tables = _digit_tables(n, rate)
    words = jax.random.bits(key, (len(tables), capacity), jnp.uint32)
    gap = jnp.zeros(capacity, jnp.uint32)
    for place, (word, table) in enumerate(zip(words, tables, strict=True)):
        gap += _digit(word, jnp.asarray(table)) << (_DIGIT_BITS * place)
    # A saturating sum: what has left the table stays outside it, and 2(n + 1) < 2^32 cannot wrap.
    ends = jax.lax.associative_scan(lambda a, b: jnp.minimum(a + b, n + 1), jnp.minimum(gap, n) + 1)
    mask = ends <= n
    return Sample(jnp.where(mask, ends - 1, 0).astype(jnp.int32), mask)


def _digit(word: jax.Array, table: jax.Array) -> jax.Array:
    """Count the thresholds that each word reaches: first among every 16th, then among the 15 between two of those.

    Bisection needs fewer comparisons, but the compiler fuses a chain of look-ups into every level of the scan that
    follows and repeats it there; a sum it computes once.
    """
    padded = jnp.append(table, jnp.uint32(2**32 - 1)).reshape(_ROOT, _ROOT)
    coarse = jnp.sum(word[:, None] >= padded[:-1, -1], axis=1, dtype=jnp.uint32)
    fine = jnp.sum(word[:, None] >= padded[coarse, :-1], axis=1, dtype=jnp.uint32)
    return coarse * _ROOT + fine


def _digit_tables(n: int, rate: float) -> list[np.ndarray]:
    """Return the thresholds of each base-b digit of the gap: digit ≥ k iff the word is ≥ the k-th.

    The highest digit is not truncated at b: its last value b − 1 also stands for all longer gaps. There are enough
    digits that such a gap leaves the table, whatever its exact length.
    """
    places = 1
    while (_BASE - 1) * _BASE ** (places - 1) < n:
        places += 1
    steps = np.arange(1, _BASE)
    tables = []
    for place in range(places):
        log_r = float(_BASE**place) * math.log1p(-rate)
        below = -np.expm1(steps * log_r)
        if place < places - 1:
            below /= -math.expm1(_BASE * log_r)
        # The word is below t with probability t/2^32. A certain event would need t = 2^32, which no word reaches
        # and no word holds: 2^32 − 1 is 2^-32 away.
        tables.append(np.minimum(np.round(below * 2.0**32), 2.0**32 - 1).astype(np.uint32))
    return tables


def block(start: jax.Array, size: int, order: jax.Array, shard: jax.Array | int = 0, shards: int = 1) -> Sample:
    """Return the part on one shard of the block of `size` rows that begins at place `start` of the table's order.

    Place p is place p // shards of shard p % shards in that shard's own order: blocks are spread evenly.
    """
    first = (start - shard + shards - 1) // shards
    count = (start + size - shard + shards - 1) // shards - first
    places = first + jnp.arange(-(-size // shards))
    mask = jnp.arange(len(places)) < count
    return Sample(order[jnp.where(mask, places, 0)], mask)
