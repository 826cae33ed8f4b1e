"""The score from which a trained model says yes, bought by bisection after the training, in its schedule.

First the share of positives is asked for, then, at one score after another, the share of records above it. What is
left of the interval is where as many records are called positive as there are positives.

Privacy. Every question is a mean of yes or no, as ½ or −½: a vector of norm ½ at most, whatever a record holds. Which
scores are asked about follows from earlier answers, and what a record's score is from the trained model, which is an
answer too, and from that record alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.base.trees import PyTree
from gossamer.engine.stages import Answers, Posed, Stage
from gossamer.methods.base import Method, Report
from gossamer.methods.fields import Count, Output
from gossamer.objectives.erm import ERM
from gossamer.oracle import Ask, Gradient
from gossamer.oracle.people import People
from gossamer.privacy.schedule import Query, Schedule

THRESHOLD = "threshold of decisions"
"""What is bought: the name of the stage, and of its query on certificates."""
SHARE_OF_BUDGET = 0.05
_REACH = 8.0
"""Scores are log-odds: one record in 3000 is positive where they are −8."""


class Search(NamedTuple):
    """The share of positives, and between which scores the threshold is."""

    positives: jax.Array
    low: jax.Array
    high: jax.Array


@dataclass(frozen=True)
class Bisection(Method[ERM]):
    """Asks for the share of positives, and then how many scores are above the middle of what is left.

    Args:
      steps: 1 for the share, and each other one halves the interval.
    """

    steps: Count = 11
    output: Output = "last"

    def schedule(self, n: int) -> Schedule:
        """Return as many full passes."""
        return Schedule((Query("shares", count=self.steps, clip="0.5"),))

    def init(self, problem: ERM, params: PyTree) -> Search:
        """Start with the whole interval."""
        return Search(jnp.float32(0.5), jnp.float32(-_REACH), jnp.float32(_REACH))

    def step(self, problem: ERM, ask: Ask, state: Search, t: jax.Array) -> tuple[Search, Report]:
        """Ask about labels in the first step, and about scores in the others."""
        about_labels = t == 0
        x, middle, _ = self.params(state)
        at = (x, middle, about_labels.astype(jnp.float32))
        share = 0.5 + ask("shares", Gradient(problem.loss, at), clip=0.5)[0]
        above = share > state.positives
        moved = Search(state.positives, jnp.where(above, middle, state.low), jnp.where(above, state.high, middle))
        first = state._replace(positives=share)
        chosen = jax.tree.map(lambda a, b: jnp.where(about_labels, a, b), first, moved)
        return chosen, Report(at, jnp.float32(0))

    def params(self, state: Search) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return the parameters of `says_yes`; the second is the middle of what is left."""
        return jnp.float32(0), 0.5 * (state.low + state.high), jnp.float32(0)


def threshold_stage(pose: Callable[[Answers], tuple[np.ndarray, ...] | People]) -> Stage:
    """Return the stage that buys the threshold for the records of scores and labels that `pose` makes of answers."""
    return Stage(
        THRESHOLD,
        Bisection(),
        SHARE_OF_BUDGET,
        lambda answers: Posed(ERM(says_yes), pose(answers), (jnp.float32(0),) * 3, Bisection()),
    )


def threshold_of(answer: PyTree) -> float:
    """Return what the stage found."""
    return float(answer[1])


def with_scores(data: tuple[np.ndarray, ...] | People, scores: np.ndarray) -> tuple[np.ndarray, ...] | People:
    """Return records of scores and labels in place of records (rows, labels, …)."""
    if not isinstance(data, People):
        return scores, data[1]
    return People(
        (scores, data.rows[1]),
        data.first,
        data.counts,
        data.order,
        weights=data.weights,
        unit=data.unit,
        length=data.length,
    )


def says_yes(params: tuple[jax.Array, jax.Array, jax.Array], record: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Return a loss whose gradient in its first parameter is ½ where a record says yes, and −½ where not."""
    x, middle, about_labels = params
    score, label = record
    yes = jnp.where(about_labels > 0.5, label > 0.5, score > middle)
    return x * jnp.where(yes, 0.5, -0.5)
