"""SPIDER: a gradient estimate that is carried along by differences (Fang et al., 2018).

v_t = Q(∇f(x_t))                              at every period-th step
v_t = v_{t−1} + Q(∇f(x_t) − ∇f(x_{t−1}))      between them
"""

from collections.abc import Callable
from typing import Literal

import jax

from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.oracle import Ask


def refreshes(steps: int, period: int) -> tuple[int, int]:
    """Return how many of the steps refresh the estimate, and how many carry it along."""
    fresh = -(-steps // period)
    return fresh, steps - fresh


def is_refresh(t: jax.Array, steps: int, period: int) -> jax.Array | Literal[True]:
    """Return whether step t refreshes the estimate; True itself where every step does, and no difference is asked."""
    return True if refreshes(steps, period)[1] == 0 else t % period == 0


def carried_along(
    ask: Ask,
    refresh: jax.Array | Literal[True],
    fresh: Callable[[Ask], PyTree],
    change: Callable[[Ask], PyTree],
    estimate: PyTree,
) -> PyTree:
    """Return an estimate asked for afresh, or the last one plus its change: v_t from v_{t−1} = `estimate`.

    Only one of `fresh(ask)` and `change(ask)` is asked. With True for `refresh` the second one is not even compiled:
    the schedule may then do without its query.
    """

    def changed(ask: Ask) -> PyTree:
        return trees.add(estimate, change(ask))

    return fresh(ask) if refresh is True else ask.cond(refresh, fresh, changed)
