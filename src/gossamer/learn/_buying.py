"""What an estimator buys before it trains: numbers that its problem needs and nobody gave, by one private query.

The share of positives and the shares of groups decide what each record's gradient is, so they must be public, or
private answers. An estimator that is not given them poses its task with public stand-ins and a `Purchase`. Its `spend`
splits the budget, buys, completes the task by the answer, and trains with what is left; one certificate is about both.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gossamer.engine.checkpoints import Checkpoints
from gossamer.privacy.budget import Budget
from gossamer.privacy.certificate import Certificate
from gossamer.privacy.facts import Bought
from gossamer.privacy.schedule import Schedule

SHARE_OF_BUDGET = 0.05
"""What a purchase may cost: of ε and of δ."""
POSITIVES, GROUPS = "share of positives", "shares of groups"
"""What can be bought: names of queries on certificates, and of what checkpoints remember."""


class Purchase(NamedTuple):
    """What a task is missing until it is bought.

    Args:
      name: one of this module's names.
      of: says what the query is about, with a digest of the records; another one on resuming is refused.
      ask: `ask(budget, seed)` → the answer, which JSON can hold, and the certificate of its one query.
      complete: `complete(answer)` → the task.
    """

    name: str
    of: Callable[[], str]
    ask: Callable[[Budget, int | None], tuple[Any, Certificate]]
    complete: Callable[[Any], Any]

    def buy(self, budget: Budget, seed: int | None, checkpoints: Checkpoints | None) -> tuple[Any, Certificate]:
        """Return the answer and what it cost; a continued run takes what it has bought before."""
        # Not the seed of the training: the two would share their noise.
        other = None if seed is None else int(np.random.SeedSequence((seed, 1)).generate_state(1)[0])

        def pay() -> tuple[Any, str]:
            answer, certificate = self.ask(budget, other)
            return answer, certificate.to_json()

        if checkpoints is None:
            answer, certificate = pay()
        else:
            answer, certificate = checkpoints.remember(self.name, f"{budget} {seed} {self.of()}", pay)
        return answer, Certificate.from_json(certificate)


def split(whole: Budget) -> tuple[Budget, Budget]:
    """Return what a purchase may spend, and what is left for the training."""
    parts = (SHARE_OF_BUDGET, 1 - SHARE_OF_BUDGET)
    purchase, training = (Budget(part * whole.epsilon, part * whole.delta, whole.neighbors) for part in parts)
    return purchase, training


def compose(name: str, bought: Certificate, training: Certificate, whole: Budget) -> Certificate:
    """Return one certificate for both: their ε and δ add up to the whole, and it has both schedules to be verified."""
    (query,) = bought.schedule
    queries = (dataclasses.replace(query, name=name), *training.schedule)
    return dataclasses.replace(
        training,
        epsilon=float(whole.epsilon),
        delta=float(whole.delta),
        schedule=Schedule(tuple(dataclasses.replace(query, noise=None) for query in queries)),
        purchases=(*training.purchases, Bought(name, bought.epsilon, bought.delta)),
    )


def training_budget(certificate: Certificate) -> Budget:
    """Return what the training of a certificate was given: all, or what a purchase left of it."""
    whole = Budget(certificate.epsilon, certificate.delta, certificate.neighbors)
    return split(whole)[1] if certificate.purchases else whole
