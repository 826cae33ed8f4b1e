"""Replay, sensitivity and empirical ε: three attacks that every method must withstand.

They take the same arguments as `gs.solve` and run the method the same way, on tables that the auditor makes up. A
neighbouring table is given by a `row` and the `record` that takes its place; `record=None` removes the row.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossamer import loop
from gossamer._jax_privacy import CanaryScoreAuditor, Split
from gossamer.audit.oracles import Comparing, Recording, Replaying, Scoring, empty_tape
from gossamer.budget import Budget
from gossamer.methods.base import Method
from gossamer.oracle.clipping import Backend
from gossamer.oracle.door import Door, Oracle
from gossamer.planning import plan
from gossamer.solving import make_door, split_params

PyTree = Any
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


@dataclass(frozen=True)
class _Case:
    """A method about to be attacked."""

    method: Method
    problem: Any
    params: PyTree
    door: Door
    noise: dict[str, Any]
    oracle: type[Oracle]

    def inner(self, data: PyTree, keys: loop.Keys, present: jax.Array | None = None) -> Oracle:
        return self.oracle(self.door, loop.make_secrets(self.door, data, self.noise, keys, present))

    def run(self, oracle: Any, keys: loop.Keys, memory: PyTree) -> loop.Carry:
        carry = loop.start(self.method, self.problem, self.params, self.door, keys.output, memory)
        return loop.advance_by(self.method, self.problem, oracle, carry, jnp.int32(self.method.steps))

    def outputs(self, carry: loop.Carry) -> dict[str, PyTree]:
        return {"params": carry.choice.params, "state": carry.state, "history": carry.history, "t": carry.t}


def _case(problem, data, method, budget, init, backend: Backend, oracle: type[Oracle]) -> tuple[_Case, PyTree]:
    params, problem, _ = split_params(problem, init)
    data = jax.tree.map(jnp.asarray, data)
    planned = plan(method, jax.tree.leaves(data)[0].shape[0], budget)
    return _Case(method, problem, params, make_door(planned, backend), planned.noise(), oracle), data


def _replaced(data: PyTree, row: int, record: PyTree | None) -> PyTree:
    if record is None:
        return data
    return jax.tree.map(lambda leaf, value: leaf.at[row].set(jnp.asarray(value, leaf.dtype)), data, record)


def replay(
    problem: Any,
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
    case, data = _case(problem, data, method, budget, init, backend, oracle)
    keys = loop.split(jax.random.key(seed))

    @jax.jit
    def recorded(data: PyTree) -> PyTree:
        inner = case.inner(data, keys)
        tape = empty_tape(case.method, case.problem, case.params, inner)
        return case.run(Recording(inner), keys, tape).ledger.memory

    @jax.jit
    def replayed(data: PyTree, tape: PyTree) -> PyTree:
        return case.outputs(case.run(Replaying(case.inner(data, keys)), keys, tape))

    tape = recorded(data)
    here, there = replayed(data, tape), replayed(jax.tree.map(jnp.asarray, other), tape)
    differing = [
        jax.tree_util.keystr(path)
        for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(here), jax.tree.leaves(there), strict=True)
        if np.asarray(a).tobytes() != np.asarray(b).tobytes()
    ]
    return Replay(tuple(differing))


def sensitivity(
    problem: Any,
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
    replaced and by one when it is removed. The record may hold anything: NaN, infinities, 1e30.
    """
    case, data = _case(problem, data, method, budget, init, backend, oracle)
    keys = loop.split(jax.random.key(seed))

    @jax.jit
    def worst(data: PyTree, neighbor: PyTree, present: jax.Array) -> PyTree:
        inner = case.inner(data, keys)
        tape = empty_tape(case.method, case.problem, case.params, inner)
        tape = case.run(Recording(inner), keys, tape).ledger.memory
        zero = {query.name: jnp.float32(0) for query in case.door.schedule}
        oracle = Comparing(inner, case.inner(neighbor, keys, present))
        return case.run(oracle, keys, (tape, zero)).ledger.memory[1]

    present = jnp.arange(case.door.n) != (row if record is None else -1)
    distances = worst(data, _replaced(data, row, record), present)
    return Sensitivity({name: float(d) for name, d in distances.items()}, 1.0 if record is None else 2.0)


def empirical_epsilon(
    problem: Any,
    data: PyTree,
    row: int,
    record: PyTree | None,
    method: Method,
    budget: Budget,
    *,
    init: PyTree,
    runs: int = 10_000,
    score: Callable[[PyTree, dict[str, PyTree]], jax.Array] | None = None,
    confidence: float = 0.95,
    seed: int = 0,
    backend: Backend = "auto",
    oracle: type[Oracle] = Oracle,
) -> EmpiricalEpsilon:
    """Attack `runs` runs on each of two neighbouring tables; return a lower bound on ε that holds with `confidence`.

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
      confidence: of the lower bound.
      seed: of the runs.
      backend: as for `gs.solve`.
      oracle: the oracle to attack; tests put deliberately unsound ones here.
    """
    expected = "add_remove" if record is None else "replace_one"
    if budget.neighbors != expected:
        raise ValueError(f"neighbors = {budget.neighbors!r} does not match this attack, which is {expected!r}.")
    case, data = _case(problem, data, method, budget, init, backend, oracle)
    first = jax.tree.map(lambda leaf: leaf[row], data)
    second = None if record is None else jax.tree.map(lambda leaf: leaf[row], _replaced(data, row, record))

    def one_run(data: PyTree, present: jax.Array, key: jax.Array) -> jax.Array:
        keys = loop.split(key)
        inner = case.inner(data, keys, present)
        if score is None:
            return case.run(Scoring(inner, row, first, second), keys, jnp.float32(0)).ledger.memory
        tape = empty_tape(case.method, case.problem, case.params, inner)
        carry = case.run(Recording(inner), keys, tape)
        return score(carry.choice.params, carry.ledger.memory)

    @jax.jit
    def scores(data: PyTree, present: jax.Array, keys: jax.Array) -> jax.Array:
        return jax.lax.map(functools.partial(one_run, data, present), keys, batch_size=min(runs, 4096))

    keys = jax.random.split(jax.random.key(seed), (2, runs))
    everyone = jnp.ones(case.door.n, bool)
    without = everyone if record is not None else everyone.at[row].set(False)
    here = np.asarray(scores(data, everyone, keys[0]), np.float64)
    there = np.asarray(scores(_replaced(data, row, record), without, keys[1]), np.float64)
    auditor = CanaryScoreAuditor(here, there)
    bound = auditor.epsilon_clopper_pearson(
        1 - confidence, budget.delta, one_sided=False, threshold_strategy=Split(seed=seed)
    )
    return EmpiricalEpsilon(float(bound), float(budget.epsilon), budget.delta, runs, confidence)
