"""SVRG: gradient estimates relative to an anchor whose gradient is known (Johnson and Zhang, 2013).

v = Q(∇f(x) − ∇f(x̃)) + ṽ,      ṽ = Q(∇f(x̃)) asked once at the anchor x̃
"""

import jax

from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.gradients.thresholds import difference_clip
from gossamer.objectives.erm import ERM
from gossamer.oracle import Ask, Difference


def epoch(
    problem: ERM,
    ask: Ask,
    *,
    start: PyTree,
    anchor: PyTree,
    anchor_gradient: PyTree,
    count: int | jax.Array,
    eta: jax.Array,
    clip: float,
    smoothness: float,
) -> tuple[PyTree, PyTree]:
    """Make `count` proximal steps from `start`, each by one query "difference"; return the last iterate and the mean.

    The answer ṽ is private already and is used again in every step: post-processing.
    """

    def inner(ask: Ask, t: jax.Array, carry: tuple[PyTree, PyTree]) -> tuple[PyTree, PyTree]:
        x, mean = carry
        threshold = difference_clip(clip, smoothness, x, anchor)
        difference = ask("difference", Difference(problem.loss, x, anchor), clip=threshold)
        v = trees.add(difference, anchor_gradient)
        x = problem.prox(trees.add(x, v, -eta), eta)
        return x, trees.add(mean, trees.add(x, mean, -1.0), 1.0 / (t + 1.0))

    return ask.loop(count, inner, (start, trees.zeros_like(start)))
