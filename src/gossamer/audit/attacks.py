"""Replay, sensitivity and empirical ε: three attacks that every method must withstand.

They take the same arguments as `gs.solve` and run the method the same way, on tables that the auditor makes up. A
neighbouring table is given by a `row` and the `record` that takes its place; `record=None` removes the row. Of a table
by persons (`gs.by_person`) `row` is the number of a person, in the order of ids, and `record` the rows that it has
instead.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.audit.oracles import Comparing, Recording, Replaying, Scoring, empty_tape
from gossamer.base.entropy import new_key
from gossamer.base.trees import PyTree
from gossamer.engine.loop import Carry, Setup
from gossamer.engine.opening import Lane, set_up
from gossamer.engine.solving import split_params
from gossamer.methods.base import Method
from gossamer.objectives.problem import Problem
from gossamer.oracle.clipping import Backend
from gossamer.oracle.door import Oracle
from gossamer.oracle.people import People, count
from gossamer.privacy._jax_privacy import CanaryScoreAuditor, Split
from gossamer.privacy.budget import Budget
from gossamer.privacy.planning import plan

_CONFIDENCE = 0.95
_ROUNDING = 1e-4
"""Room for float32 when sums are compared, relative to the bound."""


@dataclass(frozen=True)
class Replay:
    """Whether a run depends on the records only through the oracle's answers; true when it does."""

    differing: tuple[str, ...]
    """What came out differently on other records although all answers were the same."""

    def __bool__(self) -> bool:
        return not self.differing


@dataclass(frozen=True)
class Sensitivity:
    """How far one record moved the clipped sums, in thresholds; true when nowhere beyond the bound."""

    worst: dict[str, float]
    bound: float

    def __bool__(self) -> bool:
        return all(distance <= self.bound * (1 + _ROUNDING) for distance in self.worst.values())


@dataclass(frozen=True)
class EmpiricalEpsilon:
    """A lower bound on ε from attacking many runs; true when it does not exceed what was claimed."""

    lower_bound: float
    claimed: float
    delta: float
    runs: int
    confidence: float

    def __bool__(self) -> bool:
        return self.lower_bound <= self.claimed


class _Attack(NamedTuple):
    """What is fixed about an attack; hashable, so that attacks on many records compile once."""

    setup: Setup
    oracle: type[Oracle]


class _Inputs(NamedTuple):
    """What the compiled attacks are given as numbers."""

    params: PyTree
    noise: dict[str, Any]
    key: jax.Array


class _Runs(Lane):
    """The runs of one seed under attack."""

    def __init__(self, attack: _Attack, inputs: _Inputs):
        super().__init__(attack.setup, inputs.noise, inputs.params, inputs.key)
        self._kind = attack.oracle

    def attacked(self, data: PyTree, present: jax.Array | None = None) -> Oracle:
        return self.oracle(data, present, self._kind)

    def record(self, inner: Oracle) -> Carry:
        """Run with a tape of all answers as the ledger's memory."""
        tape = empty_tape(self.setup.method, self.setup.problem, self.init, inner)
        return self.finish(Recording(inner), tape)


def _prepare(
    problem: Problem,
    data: PyTree,
    method: Method,
    budget: Budget,
    *,
    init: PyTree,
    seed: int,
    backend: Backend,
    oracle: type,
) -> tuple[_Attack, _Inputs, PyTree]:
    params, problem, _ = split_params(problem, init)
    problem = problem.by_person(data) if isinstance(data, People) else problem
    data = _on_device(data)
    planned = plan(method.sized(params), count(data), budget)
    attack = _Attack(set_up(planned, problem, backend), oracle)
    return attack, _Inputs(params, planned.noise(), new_key(seed)), data


def _on_device(data: PyTree) -> PyTree:
    return data.with_room() if isinstance(data, People) else jax.tree.map(jnp.asarray, data)


def _record(data: PyTree, row: int) -> PyTree:
    return data.person(row) if isinstance(data, People) else jax.tree.map(lambda leaf: leaf[row], data)


def _replaced(data: PyTree, row: int, record: PyTree | None) -> PyTree:
    if record is None:
        return data
    if isinstance(data, People):
        return data.replaced(row, record)
    return jax.tree.map(lambda leaf, value: leaf.at[row].set(jnp.asarray(value, leaf.dtype)), data, record)


def replay(
    problem: Problem,
    data: PyTree,
    other: PyTree,
    method: Method,
    budget: Budget,
    *,
    init: PyTree,
    seed: int = 0,
    backend: Backend = "auto",
    oracle: type[Oracle] = Oracle,
) -> Replay:
    """Record the noisy answers of a run on `data`, replay them on `other`: every output must be bit-identical.

    A difference means that the method saw records by another way than through private answers.
    """
    attack, inputs, data = _prepare(problem, data, method, budget, init=init, seed=seed, backend=backend, oracle=oracle)
    tape = _recorded(attack, inputs, data)
    here, there = (_replayed(attack, inputs, table, tape) for table in (data, _on_device(other)))
    differing = [
        jax.tree_util.keystr(path)
        for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(here), jax.tree.leaves(there), strict=True)
        if np.asarray(a).tobytes() != np.asarray(b).tobytes()
    ]
    return Replay(tuple(differing))


@functools.partial(jax.jit, static_argnames=("attack",))
def _recorded(attack: _Attack, inputs: _Inputs, data: PyTree) -> PyTree:
    runs = _Runs(attack, inputs)
    return runs.record(runs.attacked(data)).ledger.memory


@functools.partial(jax.jit, static_argnames=("attack",))
def _replayed(attack: _Attack, inputs: _Inputs, data: PyTree, tape: PyTree) -> PyTree:
    runs = _Runs(attack, inputs)
    carry = runs.finish(Replaying(runs.attacked(data)), tape)
    return {"params": carry.choice.params, "state": carry.state, "history": carry.history, "t": carry.t}


def sensitivity(
    problem: Problem,
    data: PyTree,
    row: int,
    record: PyTree | None,
    method: Method,
    budget: Budget,
    *,
    init: PyTree,
    seed: int = 0,
    backend: Backend = "auto",
    oracle: type[Oracle] = Oracle,
) -> Sensitivity:
    """Measure, along a run, how far each query's clipped sum moves when one record is replaced or removed.

    Both sums are taken before noise and on the same sample; they may differ by two thresholds when a record is
    replaced and by one when it is removed. The record may hold anything: NaN, infinities, 1e30. A query that is acute
    is charged for √2 thresholds when a record is replaced: what it moves by is then counted √2 times.
    """
    attack, inputs, data = _prepare(problem, data, method, budget, init=init, seed=seed, backend=backend, oracle=oracle)
    present = jnp.arange(attack.setup.door.n) != (row if record is None else -1)
    distances = _worst(attack, inputs, data, _replaced(data, row, record), present)
    schedule = attack.setup.door.schedule
    counted = {name: math.sqrt(2) if schedule[name].acute and record is not None else 1.0 for name in distances}
    worst = {name: counted[name] * float(distance) for name, distance in distances.items()}
    return Sensitivity(worst, 1.0 if record is None else 2.0)


@functools.partial(jax.jit, static_argnames=("attack",))
def _worst(attack: _Attack, inputs: _Inputs, data: PyTree, neighbor: PyTree, present: jax.Array) -> PyTree:
    runs = _Runs(attack, inputs)
    inner = runs.attacked(data)
    tape = runs.record(inner).ledger.memory
    zero = {query.name: jnp.float32(0) for query in attack.setup.door.schedule}
    return runs.finish(Comparing(inner, runs.attacked(neighbor, present)), (tape, zero)).ledger.memory[1]


def empirical_epsilon(
    problem: Problem,
    data: PyTree,
    row: int,
    record: PyTree | None,
    method: Method,
    budget: Budget,
    *,
    init: PyTree,
    runs: int = 10_000,
    score: Callable[[PyTree, dict[str, PyTree]], jax.Array] | None = None,
    seed: int = 0,
    backend: Backend = "auto",
    oracle: type[Oracle] = Oracle,
) -> EmpiricalEpsilon:
    """Attack `runs` runs on each of two neighbouring tables; return a lower bound on ε with 95 % confidence.

    The best threshold on the score is found on one half of the runs and judged on the other (Clopper–Pearson, by
    jax-privacy's auditor).

    Args:
      problem: as for `gs.solve`, like `data`, `method`, `budget`, `init` and `backend`.
      data: the table that is attacked.
      row: the target's row.
      record: what takes its place in the neighbouring table; None removes the row.
      method: what is audited.
      budget: what it claims. Its neighbors must match: "replace_one" for a record, "add_remove" for None.
      init: where the runs start.
      runs: how many on each table.
      score: `score(params, answers)`, larger for `data`; default: the log-likelihood ratio of all noisy answers.
      seed: of the runs.
      backend: as for `gs.solve`.
      oracle: the oracle to attack; tests put deliberately unsound ones here.
    """
    expected = "add_remove" if record is None else "replace_one"
    if budget.neighbors != expected:
        raise ValueError(f"neighbors = {budget.neighbors!r} does not match this attack, which is {expected!r}.")
    attack, inputs, data = _prepare(problem, data, method, budget, init=init, seed=seed, backend=backend, oracle=oracle)
    first = _record(data, row)
    second = None if record is None else _record(_replaced(data, row, record), row)

    def one_run(data: PyTree, present: jax.Array, key: jax.Array) -> jax.Array:
        lane = _Runs(attack, inputs._replace(key=key))
        inner = lane.attacked(data, present)
        if score is None:
            return lane.finish(Scoring(inner, row, first, second), jnp.float32(0)).ledger.memory
        carry = lane.record(inner)
        return score(carry.choice.params, carry.ledger.memory)

    @jax.jit
    def scores(data: PyTree, present: jax.Array, keys: jax.Array) -> jax.Array:
        return jax.lax.map(functools.partial(one_run, data, present), keys, batch_size=min(runs, 4096))

    keys = jax.random.split(new_key(seed), (2, runs))
    everyone = jnp.ones(attack.setup.door.n, bool)
    without = everyone if record is not None else everyone.at[row].set(False)
    here = np.asarray(scores(data, everyone, keys[0]), np.float64)
    there = np.asarray(scores(_replaced(data, row, record), without, keys[1]), np.float64)
    auditor = CanaryScoreAuditor(here, there)
    bound = auditor.epsilon_clopper_pearson(
        1 - _CONFIDENCE, budget.delta, one_sided=False, threshold_strategy=Split(seed=seed)
    )
    return EmpiricalEpsilon(float(bound), float(budget.epsilon), budget.delta, runs, _CONFIDENCE)
