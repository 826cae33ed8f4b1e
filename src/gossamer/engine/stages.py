"""Stages of one run: private answers that set up a training, the training, and answers about its result.

`gossamer.privacy.stages` makes one schedule of them, and has the proof. Here they run, one after the other: each poses
its own problem from the answers of the earlier ones, by the method that was planned, and with a key of its own. There
is one certificate. A run that was killed goes on in the stage where it was: every stage saves itself before its first
query, so that no answer is bought twice.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
from jax.sharding import Mesh

from gossamer.base import processes
from gossamer.base.entropy import new_key
from gossamer.base.exceptions import OverspentError
from gossamer.base.trees import PyTree
from gossamer.engine.checkpoints import Checkpoints
from gossamer.engine.solving import check_match, make_ready, run_ready
from gossamer.methods.base import Method
from gossamer.methods.result import Result
from gossamer.objectives.problem import Problem
from gossamer.oracle.clipping import Backend
from gossamer.privacy.budget import Budget
from gossamer.privacy.certificate import certify
from gossamer.privacy.facts import Unit
from gossamer.privacy.planning import Plan, Scheduled, plan
from gossamer.privacy.schedule import Schedule
from gossamer.privacy.stages import TRAINING, Part, Stages

Answers = Mapping[str, Any]
"""What the earlier stages found, by their names: private, and so public."""


class Posed(NamedTuple):
    """What a stage solves. Row i of the data is a function of record i and of earlier answers alone."""

    problem: Problem
    data: PyTree
    init: PyTree
    method: Method
    """The planned one; its thresholds, and all else that changes nothing about what is asked, may follow answers."""


class Release(NamedTuple):
    """What a stage releases that is no run of a method through the door: a mechanism with a proof of its own."""

    answer: Callable[[Plan, jax.Array], Any]
    """From the stage's plan and a key to what is released: the same for the same key."""
    digest: str
    """Of the records that it looks at; another one on resuming is refused."""


@dataclass(frozen=True, eq=False)
class Stage:
    """One stage of a run.

    Args:
      name: what it finds; the training is called `TRAINING`.
      method: declares what will be asked; fixed before the first stage begins.
      share: of the budget: the stage's part of Σ c q²/σ².
      pose: `pose(answers)` → what is solved, or released, from the answers of earlier stages by their names.
    """

    name: str
    method: Scheduled
    share: float
    pose: Callable[[Answers], Posed | Release]


class Outcome(NamedTuple):
    """What a run in stages returns."""

    result: Result
    """Of the training; its certificate is about all stages."""
    answers: Answers
    """What every stage found."""


def plan_stages(stages: Sequence[Stage], n: int, budget: Budget) -> Plan:
    """Return the one plan of all stages on n records, before any data is read."""
    return plan(joined(stages), n, budget)


def solve_stages(
    stages: Sequence[Stage],
    n: int,
    budget: Budget,
    *,
    seed: int | None = None,
    key: jax.Array | None = None,
    progress: bool = True,
    backend: Backend = "auto",
    microbatch: int | None = None,
    checkpoints: Checkpoints | None = None,
    mesh: Mesh | None = None,
) -> Outcome:
    """Run stages on the same n records within one budget, with this key or else one from the seed.

    `gs.solve` says what the other arguments are.
    """
    costs = joined(stages)
    planned = plan(costs, n, budget)
    key = new_key(seed) if key is None else key
    keys = jax.random.split(key, len(stages)) if len(stages) > 1 else [key]
    answers: dict[str, Any] = {}
    ran: dict[str, Method] = {}
    trusted: tuple[str, ...] = ()
    units: set[Unit] = set()
    for place, stage in enumerate(stages):
        now, part = stage.pose(dict(answers)), costs.part(planned, stage.name)
        saved = checkpoints.of_stage(place) if checkpoints and len(stages) > 1 else checkpoints
        if isinstance(now, Release):
            answers[stage.name] = now.answer(part, _kept(saved, now, part, keys[place]))
            continue
        check_match(now.problem, now.method, budget)
        ready = make_ready(now.problem, now.data, now.method, now.init, mesh)
        ran[stage.name] = ready.method
        units.add(ready.records.unit)
        if len(units) > 1:
            raise ValueError(f"stage {stage.name!r} has another unit of privacy than those before it: {units}.")
        _check_planned(stage, ready.method, n)
        result = run_ready(
            ready,
            dataclasses.replace(part, method=ready.method),
            keys[place],
            seed=seed,
            progress=progress and stage.name == TRAINING,
            backend=backend,
            microbatch=microbatch,
            checkpoints=saved,
        )
        answers[stage.name] = result.params
        trusted += tuple(why for why in ready.trusted if why not in trusted)
        if stage.name == TRAINING:
            trained, training = result, ready
    asked = joined([dataclasses.replace(stage, method=ran.get(stage.name, stage.method)) for stage in stages])
    certificate = certify(
        dataclasses.replace(planned, method=training.method, schedule=_reworded(planned.schedule, asked.schedule(n))),
        training.problem,
        seed,
        diagnostics=False,
        trusted=trusted,
        purchases=costs.purchases(n),
        unit=training.records.unit,
    )
    return Outcome(dataclasses.replace(trained, certificate=certificate), answers)


def joined(stages: Sequence[Stage]) -> Stages:
    """Return the stages as far as their cost goes."""
    return Stages(tuple(Part(stage.name, stage.method, stage.share) for stage in stages))


def _check_planned(stage: Stage, method: Method, n: int) -> None:
    """Refuse a method that would ask something else than was planned; its thresholds may follow earlier answers."""
    if method.schedule(n).wordless() != stage.method.schedule(n).wordless():
        raise OverspentError(
            f"stage {stage.name!r} was planned with {stage.method!r} and posed {method!r}, which asks something else. "
            "What is asked, of which samples, how often and with which noise must be fixed before the first stage."
        )


def _kept(checkpoints: Checkpoints | None, now: Release, part: Plan, key: jax.Array) -> jax.Array:
    """Return the key to draw from: that of a saved run, which goes on with it, else this one, which is saved first."""
    key = processes.from_first(key)
    if checkpoints is None:
        return key
    identity = {"configuration": f"{part.budget} {part.schedule}", "table of records": now.digest}
    return processes.from_first(
        processes.all_agree(lambda: checkpoints.begin(identity, key) if processes.is_first() else key)
    )


def _reworded(planned: Schedule, asked: Schedule) -> Schedule:
    """Return the planned schedule with the thresholds as the methods that ran describe them."""
    return Schedule(
        tuple(dataclasses.replace(query, clip=said.clip) for query, said in zip(planned, asked, strict=True))
    )
