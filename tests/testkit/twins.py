"""Unsound twins: each makes one mistake that is found in print or in the wild, and must be caught."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gossamer import geometry
from gossamer.base import trees
from gossamer.methods import GD, AccMD
from gossamer.oracle import Oracle
from gossamer.oracle.clipping import clip_and_sum
from gossamer.oracle.sampling import Sample


class QuietOracle(Oracle):
    """Adds 0.7 times the calibrated noise."""

    def noise_multiplier(self, query):
        return 0.7 * super().noise_multiplier(query)


class NearlySilentOracle(Oracle):
    """Adds a tenth of the noise: for attacks by a few of many answers, which do not find out less."""

    def noise_multiplier(self, query):
        return 0.1 * super().noise_multiplier(query)


class BatchMeanOracle(Oracle):
    """Clips the mean of the sample instead of each record (as printed in DRO Alg. 2 and SOSP Alg. 3)."""

    def clipped_sum(self, h, sample, clip):
        unclipped = clip_and_sum(h, self._batch(sample), sample.mask, jnp.float32(1e30))
        size = jnp.maximum(jnp.sum(sample.mask), 1)
        mean = jax.tree.map(lambda leaf: leaf / size, unclipped)
        factor = jnp.minimum(1.0, clip / jnp.maximum(trees.norm(mean), 1e-30))
        return jax.tree.map(lambda leaf: self.door.lattice.rounded(leaf * factor * size, clip), mean)


class RealisedSizeOracle(Oracle):
    """Divides by the realised size of the sample instead of a public number."""

    def normaliser(self, query, sample):
        return jnp.maximum(jnp.sum(sample.mask), 1)


class SameKeyOracle(Oracle):
    """Draws the same noise in every step."""

    def key(self, query, index):
        return super().key(query, 0 * index)


class ShuffledOracle(Oracle):
    """Walks through a shuffled table in blocks while the schedule says Poisson."""

    def sample(self, query, index, key):
        size = round(query.sampling.size(self.door.n))
        order = jax.random.permutation(jax.random.fold_in(self._secrets.key, 999), self.door.n)
        rows = jax.lax.dynamic_slice(order, (index * size,), (size,))
        return Sample(rows, jnp.ones(size, bool))


@dataclass(frozen=True)
class PeekingGD(GD):
    """Moves by a ten-thousandth of the first record, past the oracle."""

    def step(self, problem, ask, state, t):
        after, report = super().step(problem, ask, state, t)
        first = ask._oracle.inner._secrets.data[0]
        return after._replace(x=after.x + 1e-4 * first), report


@dataclass(frozen=True)
class GreedyGD(GD):
    """Asks twice in every step and scheduled it once."""

    def step(self, problem, ask, state, t):
        state, _ = super().step(problem, ask, state, t)
        return super().step(problem, ask, state, t)


@dataclass(frozen=True)
class PrintedAccMD(AccMD):
    """Takes the y-step by the exact gradient and only the z-step by the noisy one (as printed in ERM Alg. 3)."""

    def step(self, problem, ask, state, t):
        after, report = super().step(problem, ask, state, t)
        gradient = jax.grad(lambda x: problem.objective(x, ask._oracle.inner._secrets.data))(report.at)
        y = geometry.steepest_descent(problem.constraint, report.at, gradient, self.smoothness)
        return after._replace(y=y), report
