"""Auditing in one run: many canaries at once, each in or out by a coin of its own, and one guess about each.

A run on a table with m canaries, of which each is there as itself or as its opposite (or absent) by a fair coin, is one
run, and yet m tests of the promise. An attacker scores every canary and guesses the coins of the r most telling ones.
Too many right guesses refute the promise. Two bounds say how many are too many:

*By ε and δ alone* (Steinke, Nasr and Jagielski, 2023, Theorem 5.2). Under (ε, δ)-DP the number W of right guesses among
r has P(W ≥ w) ≤ β + 2mδ·α, where β = P(B ≥ w), B ~ Binomial(r, e^ε/(1 + e^ε)) and α = max_i (P(B ≥ w − i) − β)/i.

*By a trade-off function* (Mahloujifar, Melis and Chaudhuri, 2025). If the promise is that of Gaussian differential
privacy with the same (ε, δ), every test has its own limits at once. Their recursion bounds how much probability W ≥ w
can have: with f̄(x) = Φ(Φ⁻¹(x) − μ), start from a = τw/m of right and b = τ(r − w)/m of wrong guesses, and for
i = w − 1, …, 0 let b grow to max(b, f̄(a)) and a by i/(r − i) times that growth. If a + b exceeds r/m at the end, the
outcome has probability below τ under the promise. The bound is stated as ε at the promise's δ.

*Which r.* The number of guesses is fixed in advance: a tenth and a thirtieth of the canaries, half of them for "in" and
half for "out". The level of significance is divided between the two. Choosing among all thresholds, as others do,
divides it by m; and in simulations of Gaussian noise the tails tell more than all canaries together do.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from dp_accounting import gaussian_mechanism
from scipy import optimize, stats

from gossamer.audit.oracles import Around, Recording, empty_tape, normalised
from gossamer.base.entropy import new_key
from gossamer.base.trees import PyTree
from gossamer.engine.opening import Lane, set_up
from gossamer.engine.solving import split_params
from gossamer.methods.base import Method
from gossamer.objectives.problem import Problem
from gossamer.oracle.ask import Question
from gossamer.oracle.clipping import Backend, clip_and_sum
from gossamer.oracle.door import Oracle
from gossamer.oracle.sampling import Sample
from gossamer.privacy.budget import Budget
from gossamer.privacy.planning import plan
from gossamer.privacy.sampling import All, Blocks

_CONFIDENCE = 0.95
_SHARES = (0.1, 0.03)
"""How many of the canaries are guessed."""
_FEWEST, _LARGEST = 100, 64.0
"""Canaries below which nothing is proved; and an ε that nobody claims."""


@dataclass(frozen=True)
class OneRun:
    """A lower bound on ε from one run with many canaries; true when it does not exceed what was claimed."""

    lower_bound: float
    """By the trade-off function of Gaussian noise; by ε and δ alone if what is audited promises another one."""
    by_epsilon_delta: float
    """By ε and δ alone: a bound of its own, which is smaller."""
    claimed: float
    delta: float
    canaries: int
    confidence: float

    def __bool__(self) -> bool:
        return self.lower_bound <= self.claimed


def one_run_bound(scores: np.ndarray, inside: np.ndarray, delta: float, claimed: float = math.inf) -> OneRun:
    """Return what the scores of one run prove, with 95 % confidence.

    Args:
      scores: of each canary, larger for those that are in.
      inside: the truth: the coins.
      delta: δ of the promise.
      claimed: ε of the promise.
    """
    scores, inside = np.asarray(scores, np.float64), np.asarray(inside, bool)
    if scores.shape != inside.shape or len(scores) < _FEWEST:
        raise ValueError(f"{len(scores)} scores for {len(inside)} canaries: there must be as many, at least {_FEWEST}.")
    by_f, by_pair = (_bound(test, scores, inside, delta) for test in (_refuted_by_f, _refuted))
    return OneRun(by_f, by_pair, float(claimed), delta, canaries=len(scores), confidence=_CONFIDENCE)


def _bound(refutes: Callable[..., bool], scores: np.ndarray, inside: np.ndarray, delta: float) -> float:
    """Return the largest ε that one of the ways to guess refutes."""
    m, order, best = len(scores), np.argsort(-scores, kind="stable"), 0.0
    for share in _SHARES:
        half = max(_FEWEST // 4, round(share * m / 2))
        right = int(inside[order[:half]].sum() + (~inside[order[m - half :]]).sum())

        def excess(epsilon: float, half: int = half, right: int = right) -> float:
            refuted = refutes(m, 2 * half, right, epsilon=epsilon, delta=delta, level=(1 - _CONFIDENCE) / len(_SHARES))
            return 1.0 if refuted else -1.0

        low, high = max(best, 1e-3), max(2 * best, 1.0)
        if excess(low) < 0:
            continue
        while excess(high) > 0 and high < _LARGEST:
            high *= 2
        refuted = optimize.bisect(excess, low, high, xtol=1e-4) if high < _LARGEST else high
        best = float(refuted) - 1e-4  # on the side that is refuted
    return best


def _refuted(m: int, guesses: int, right: int, epsilon: float, delta: float, level: float) -> bool:
    """Whether so many right guesses are too improbable under (ε, δ)."""
    q = 1 / (1 + math.exp(-epsilon))
    beta = stats.binom.sf(right - 1, guesses, q)
    i = np.arange(1, right + 1)
    alpha = np.max((stats.binom.sf(right - i - 1, guesses, q) - beta) / i, initial=0.0)
    return bool(beta + 2 * m * delta * alpha < level)


def _refuted_by_f(m: int, guesses: int, right: int, epsilon: float, delta: float, level: float) -> bool:
    """Whether they are too improbable under the Gaussian trade-off function through (ε, δ)."""
    mu = 1 / gaussian_mechanism.get_sigma_gaussian(epsilon, delta)
    a, b = level * right / m, level * (guesses - right) / m
    for i in range(right - 1, -1, -1):
        grown = max(b, float(stats.norm._cdf(stats.norm._ppf(a) - mu)))
        if grown == b:
            break
        a, b = min(a + i / (guesses - i) * (grown - b), 1.0), grown
    return a + b > guesses / m


class _Telling(Around):
    """Answers as the inner oracle does, and scores all canaries by every answer; its memory: the scores.

    It knows every record but the coins. An answer less what it knows, and less the mean of what it does not, is noise
    and ±(u − v)/2 for each canary, which contributes u if it is in and v if not: its inner product with u − v, in units
    of the noise, is the score, as the likelihood ratio would have it if there were no other coins.
    """

    def __init__(self, inner: Oracle, canaries: PyTree, others: PyTree | None):
        super().__init__(inner)
        self._canaries, self._others = canaries, others

    def answer(self, asked: Question, memory: PyTree) -> tuple[PyTree, PyTree]:
        """Answer and score."""
        query, index, h, clip, weights = asked
        answer, _ = self.inner.answer(asked, None)
        sample = self.inner.drawn(query, index, self.inner.keys(query, index))
        rows = jnp.arange(self.door.n) if sample.rows is None else sample.rows
        size = Oracle.normaliser(self.inner, query, sample)
        told = normalised(None, jax.tree.map(lambda leaf: leaf * size, answer), clip, weights)
        known = self.inner.clipped_sum(h, Sample(sample.rows, sample.mask & (rows >= len(memory))), clip)

        def part(record: PyTree) -> jax.Array:
            alone = jax.tree.map(lambda leaf: leaf[None], record)
            total = clip_and_sum(h, alone, jnp.ones(1, bool), clip, self.door.backend, microbatch=self.door.microbatch)
            return normalised(None, total, clip, weights)

        u = jax.vmap(part)(self._canaries)
        v = jnp.zeros_like(u) if self._others is None else jax.vmap(part)(self._others)
        rate = size / self.door.n if query.sampling.has_capacity else 1.0
        rest = told - normalised(self.door.lattice, known, clip, weights) - 0.5 * rate * jnp.sum(u + v, axis=0)
        sigma = self.inner.noise_multiplier(query)
        return answer, memory + (u - v) @ rest / sigma**2


def one_run(
    problem: Problem,
    data: PyTree,
    canaries: PyTree,
    method: Method,
    budget: Budget,
    *,
    init: PyTree,
    others: PyTree | None = None,
    score: Callable[[PyTree, dict[str, PyTree]], jax.Array] | None = None,
    seed: int = 0,
    backend: Backend = "auto",
    oracle: type[Oracle] = Oracle,
) -> OneRun:
    """Audit a method in one run: canaries take the first rows of a table, each in or out by a coin of its own.

    Args:
      problem: as for `gs.solve`, like `method`, `budget`, `init` and `backend`.
      data: a table that the auditor made up, with at least as many rows as there are canaries.
      canaries: the rows of those that are in.
      method: what is audited.
      budget: what it claims. Its neighbors must match: "replace_one" with `others`, else "add_remove".
      init: where the run starts.
      others: the rows that stand in for canaries that are out; None: they are absent.
      score: `score(params, answers)` → a score for each canary, larger for those that are in. None is the strongest
        attacker: it sees all answers, and knows all but the coins.
      seed: of the run and of the coins.
      backend: as for `gs.solve`.
      oracle: the oracle to attack; tests put deliberately unsound ones here.
    """
    expected = "add_remove" if others is None else "replace_one"
    if budget.neighbors != expected:
        raise ValueError(f"neighbors = {budget.neighbors!r} does not match this attack, which is {expected!r}.")
    params, problem, _ = split_params(problem, init)
    canaries = jax.tree.map(jnp.asarray, canaries)
    m = jax.tree.leaves(canaries)[0].shape[0]
    inside = np.random.default_rng((seed, m)).random(m) < 0.5
    coins = jnp.asarray(inside)

    def mixed(column: Any, ones: jax.Array, out: Any) -> jax.Array:
        shown = jnp.where(coins.reshape(-1, *[1] * (ones.ndim - 1)), ones, jnp.asarray(out, ones.dtype))
        return jnp.asarray(column).at[:m].set(shown)

    table = jax.tree.map(mixed, data, canaries, canaries if others is None else others)
    n = jax.tree.leaves(table)[0].shape[0]
    present = jnp.ones(n, bool) if others is not None else jnp.ones(n, bool).at[:m].set(coins)
    planned = plan(method.sized(params), n, budget)
    setup = set_up(planned, problem, backend)

    @jax.jit
    def scores(table: PyTree, present: jax.Array, key: jax.Array) -> jax.Array:
        lane = Lane(setup, planned.noise(), params, key)
        inner = lane.oracle(table, present, oracle)
        if score is None:
            return lane.finish(_Telling(inner, canaries, others), jnp.zeros(m)).ledger.memory
        carry = lane.finish(Recording(inner), empty_tape(setup.method, problem, params, inner))
        return score(carry.choice.params, carry.ledger.memory)

    found = np.asarray(scores(table, present, new_key(seed)), np.float64)
    proved = one_run_bound(found, inside, budget.delta, budget.epsilon)
    # What the trade-off function refutes is a promise of Gaussian noise. Samples and perturbed objectives promise ε and
    # δ by another curve, which an honest run may reach: there the bound by ε and δ alone counts.
    if all(type(query.sampling) in (All, Blocks) for query in planned.schedule):
        return proved
    return dataclasses.replace(proved, lower_bound=proved.by_epsilon_delta)
