"""What methods are handed: an `ask` that answers what was scheduled, and the ledger that counts it."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import get_opaque_trace_state

from gossamer.base.trees import PyTree
from gossamer.oracle.clipping import Clip
from gossamer.oracle.door import Count, Oracle, Question
from gossamer.oracle.queries import ACUTE
from gossamer.privacy.schedule import Schedule

_LARGEST_CLIP = 1e30
_NAMES = ", ".join(kind.__name__ for kind in ACUTE)


class Ledger(NamedTuple):
    """How often each query was asked so far, and what the oracle keeps beside it."""

    counts: dict[str, Count]
    memory: PyTree = None

    @classmethod
    def empty(cls, schedule: Schedule, memory: PyTree = None) -> "Ledger":
        """Return the ledger of a run that has asked nothing."""
        return cls({query.name: jnp.int32(0) for query in schedule}, memory)


class Ask:
    """What a method is handed: it can ask what was scheduled, and nothing else.

        g = ask("gradient", Gradient(problem.loss, x), clip=self.clip)

    A query beyond its scheduled count answers NaN, which ends the run. Ask inside control flow by `ask.cond` and
    `ask.loop`, which hand their functions an `ask` of their own. Inside a bare `jax.lax` loop or `jax.vmap` it
    refuses: the ledger would count one query for many, and one noise would serve them all.

    `ask.key` is for public randomness, such as directions of search: a key of this step's own, which varies with the
    seed and shares nothing with the oracle's. Split it, or fold a number in, for every draw.
    """

    def __init__(self, oracle: Oracle, ledger: Ledger, key: jax.Array):
        self._oracle = oracle
        self._trace = _current_trace()
        self.ledger = ledger
        self.key = key

    def __call__(self, name: str, h: Callable[[PyTree], PyTree], clip: Clip, weights: tuple[float, ...] = ()) -> PyTree:
        """Return the noisy mean of clip(h(z), clip) over a sample of the records.

        Args:
          name: a query of the schedule.
          h: a function of one record; `Gradient`, `Difference`, `Value` or `Joint`, or any function. A query that was
            scheduled as acute takes one of the kinds in `ACUTE`, and nothing else.
          clip: its threshold, public and possibly traced; or a tuple, one for each block of a tuple-valued h.
          weights: the relative noise w_j of each block, Σ 1/w_j² ≤ 1; equal by default.
        """
        if _current_trace() != self._trace:
            raise RuntimeError(
                f"ask({name!r}, ...) was called inside a JAX transformation that it does not know of. Use ask.cond and "
                "ask.loop instead of jax.lax.cond, jax.lax.scan or jax.vmap, and the `ask` that they hand over."
            )
        query = self._oracle.door.schedule[name]
        # Fail closed: less is charged for replacing a record only where the angle is certain.
        if query.acute and (type(h) not in ACUTE or isinstance(clip, tuple)):
            raise TypeError(
                f"ask({name!r}, ...): the query was scheduled as acute, so it answers one of {_NAMES} with one "
                f"threshold, not {type(h).__name__}, whose vectors may be opposite. Schedule it without acute."
            )
        index = self.ledger.counts[name]
        asked = Question(query, index, h, jax.tree.map(_valid_threshold, clip), _block_weights(clip, weights))
        answer, memory = self._oracle.answer(asked, self.ledger.memory)
        # Fail closed: what was not scheduled is not answered.
        answer = jax.tree.map(lambda leaf: jnp.where(index < query.count, leaf, jnp.nan), answer)
        self.ledger = Ledger({**self.ledger.counts, name: index + 1}, memory)
        return answer

    def deviation(self, name: str) -> jax.Array:
        """Return the standard deviation of a query's answers, in thresholds: public, as everything scheduled is."""
        query = self._oracle.door.schedule[name]
        return self._oracle.noise_multiplier(query) / jnp.float32(query.sampling.size(self._oracle.door.n))

    def cond(self, predicate: jax.Array, if_true: Callable, if_false: Callable, *operands: PyTree) -> PyTree:
        """Like `jax.lax.cond`; each function takes an `ask` first."""

        def branch(function: Callable) -> Callable:
            def run(ledger: Ledger, *operands: PyTree) -> tuple[PyTree, Ledger]:
                ask = Ask(self._oracle, ledger, self.key)
                return function(ask, *operands), ask.ledger

            return run

        out, self.ledger = jax.lax.cond(predicate, branch(if_true), branch(if_false), self.ledger, *operands)
        return out

    def loop(self, count: Count | int, body: Callable, carry: PyTree) -> PyTree:
        """Apply `body(ask, i, carry) -> carry` for i = 0, …, count − 1; the count may be traced, and must be public."""

        def run(i: jax.Array, state: tuple[PyTree, Ledger]) -> tuple[PyTree, Ledger]:
            carry, ledger = state
            ask = Ask(self._oracle, ledger, self.key)
            carry = body(ask, i, carry)
            return carry, ask.ledger

        carry, self.ledger = jax.lax.fori_loop(0, count, run, (carry, self.ledger))
        return carry


def _current_trace() -> Any:
    """Return what tells one level of JAX's transformations from another."""
    return get_opaque_trace_state(convention="nnx")


def _valid_threshold(clip: Any) -> jax.Array:
    """A threshold that is negative, NaN or so large that sums could overflow makes the answer NaN, on every table."""
    clip = jnp.asarray(clip, jnp.float32)
    if clip.shape != ():
        raise ValueError(f"clip has shape {clip.shape}; a threshold is one number, or a tuple of one number per block.")
    return jnp.where((clip >= 0) & (clip <= _LARGEST_CLIP), clip, jnp.nan)


def _block_weights(clip: Clip, weights: tuple[float, ...]) -> tuple[float, ...]:
    blocks = len(clip) if isinstance(clip, tuple) else 1
    weights = weights or (math.sqrt(blocks),) * blocks
    if len(weights) != blocks:
        raise ValueError(f"weights = {weights} must be one number for each of the {blocks} blocks.")
    if not sum(w**-2 for w in weights) <= 1 + 1e-9:
        raise ValueError(
            f"weights = {weights} have sum of 1/w^2 = {sum(w**-2 for w in weights):.6g}, above 1: the joint query "
            "would cost more than its schedule says. Multiply them all by the square root of that sum."
        )
    return weights
