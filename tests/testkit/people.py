"""Tables of persons with one row or many, and the mistakes that are made with them."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import gossamer as gs
from gossamer.oracle import Oracle
from gossamer.oracle.clipping import clip_and_sum
from gossamer.oracle.people import Person
from gossamer.oracle.queries import Gradient
from gossamer.oracle.sampling import Sampler
from gossamer.privacy.sampling import Poisson

CAP = 10
INIT = {"weights": jnp.array([3e-3, -2e-3, 1e-3], jnp.float32), "intercept": jnp.float32(0.01)}
"""A model that is undecided: opposite records have opposite gradients."""


def ragged(persons: int = 12, seed: int = 0, most: int = CAP) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Return a table of persons with one to `most` rows, in no order: rows, and ids."""
    rng = np.random.default_rng(seed)
    counts = 1 + np.arange(persons) % most
    ids = rng.permutation(np.repeat(np.arange(persons), counts))
    rows = rng.normal(size=(len(ids), 3)).astype(np.float32)
    return (rows, (rows[:, 0] > 0).astype(np.float32)), ids


def hostile(count: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return rows that a person may have in place of its own."""
    one, zero = np.ones(count, np.float32), np.zeros(count, np.float32)
    away = np.tile(np.float32([50, -20, 10]), (count, 1))
    turns = np.where(np.arange(count) % 2, -1, 1).astype(np.float32)[:, None] * np.float32(1e6)
    return {
        "one way": (away, zero),
        "the opposite way": (away, one),
        "huge": (1e18 * away, zero),
        "beyond squares": (np.full((count, 3), 1e30, np.float32), one),
        "not a number": (np.full((count, 3), np.nan, np.float32), one),
        "infinite": (np.full((count, 3), np.inf, np.float32), zero),
        "one bad row of many": (np.vstack([away[:-1], np.full((1, 3), np.nan, np.float32)]), zero),
        "terms that cancel": (turns * away, (turns[:, 0] > 0).astype(np.float32)),
    }


class RowClippingOracle(Oracle):
    """Clips every row and adds up a person's rows without clipping the person."""

    def clipped_sum(self, h, sample, clip):
        persons: Person = self._batch(sample) if sample.rows is not None else self._secrets.data.gathered()
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), persons)
        counts = flat.present & jnp.repeat(sample.mask, persons.present.shape[1])
        row = Gradient(h.loss.loss, h.at)
        return clip_and_sum(row, flat.rows, counts, clip, lattice=self.door.lattice)


class RowsSampledOracle(Oracle):
    """Samples rows, takes each person's rows of the sample for the person, and accounts for them as one record.

    Of a person with as many rows as count, all alike, that is the person with probability 1 − (1 − q)^rows.
    """

    def sample(self, query, index, keys):
        return Poisson(1 - (1 - query.sampling.rate) ** CAP).draw(
            Sampler(
                shards=self.door.shards,
                order=self._secrets.order,
                present=self._secrets.present,
                key=keys.sample,
                capacity=self.door.n,
                first=jnp.int32(0),
            )
        )


class RowNormaliserOracle(Oracle):
    """Divides by the number of rows, where that of persons is public."""

    def normaliser(self, query, sample):
        people = self._secrets.data
        return query.sampling.size(1) * jnp.sum(people.counts)


def distance(here: Any, there: Any) -> float:
    """Return how far apart the clipped sums over two tables of persons are, in thresholds."""
    return float(np.linalg.norm(clipped(here) - clipped(there)))


def clipped(people: Any) -> np.ndarray:
    """Return Σ clip(∇, 1) over a table of persons."""
    h = Gradient(people.lifted(gs.objectives.logistic), INIT)
    total = clip_and_sum(h, people.gathered(), jnp.ones(people.n, bool), 1.0)
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(total)])
