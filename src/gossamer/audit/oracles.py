"""Oracles for attackers: they record, replay, compare and score what passes through the door.

Each wraps an honest (or deliberately unsound) oracle and is given to the method in its place. None is private.
"""

from typing import Any

import jax
import jax.numpy as jnp

from gossamer.base.entropy import new_key
from gossamer.base.trees import PyTree
from gossamer.objectives.problem import Problem
from gossamer.oracle.ask import Ask, Ledger
from gossamer.oracle.clipping import clip_and_sum
from gossamer.oracle.door import Oracle, Question
from gossamer.oracle.lattice import Lattice
from gossamer.oracle.sampling import Sample
from gossamer.privacy.schedule import Query


class Around:
    """Stands in for an oracle, and tells what is public about it."""

    def __init__(self, inner: Oracle):
        self.inner, self.door = inner, inner.door

    def noise_multiplier(self, query: Query) -> jax.Array:
        """Return the inner oracle's noise."""
        return self.inner.noise_multiplier(query)


class Recording(Around):
    """Answers as the inner oracle does, and writes every answer on a tape, its memory."""

    def answer(self, asked: Question, memory: PyTree) -> tuple[PyTree, PyTree]:
        """Answer and record."""
        answer, _ = self.inner.answer(asked, None)
        name = asked.query.name
        tape = jax.tree.map(lambda tape, leaf: tape.at[asked.number].set(leaf), memory[name], answer)
        return answer, {**memory, name: tape}


class Replaying(Around):
    """Answers from a tape. The records of the inner oracle are there, but an honest method cannot reach them."""

    def answer(self, asked: Question, memory: PyTree) -> tuple[PyTree, PyTree]:
        """Read the answer from the tape."""
        return jax.tree.map(lambda tape: tape[asked.number], memory[asked.query.name]), memory


class Comparing(Replaying):
    """Answers from a tape, and measures how far two tables' clipped sums are apart on the same sample.

    Its memory is the tape and, per query, the largest distance so far in units of the threshold.
    """

    def __init__(self, inner: Oracle, neighbor: Oracle):
        super().__init__(inner)
        self.neighbor = neighbor

    def answer(self, asked: Question, memory: PyTree) -> tuple[PyTree, PyTree]:
        """Answer from the tape and compare."""
        query, index, h, clip, weights = asked
        tape, worst = memory
        here, there = (
            normalised(
                oracle.door.lattice,
                oracle.clipped_sum(h, oracle.drawn(query, index, oracle.keys(query, index)), clip),
                clip,
                weights,
            )
            for oracle in (self.inner, self.neighbor)
        )
        apart = jnp.sqrt(jnp.sum(jnp.square(here - there)))
        apart = jnp.where(jnp.isnan(apart), jnp.inf, apart)
        answer, _ = super().answer(asked, tape)
        return answer, (tape, {**worst, query.name: jnp.maximum(worst[query.name], apart)})


class Scoring(Around):
    """Answers as the inner oracle does, and adds up the log-likelihood ratio of the answers; memory: that sum.

    This is the strongest attacker that the definition allows for: it knows every other record, the sample but for
    the target, and all answers. For a target that contributes u in one table and v in the other, with rate q,

        log [(1−q) + q exp(⟨r,u⟩/σ² − ‖u‖²/2σ²)] − log [(1−q) + q exp(⟨r,v⟩/σ² − ‖v‖²/2σ²)]

    is the ratio for one answer, where r is the noisy sum less the other records' part.
    """

    def __init__(self, inner: Oracle, row: int, first: PyTree, second: PyTree | None):
        super().__init__(inner)
        self._row, self._first, self._second = row, first, second

    def answer(self, asked: Question, memory: PyTree) -> tuple[PyTree, PyTree]:
        """Answer and score."""
        query, index, h, clip, weights = asked
        answer, _ = self.inner.answer(asked, None)
        sample = self.inner.drawn(query, index, self.inner.keys(query, index))
        rows = jnp.arange(self.door.n) if sample.rows is None else sample.rows
        rest = self.inner.clipped_sum(h, Sample(sample.rows, sample.mask & (rows != self._row)), clip)
        size = Oracle.normaliser(self.inner, query, sample)
        told = normalised(None, jax.tree.map(lambda leaf: leaf * size, answer), clip, weights)
        r = told - normalised(self.door.lattice, rest, clip, weights)
        sigma = self.inner.noise_multiplier(query)
        rate = jnp.asarray(query.sampling.chance(seen=jnp.any(rows == self._row)), jnp.float32)
        scores = [
            _log_mixture(rate, (jnp.dot(r, u) - 0.5 * jnp.dot(u, u)) / sigma**2)
            for u in (self._part(h, record, clip, weights) for record in (self._first, self._second))
        ]
        return answer, memory + scores[0] - scores[1]

    def _part(self, h: Any, record: PyTree | None, clip: Any, weights: tuple[float, ...]) -> jax.Array:
        """Return one record's clipped vector; an absent record contributes zero."""
        counts = jnp.full(1, record is not None)
        alone = jax.tree.map(lambda leaf: leaf[None], self._first if record is None else record)
        total = clip_and_sum(h, alone, counts, clip, self.door.backend, microbatch=self.door.microbatch)
        return normalised(None, total, clip, weights)


def _log_mixture(rate: jax.Array, log_ratio: jax.Array) -> jax.Array:
    return jnp.logaddexp(jnp.log1p(-rate), jnp.log(rate) + log_ratio)


def normalised(lattice: Lattice | None, total: PyTree, clip: Any, weights: tuple[float, ...]) -> jax.Array:
    """Return a sum as one vector in units of its noise: block j divided by w_j·C_j (a zero threshold: zero).

    The sum is in lattice points, or, without a lattice, in its own units.
    """
    blocks = zip(total, clip, weights, strict=True) if isinstance(clip, tuple) else [(total, clip, weights[0])]
    parts = []
    for block, c, w in blocks:
        if lattice is not None:
            parts += [jnp.ravel(lattice.in_thresholds(leaf)) / w for leaf in jax.tree.leaves(block)]
            continue
        flat = jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(block)])
        parts.append(jnp.where((flat == 0) & (c == 0), 0.0, flat / (w * c)))
    return jnp.concatenate(parts)


def answer_shapes(method: Any, problem: Problem, params: PyTree, inner: Oracle) -> dict[str, PyTree]:
    """Return the shape of each query's answer, by tracing one step."""
    seen: dict[str, PyTree] = {}

    class Shapes(Replaying):
        def answer(self, asked: Question, memory: PyTree) -> tuple[PyTree, PyTree]:
            answer, _ = inner.answer(asked, None)
            seen[asked.query.name] = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), answer)
            return answer, memory

    def one_step(params: PyTree) -> PyTree:
        ask = Ask(Shapes(inner), Ledger.empty(inner.door.schedule), new_key(0))  # type: ignore[arg-type]
        return method.step(problem, ask, method.init(problem, params), jnp.int32(0))[0]

    jax.eval_shape(one_step, params)
    return seen


def empty_tape(method: Any, problem: Problem, params: PyTree, inner: Oracle) -> dict[str, PyTree]:
    """Return room for every answer of a run."""
    shapes = answer_shapes(method, problem, params, inner)

    def room(query: Query) -> PyTree:
        return jax.tree.map(lambda s: jnp.zeros((query.count, *s.shape), s.dtype), shapes[query.name])

    return {query.name: room(query) for query in inner.door.schedule if query.name in shapes}
