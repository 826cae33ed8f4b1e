"""What every method must pass: all attacks on one method, as one report.

Whoever writes a method runs this on it. The methods of this library meet the same attacks. It asks for a small table, a
short configuration and a problem on which one record can do harm: the attacks are worst-case, so that eight records and
three steps say more than a realistic run.

What no attack here can notice is code that holds the records itself: a loss that closes over the table, or a start or a
threshold that was computed from it.
"""

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.audit import attacks
from gossamer.base.entropy import new_key
from gossamer.base.exceptions import AccountingError
from gossamer.base.trees import PyTree
from gossamer.engine import loop
from gossamer.engine.opening import open_run
from gossamer.engine.solving import check_match, solve, split_params
from gossamer.methods.base import Method
from gossamer.methods.result import Result
from gossamer.objectives.problem import Problem
from gossamer.oracle.clipping import Backend
from gossamer.oracle.door import Oracle
from gossamer.oracle.people import People
from gossamer.privacy.budget import Budget, Neighbors
from gossamer.privacy.planning import plan

KINDS = ("settings", "asks", "repeats", "replay", "sensitivity", "audit")
"""The kinds of check, in the order of the report."""


@dataclass(frozen=True)
class Target:
    """The record under attack, and what takes its place."""

    row: int = 0
    """Where it is in the table. It should fill its threshold."""
    record: PyTree | None = None
    """What takes its place; None: its opposite."""
    hostile: Mapping[str, PyTree | None] | None = None
    """Further records to take its place by name, None for its removal. None: huge, infinite, NaN and so on."""

    def within(self, data: PyTree) -> "Target":
        """Return this target with all that was left open filled in for a table."""
        attacked = jax.tree.map(lambda leaf: leaf[self.row], data)
        return Target(
            row=self.row,
            record=_opposite(attacked) if self.record is None else self.record,
            hostile=_hostile(attacked) if self.hostile is None else self.hostile,
        )


@dataclass(frozen=True)
class Check:
    """One attack, and how the method fared."""

    name: str
    passed: bool
    found: str
    """What was measured, in words."""
    evidence: Any = None
    """What the attack itself returned, such as `EmpiricalEpsilon`."""


@dataclass(frozen=True)
class Conformance:
    """How a method fared under all attacks; true when it passed every one. `str` of it is the report to read."""

    method: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether the method passed every check."""
        return all(check.passed for check in self.checks)

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the checks that it did not pass."""
        return tuple(check.name for check in self.checks if not check.passed)

    def __bool__(self) -> bool:
        return self.passed

    def __getitem__(self, name: str) -> Check:
        return next(check for check in self.checks if check.name == name)

    def __str__(self) -> str:
        width = max(len(check.name) for check in self.checks)
        rows = [f"  {'ok  ' if c.passed else 'FAIL'}  {c.name:<{width}}  {c.found}" for c in self.checks]
        return "\n".join([f"{self.method}: {'passed' if self.passed else 'FAILED'}", *rows])


def conformance(
    method: Method,
    problem: Problem,
    data: PyTree,
    *,
    init: PyTree,
    budget: Budget | None = None,
    target: Target | None = None,
    other: PyTree | None = None,
    runs: int = 2048,
    ends_early: bool = False,
    only: Collection[str] = KINDS,
    backend: Backend = "auto",
    oracle: type[Oracle] = Oracle,
) -> Conformance:
    """Attack a method in every way that the library knows, and report how it fared.

    * settings: it is a frozen configuration, equal to its copy and with the same hash.
    * asks: it asks what it scheduled, each query exactly as often.
    * repeats: JAX's own checker finds no key that is used twice ("keys"); one seed gives one result, bit for bit,
      whatever ran in between, and another seed another ("purity"); other records, another start and another seed need
      no new compilation ("compiles once").
    * replay: the same answers on other records give the same result, bit for bit.
    * sensitivity: no record, however hostile, moves a clipped sum by more than the noise was made for.
    * audit: the strongest attacker on `runs` runs does not prove more than ε, for both relations of neighbours.

    Args:
      method: a short configuration: a few steps, and samples of most records.
      problem: what it solves; best one in which a record decides its own gradient, as in `loss = ⟨x, record⟩`.
      data: a few records.
      init: where to start, as for `gs.solve`.
      budget: what the runs may spend; None: ε = 2, and a δ that suits the table.
      target: the record under attack, and what takes its place; None: the first, and its opposite.
      other: the table for replay, in the same shapes; None: one made from `data`.
      runs: of the audit, on each of two tables. More prove more.
      ends_early: whether the method may ask less than it scheduled.
      only: the kinds of check to make, to save time; what was not checked is not in the report.
      backend: how per-record gradients are clipped.
      oracle: the oracle to attack; tests put deliberately unsound ones here.
    """
    unknown = sorted(set(only) - set(KINDS))
    if unknown:
        raise ValueError(f"only = {unknown} must be some of {', '.join(map(repr, KINDS))}.")
    check_match(problem, method, Budget(1.0, 0.5) if budget is None else budget)
    if isinstance(data, People):
        problem, data = problem.by_person(data), data.gathered()
    data = jax.tree.map(jnp.asarray, data)
    n = jax.tree.leaves(data)[0].shape[0]
    trial = _Trial(
        method=method,
        problem=problem,
        data=data,
        other=_mirrored(data) if other is None else other,
        init=init,
        budget=Budget(2.0, min(1e-2, 0.25 / n)) if budget is None else budget,
        target=(target or Target()).within(data),
        options={"init": init, "backend": backend, "oracle": oracle},
    )
    kinds: dict[str, Callable[[], Iterator[Check]]] = {
        "settings": trial.settings,
        "asks": lambda: trial.asks(ends_early),
        "repeats": trial.repeats,
        "replay": trial.replay,
        "sensitivity": trial.sensitivities,
        "audit": lambda: trial.audits(runs),
    }
    return Conformance(type(method).__name__, tuple(check for kind in KINDS if kind in only for check in kinds[kind]()))


_Outcome = tuple[bool, str, Any]
"""Whether a check was passed, what was found in words, and the evidence."""


class _Trial(NamedTuple):
    """A method under attack; each function tries one thing."""

    method: Method
    problem: Problem
    data: PyTree
    other: PyTree
    init: PyTree
    budget: Budget
    target: Target
    options: dict[str, Any]

    def settings(self) -> Iterator[Check]:
        yield _tried("settings", self._settings)

    def _settings(self) -> _Outcome:
        copy = dataclasses.replace(self.method)  # type: ignore[type-var]  # methods are dataclasses
        alike = copy == self.method and hash(copy) == hash(self.method)
        return alike, "frozen, and equal to its copy" if alike else "a copy is not equal, or has another hash", None

    def asks(self, ends_early: bool) -> Iterator[Check]:
        yield _tried("asks", lambda: self._asks(ends_early))

    def _asks(self, ends_early: bool) -> _Outcome:
        params, problem, _ = split_params(self.problem, self.init)
        planned = plan(self.method.sized(params), jax.tree.leaves(self.data)[0].shape[0], self.budget)
        key, backend = new_key(0), self.options["backend"]
        run = open_run(planned, problem, self.data, init=params, key=key, backend=backend)
        asked = {name: int(count) for name, count in run.finish().ledger.counts.items()}
        scheduled = {query.name: query.count for query in planned.schedule}
        kept = all(asked[name] == scheduled[name] or (ends_early and asked[name] < scheduled[name]) for name in asked)
        return kept, ", ".join(f"{name!r} {asked[name]} of {scheduled[name]} times" for name in asked), asked

    def repeats(self) -> Iterator[Check]:
        """Solve again and again under JAX's checker of keys: yield what that shows."""
        first: list[Result] = []

        def keys() -> _Outcome:
            first.append(self._solve(7))
            return True, "no key is used twice", None

        def purity() -> _Outcome:
            changed = self._solve(8, self.other)
            again, another = self._solve(7), self._solve(8)
            pure = _bytes(first[0]) == _bytes(again)
            varied = _bytes(first[0]) != _bytes(another)
            told = "one seed gives one result" if pure else "the same seed gave two results"
            return pure and varied, told + ("" if varied else "; two seeds gave the same result"), changed

        def compiles() -> _Outcome:
            before = _compilations()
            moved = jax.tree.map(lambda leaf: jnp.asarray(leaf) + 0.25, self.init)
            self._solve(9, self.other, moved)
            extra = _compilations() - before
            return extra == 0, "no new compilation" if extra == 0 else f"{extra} new compilations", extra

        with jax.debug_key_reuse(True):
            checks = [_tried("keys", keys)]
            if first:
                checks += [_tried("purity", purity), _tried("compiles once", compiles)]
        yield from checks

    def _solve(self, seed: int, data: PyTree = None, init: PyTree = None) -> Result:
        return solve(
            self.problem,
            self.data if data is None else data,
            self.method,
            self.budget,
            init=self.init if init is None else init,
            seed=seed,
            progress=False,
            backend=self.options["backend"],
        )

    def replay(self) -> Iterator[Check]:
        yield _tried("replay", self._replay)

    def _replay(self) -> _Outcome:
        found = attacks.replay(self.problem, self.data, self.other, self.method, self.budget, **self.options)
        told = f"other records change {', '.join(found.differing)}" if found.differing else "records enter by answers"
        return bool(found), told, found

    def sensitivities(self) -> Iterator[Check]:
        for name, record in {"opposite": self.target.record, **(self.target.hostile or {})}.items():
            yield _tried(f"sensitivity, {name}", lambda record=record: self._sensitivity(record))  # type: ignore[misc]

    def _sensitivity(self, record: PyTree | None) -> _Outcome:
        found = attacks.sensitivity(
            self.problem, self.data, self.target.row, record, self.method, budget=self.budget, **self.options
        )
        moved = ", ".join(f"{name!r} moves by {distance:.3g}" for name, distance in found.worst.items())
        return bool(found), f"{moved} of {found.bound:g} thresholds", found

    def audits(self, runs: int) -> Iterator[Check]:
        yield _tried("audit, replace_one", lambda: self._audit("replace_one", runs))
        yield _tried("audit, add_remove", lambda: self._audit("add_remove", runs))

    def _audit(self, neighbors: Neighbors, runs: int) -> _Outcome:
        budget = dataclasses.replace(self.budget, neighbors=neighbors)
        try:
            plan(self.method, jax.tree.leaves(self.data)[0].shape[0], budget)
        except AccountingError as error:
            return True, f"such a run is refused: {error}", error
        record = self.target.record if neighbors == "replace_one" else None
        found = attacks.empirical_epsilon(
            self.problem, self.data, self.target.row, record, self.method, budget=budget, runs=runs, **self.options
        )
        return bool(found), f"ε ≥ {found.lower_bound:.3g} shown, {found.claimed:g} claimed, {runs} runs", found


def _tried(name: str, attempt: Callable[[], _Outcome]) -> Check:
    """Return the outcome of a check; a method that raises has not passed it, whatever it raises."""
    try:
        return Check(name, *attempt())
    except Exception as error:
        return Check(name, False, f"{type(error).__name__}: {str(error).partition(chr(10))[0]}", error)


def _compilations() -> int:
    return loop.advance._cache_size()  # type: ignore[attr-defined]  # of JAX's jit, which its stubs leave out


def _bytes(result: Result) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((result.params, result.history))]


def _is_float(leaf: jax.Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def _mirrored(data: PyTree) -> PyTree:
    """Return quite another table: numbers turned round and moved, categories in reverse."""

    def other(leaf: jax.Array) -> jax.Array:
        if _is_float(leaf):
            return 3.0 - 2.0 * leaf
        return ~leaf if leaf.dtype == bool else jnp.max(leaf) + jnp.min(leaf) - leaf

    return jax.tree.map(other, data)


def _opposite(record: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: -leaf if _is_float(leaf) else leaf, record)


def _hostile(record: PyTree) -> dict[str, PyTree | None]:
    """Return what a record can do worst."""

    def filled(value: float) -> PyTree:
        return jax.tree.map(lambda leaf: jnp.full_like(leaf, value) if _is_float(leaf) else leaf, record)

    def largest(leaf: jax.Array) -> jax.Array:
        return jnp.full_like(leaf, jnp.iinfo(leaf.dtype).max) if jnp.issubdtype(leaf.dtype, jnp.integer) else leaf

    return {
        "huge": jax.tree.map(lambda leaf: -1e6 * jnp.where(leaf == 0, 1, leaf) if _is_float(leaf) else leaf, record),
        "beyond float32 squares": filled(1e30),
        "infinite": filled(jnp.inf),
        "not a number": filled(jnp.nan),
        "of no category": jax.tree.map(largest, record),
        "removed": None,
    }
