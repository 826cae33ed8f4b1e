"""One trial of a private search, and the best of a secret number of them. `gossamer.learn.search` has what holds."""

import dataclasses
import math
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import is_regressor

from gossamer.base.exceptions import DivergedError
from gossamer.base.leak import Leak
from gossamer.base.trees import PyTree
from gossamer.engine.stages import Answers, Outcome, Posed, Stage, solve_stages
from gossamer.learn._common import PrivateEstimator, Task
from gossamer.methods.gd import GD
from gossamer.objectives.erm import ERM
from gossamer.privacy.budget import Budget
from gossamer.privacy.planning import Plan
from gossamer.privacy.searching import Selection
from gossamer.privacy.stages import TRAINING
from gossamer.privacy.trials import Trials

LOSS, ACCURACY, SQUARES = "loss", "accuracy", "squares"
"""What a trial is judged by; squares are the losses of numbers."""
SCORE = "score"
"""The name of the stage that scores a trial, and of its query on certificates."""
SCORE_SHARE = 0.05
"""What of a trial's cost its score has: the training has 2.6 % more noise for it."""
_SQUARE_BOUND = 0.5
"""Where losses of numbers are cut before they are averaged, in units of the bound on targets."""


class Candidate(NamedTuple):
    """A setting, and what a trial with it solves."""

    setting: dict[str, Any]
    estimator: PrivateEstimator
    task: Task
    leaks: tuple[Leak, ...]

    def task_of(self, answers: Answers) -> Task:
        """Return the task, completed by what was bought."""
        return self.task if self.task.complete is None else self.task.complete(answers)

    def stages(self, score: str) -> tuple[Stage, ...]:
        """Return what is bought, the training, what is bought after it, and the score of what was trained."""
        stages = self.task.stages()
        place = [stage.name for stage in stages].index(TRAINING)
        training = stages[place]
        score = SQUARES if is_regressor(self.estimator) and score == LOSS else score
        once = GD(steps=1, learning_rate=1.0, clip=Judged(None, score).half)

        def pose(answers: Answers) -> Posed:
            task = self.task_of(answers)
            start = {"score": jnp.zeros(()), "model": answers[TRAINING]}
            return Posed(ERM(Judged(self.estimator.record_loss(task), score)), task.data, start, once)

        shrunk = dataclasses.replace(training, share=training.share - SCORE_SHARE)
        return (*stages[:place], shrunk, *stages[place + 1 :], Stage(SCORE, once, SCORE_SHARE, pose))


@dataclass(frozen=True)
class Judged:
    """A loss whose gradient is, in the place of the score, how badly a fixed model does on a record, centred.

    A step of length 1 from 0 then is the mean of −h. h is in [−half, half], and both ends are reached, so that nothing
    is lost by clipping there.

    The loss of a classifier is judged by (1 − p)², p the probability that it gives to the record's own class: with two
    classes, Brier's score. It is bounded as it is. The logarithm of p would have to be cut, and then the best that a
    model could do was to be too sure of itself, since what it pays for that is what is cut off.
    """

    loss: Any
    score: str

    @property
    def half(self) -> float:
        """The bound on |h|."""
        return _SQUARE_BOUND / 2 if self.score == SQUARES else 0.5

    def __call__(self, params: PyTree, record: PyTree) -> Any:
        """Return the score's place times h: its gradient there is h, and 0 everywhere else."""
        loss = self.loss(jax.lax.stop_gradient(params["model"]), record)
        if self.score == ACCURACY:
            badly = jnp.where(loss < math.log(2), -0.5, 0.5)
        elif self.score == LOSS:
            badly = jnp.square(1 - jnp.exp(-jnp.maximum(loss, 0.0))) - self.half
        else:
            badly = jnp.clip(loss, 0.0, 2 * self.half) - self.half
        return params["score"] * jnp.where(jnp.isnan(loss), self.half, badly)


class Planned(NamedTuple):
    """A search before it has asked anything."""

    candidates: list[Candidate]
    plans: list[Plan]
    """Of a trial with each of them, all with the same budget."""
    chances: list[float]
    law: Trials
    selection: Selection
    budget: Budget
    """Of the whole."""
    n: int
    table: str | None = None
    """What the table is known by to a search that is continued; None: the arrays of its tasks."""


class Trial(NamedTuple):
    """What came out of one trial. Trials are ranked by score, and ties by coin."""

    score: float
    coin: float
    place: int
    outcome: Outcome


def best_of(planned: Planned, score: str, key: jax.Array) -> Trial:
    """Make the trials; return the best. Whatever happens in one of them, nothing is said."""
    first, *keys = jax.random.split(key, 1 + planned.law.most)
    best: Trial | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for each in keys[: planned.law.draw(_uniform(first))]:
            setting, coin, training = jax.random.split(each, 3)
            place = int(np.searchsorted(np.cumsum(planned.chances)[:-1], _uniform(setting), side="right"))
            made = _trial(planned, score, place, training, _uniform(coin))
            if made is not None and (best is None or made[:2] > best[:2]):
                best = made
    if best is None:
        raise DivergedError(
            "the search found no model: what was best did not stay finite, or could not buy what was not declared. Its "
            "privacy is spent. Use smaller learning rates in the grid, and declare what is public of the table."
        )
    return best


def _trial(planned: Planned, score: str, place: int, key: jax.Array, coin: float) -> Trial | None:
    """Train and score one setting; None is an outcome too, the worst one."""
    candidate = planned.candidates[place]
    try:
        outcome = solve_stages(candidate.stages(score), planned.n, planned.plans[place].budget, key=key, progress=False)
    except (DivergedError, ValueError):  # what was bought may be of no use: an error would tell that of a loser
        return None
    found = float(outcome.answers[SCORE]["score"])
    return Trial(found if math.isfinite(found) else -math.inf, coin, place, outcome)


def _uniform(key: jax.Array) -> float:
    """Return a number of 53 bits from [0, 1)."""
    high, low = (int(word) for word in np.asarray(jax.random.bits(key, (2,), np.uint32)))
    return ((high << 21) | (low >> 11)) / 2.0**53
