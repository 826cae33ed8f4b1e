"""The score from which a trained model says yes, bought by bisection after the training, in its schedule.

*prevalence*: first the share of positives is asked for, then, at one score after another, the share of records above
it. What is left of the interval is where as many records are called positive as there are positives.

*auto*: the same, but where the noisy share of positives is not clearly below `RARE`, nor clearly above 1 − `RARE`, the
score is 0, a probability of one half: there it is what makes fewest mistakes.

*f1*: the best F1 = 2·(true positives)/(predicted + true ones) of probabilities that are right is had by predicting
those above F1/2 (Lipton, Elkan and Naryanaswamy 2014): leaving out a record of probability p raises F1 if p < F1/2, and
lowers it if p > F1/2. At a score with probability p, F1/2 > p where the mean of [above](y − p) − p·y is positive, so
that one question tells on which side the best score is.

Privacy. Every question is a mean of one number from −½ to ½, whatever a record holds: ½ or −½ for yes or no, and for F1
the number above less (1 − 3p)/2. For p ≤ ½, which is all that is asked about, that is (1 − p)/2 for a true positive,
−(1 − p)/2 for a mistake, and (3p − 1)/2 for a true negative. Which scores are asked about follows from earlier answers,
and what a record's score is from the trained model, which is an answer too, and from that record alone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.base.trees import PyTree
from gossamer.engine.stages import Answers, Posed, Stage
from gossamer.methods.base import Method, Report
from gossamer.methods.fields import Count, OneOf, Output
from gossamer.objectives.erm import ERM
from gossamer.oracle import Ask, Gradient
from gossamer.oracle.people import People
from gossamer.privacy.schedule import Query, Schedule

THRESHOLD = "threshold of decisions"
"""What is bought: the name of the stage, and of its query on certificates."""
SHARE_OF_BUDGET = 0.05
PREVALENCE, AUTO, F1 = "prevalence", "auto", "f1"
RULES = (PREVALENCE, AUTO, F1)
"""What is looked for."""
RARE = 0.2
"""Below which share of positives one half is not their probability to be decided by."""
_REACH = 8.0
"""Scores are log-odds: one record in 3000 is positive where they are −8."""


class Search(NamedTuple):
    """The share of positives, and between which scores the threshold is."""

    positives: jax.Array
    low: jax.Array
    high: jax.Array


@dataclass(frozen=True)
class Bisection(Method[ERM]):
    """Asks on which side of the middle of what is left the threshold is, and, but for F1, first for the share.

    Args:
      steps: 1 for the share, and each other one halves the interval.
      rule: what is looked for.
    """

    steps: Count = 11
    rule: Annotated[str, OneOf(RULES)] = PREVALENCE
    output: Output = "last"

    def schedule(self, n: int) -> Schedule:
        """Return as many full passes."""
        return Schedule((Query("shares", count=self.steps, clip="0.5"),))

    def init(self, problem: ERM, params: PyTree) -> Search:
        """Start with the whole interval; the probability of the best F1 is ½ at most."""
        return Search(jnp.float32(0.5), jnp.float32(-_REACH), jnp.float32(0 if self.rule == F1 else _REACH))

    def step(self, problem: ERM, ask: Ask, state: Search, t: jax.Array) -> tuple[Search, Report]:
        """Ask about labels in the first step, unless for F1, and about scores in the others."""
        about_labels = (t == 0) & (self.rule != F1)
        middle = 0.5 * (state.low + state.high)
        at = (jnp.float32(0), middle, about_labels.astype(jnp.float32))
        told = ask("shares", Gradient(problem.loss, at), clip=0.5)[0]
        share = 0.5 + told
        higher = told + _centre(jax.nn.sigmoid(middle)) > 0 if self.rule == F1 else share > state.positives
        moved = Search(state.positives, jnp.where(higher, middle, state.low), jnp.where(higher, state.high, middle))
        first = state._replace(positives=share)
        if self.rule == AUTO:
            unsure = 2 * 0.5 * ask.deviation("shares")
            rare = (share + unsure < RARE) | (share - unsure > 1 - RARE)
            # An interval that is one point stays so.
            first = Search(share, *(jnp.where(rare, end, 0.0) for end in (state.low, state.high)))
        chosen = jax.tree.map(lambda a, b: jnp.where(about_labels, a, b), first, moved)
        return chosen, Report(at, jnp.float32(0))

    def params(self, state: Search) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return the parameters of the loss; the second is the middle of what is left."""
        return jnp.float32(0), 0.5 * (state.low + state.high), jnp.float32(0)


def threshold_stage(rule: str, pose: Callable[[Answers], tuple[np.ndarray, ...] | People]) -> Stage:
    """Return the stage that buys the threshold for the records of scores and labels that `pose` makes of answers."""
    method, loss = Bisection(rule=rule), helps_f1 if rule == F1 else says_yes
    return Stage(
        THRESHOLD,
        method,
        SHARE_OF_BUDGET,
        lambda answers: Posed(ERM(loss), pose(answers), (jnp.float32(0),) * 3, method),
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


def helps_f1(params: tuple[jax.Array, jax.Array, jax.Array], record: tuple[jax.Array, jax.Array]) -> jax.Array:
    """Return a loss whose gradient in its first parameter is [above](y − p) − p·y, less the middle of its range."""
    x, middle, _ = params
    score, label = record
    p = jnp.minimum(jax.nn.sigmoid(middle), 0.5)
    positive, above = label > 0.5, score > middle
    value = jnp.where(above, positive - p, 0.0) - jnp.where(positive, p, 0.0)
    return x * (value - _centre(p))


def _centre(p: jax.Array) -> jax.Array:
    return 0.5 * (1 - 3 * p)
