"""DRO as printed, or as one might code it: each twin makes one mistake, and must be caught."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gossamer.methods import RecursiveSpider
from gossamer.oracle import Oracle


class PrintedGaussianOracle(Oracle):
    """Adds half the variance that is needed: the Gaussian mechanism of Definition 3, which lacks its factor 2."""

    def noise_multiplier(self, query):
        return super().noise_multiplier(query) / jnp.sqrt(2.0)


@dataclass(frozen=True)
class LargestLossSpider(RecursiveSpider):
    """Keeps exponentials from overflowing as one usually does: relative to the largest loss, which is a record's."""

    def step(self, problem, ask, state, t):
        data = ask._oracle.inner._secrets.data
        losses = jax.vmap(problem.record_value, (None, 0))(state.x, data)
        return super().step(problem, ask, state._replace(level=jnp.max(losses)), t)
