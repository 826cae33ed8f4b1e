"""Which iterate a run returns. All rules are post-processing of private answers."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gossamer.base import trees
from gossamer.base.trees import PyTree

RULES = ("last", "average", "random", "smallest_gradient")


class Choice(NamedTuple):
    """The iterate chosen so far, and what choosing the next one needs."""

    params: PyTree
    smallest: jax.Array
    """The smallest private gradient norm so far."""
    drawn: jax.Array
    """The step drawn for the rule "random", before the run."""


def first_choice(params: PyTree, steps: int, key: jax.Array) -> Choice:
    """Return the choice before the first step."""
    return Choice(params, jnp.float32(jnp.inf), jax.random.randint(key, (), 0, steps))


def choose(rule: str, choice: Choice, t: jax.Array, at: PyTree, gradient_norm: jax.Array, after: PyTree) -> Choice:
    """Update the choice after step t, which estimated the gradient at `at` and moved on to `after`.

    * last: the iterate after the last step.
    * average: the mean of the iterates after each step.
    * random: x_t for a uniform t, where the gradient was estimated: what the non-convex theorems are about.
    * smallest_gradient: the x_t whose private gradient estimate was smallest.
    """
    if rule == "last":
        return choice._replace(params=after)
    if rule == "average":
        weight = 1.0 / (t + 1.0)
        return choice._replace(
            params=jax.tree.map(lambda a, b: (a + weight * (b - a)).astype(a.dtype), choice.params, after)
        )
    if rule == "random":
        return choice._replace(params=trees.select(t == choice.drawn, at, choice.params))
    better = gradient_norm < choice.smallest
    return choice._replace(
        params=trees.select(better, at, choice.params), smallest=jnp.where(better, gradient_norm, choice.smallest)
    )
