"""Several stages in one schedule: what is bought before a training, the training, and what is asked after it.

Each stage has a method that declares what it will ask, and a share of the budget. Their queries become queries of one
schedule, which is calibrated once: a stage's part of Σ c q²/σ², the leading term of the cost, is its share. Nothing is
lost by adding up ε and δ of separate runs.

*Proof.* Which queries are asked, in which order, of which samples and with which noise multipliers is fixed by the
stages' methods before the first query. Let the answers so far be fixed. The next query's h and its threshold, and the
way in which a record is encoded, are functions of these answers, of public constants and of that one record. This is
what the proof of the door (`gossamer.oracle.door`) asks of a query: whether the earlier answers came from the same
stage does not matter. So all stages together are an adaptive composition of the scheduled mechanisms, and what one
stage makes of its answers for the next one is post-processing. Three things have to be seen to:

* *Samples and noise of their own.* Each stage has a key of its own.
* *Disjoint blocks.* That a record is in one block alone is true of the blocks of one random order. Another stage's
  order is another one, in which the record is in a block again. So one stage at most may have blocks.
* *Rounding.* What the sampler's error may add up to is charged for once. So every stage counts the queries of all.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gossamer.base.exceptions import AccountingError
from gossamer.base.messages import is_number, shown
from gossamer.privacy.facts import Bought
from gossamer.privacy.planning import Plan, Scheduled
from gossamer.privacy.schedule import Query, Schedule

TRAINING = "training"
"""The name of the stage whose queries keep their names, and which a certificate's method and problem are about."""


class Part(NamedTuple):
    """One stage, as far as its cost goes."""

    name: str
    method: Scheduled
    share: float
    """Of Σ c q²/σ²."""


@dataclass(frozen=True)
class Stages:
    """Stages one after the other; to `gs.plan` they are one method.

    Args:
      parts: in the order in which they run, one of them the training. Their shares add up to 1.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        if names.count(TRAINING) != 1 or len(set(names)) < len(names):
            raise ValueError(f"stages = {names} must have different names, and one of them must be {TRAINING!r}.")
        for part in self.parts:
            if not (is_number(part.share) and 0 < part.share <= 1):
                raise ValueError(f"stage {part.name!r}: share = {shown(part.share)} must be above 0 and at most 1.")
        total = math.fsum(part.share for part in self.parts)
        if not math.isclose(total, 1.0, rel_tol=1e-9):
            raise ValueError(f"the shares of stages {names} add up to {total:g}; they must add up to 1.")

    def schedule(self, n: int) -> Schedule:
        """Return the queries of all stages, each stage with its share of the cost."""
        return Schedule(tuple(query for queries in self._schedules(n).values() for query in queries))

    def part(self, planned: Plan, name: str) -> Plan:
        """Return the plan of one stage: its own queries by their own names, with the noise of the joint plan."""
        own = {part.name: part.method for part in self.parts}[name]
        joint = self._schedules(planned.n)[name]
        names = {query.name: bare.name for query, bare in zip(joint, own.schedule(planned.n), strict=True)}
        sizes = dict(planned.capacities)
        return dataclasses.replace(
            planned,
            method=own,
            schedule=Schedule(
                tuple(
                    dataclasses.replace(planned.schedule[name], name=bare, noise=None) for name, bare in names.items()
                )
            ),
            capacities=tuple((bare, sizes[name]) for name, bare in names.items() if name in sizes),
            elsewhere=len(planned.schedule.queries) - len(names),
        )

    def purchases(self, n: int) -> tuple[Bought, ...]:
        """Return what a certificate says of the stages besides the training."""
        schedules, before = self._schedules(n), [part.name for part in self.parts].index(TRAINING)
        return tuple(
            Bought(part.name, tuple(query.name for query in schedules[part.name]), part.share, after=place > before)
            for place, part in enumerate(self.parts)
            if part.name != TRAINING
        )

    def _schedules(self, n: int) -> dict[str, tuple[Query, ...]]:
        schedules = {part.name: part.method.schedule(n) for part in self.parts}
        check_blocks([schedule.queries for schedule in schedules.values()])
        if len(self.parts) == 1:
            return {TRAINING: schedules[TRAINING].queries}
        return {part.name: tuple(_shared(part, schedules[part.name])) for part in self.parts}


def leading_cost(schedule: Schedule) -> float:
    """Return Σ c q²/σ² of a calibrated schedule; of disjoint blocks the least noisy counts."""
    costs = [query.cost() for query in schedule.at_worst()]
    return math.fsum(cost.count * (cost.rate / cost.noise_multiplier) ** 2 for cost in costs)


def check_blocks(stages: Sequence[Sequence[Query]]) -> None:
    """Refuse disjoint blocks in two stages: a record is in a block of each, and would be paid for once."""
    cutting = [queries[0].name for queries in stages if any(query.sampling.reserved for query in queries)]
    if len(cutting) > 1:
        raise AccountingError(
            f"two stages ask disjoint blocks (those of queries {cutting}). The blocks of one stage are disjoint, and "
            "those of two are not. Use a method with other samples in all stages but one."
        )


def _shared(part: Part, schedule: Schedule) -> list[Query]:
    """Return the queries of a stage with the noise that makes Σ c q²/σ² its share, by names that tell its stage."""
    ratios = schedule.ratios()
    scale = math.sqrt(leading_cost(schedule.with_noise(ratios)) / part.share)
    return [
        dataclasses.replace(query, name=_name(part.name, query.name, len(ratios)), noise=scale * ratio)
        for query, ratio in zip(schedule, ratios, strict=True)
    ]


def _name(stage: str, query: str, queries: int) -> str:
    if stage == TRAINING:
        return query
    return stage if queries == 1 else f"{stage}: {query}"
