"""PrivateDiff as printed: each twin makes one of its mistakes, and must be caught."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gossamer.base import trees
from gossamer.methods import PrivateDiff
from gossamer.methods.base import rate_at
from gossamer.oracle import Difference, Gradient, Oracle
from gossamer.oracle.clipping import clip_and_sum
from gossamer.oracle.sampling import Sample


@dataclass(frozen=True)
class UnnoisedAscent(PrivateDiff):
    """Takes the x-gradient at the y of an ascent without noise (Alg. 3, lines 3, 5 and 7), though it releases no y."""

    def _ascend(self, problem, ask, x, y):
        def inner(ask, i, y):
            h = Gradient(problem.in_y(x), y)
            ask("ascent", h, self.clip_y)
            return problem.project_y(trees.add(y, _exact_mean(ask, h, self.clip_y), rate_at(self.learning_rate_y, i)))

        return ask.loop(self.inner_steps, inner, y)

    def params(self, state):
        return state.x, jnp.zeros_like(state.y)


def _exact_mean(ask, h, clip):
    oracle = getattr(ask._oracle, "inner", ask._oracle)
    present = oracle._secrets.present
    everyone = jnp.ones(oracle.door.n, bool) if present is None else present
    total = clip_and_sum(h, oracle._batch(Sample(None, everyone)), everyone, clip)
    return jax.tree.map(lambda leaf: leaf / oracle.door.n, total)


class CrossedOracle(Oracle):
    """Takes the two gradients of a difference at different records (line 7): one record then enters two terms."""

    def clipped_sum(self, h, sample, clip):
        if not isinstance(h, Difference):
            return super().clipped_sum(h, sample, clip)
        data = self._secrets.data
        batch = data if sample.rows is None else jax.tree.map(lambda leaf: leaf[sample.rows], data)
        others = jax.tree.map(lambda leaf: jnp.roll(leaf, 1, axis=0), batch)

        def crossed(pair):
            here, there = Gradient(h.loss, h.at)(pair[0]), Gradient(h.loss, h.other)(pair[1])
            return jax.tree.map(jnp.subtract, here, there)

        return clip_and_sum(crossed, (batch, others), sample.mask, clip, lattice=self.door.lattice)
