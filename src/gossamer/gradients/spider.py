"""SPIDER: a gradient estimate that is carried along by differences (Fang et al., 2018).

v_t = Q(∇f(x_t))                              at every period-th step
v_t = v_{t−1} + Q(∇f(x_t) − ∇f(x_{t−1}))      between them
"""

from typing import Any

import jax

from gossamer import trees
from gossamer.oracle import Ask, Difference, Gradient
from gossamer.oracle.queries import Loss

PyTree = Any


def refreshes(steps: int, period: int) -> tuple[int, int]:
    """Return how many of the steps refresh the estimate, and how many carry it along."""
    fresh = -(-steps // period)
    return fresh, steps - fresh


def spider(
    ask: Ask,
    t: jax.Array,
    period: int,
    loss: Loss,
    at: PyTree,
    before: PyTree,
    estimate: PyTree,
    clip: float,
    difference_clip: jax.Array,
) -> PyTree:
    """Return v_t from v_{t−1} = `estimate` by one query: "gradient" at a refresh, else "difference"."""

    def fresh(ask: Ask) -> PyTree:
        return ask("gradient", Gradient(loss, at), clip=clip)

    def carried(ask: Ask) -> PyTree:
        return trees.add(estimate, ask("difference", Difference(loss, at, before), clip=difference_clip))

    return fresh(ask) if period == 1 else ask.cond(t % period == 0, fresh, carried)
