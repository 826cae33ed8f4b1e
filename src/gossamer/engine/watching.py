"""How many records a run clips, query by query: NOT PRIVATE, for diagnostics.

What is clipped is what a query asks of a record: a gradient times a weight, a difference, a statistic. So we let the
method make its next step with an oracle that answers exactly and counts.
"""

from typing import Any

import jax
import jax.numpy as jnp

from gossamer.base import trees
from gossamer.base.entropy import new_key
from gossamer.base.trees import PyTree
from gossamer.methods.base import Method
from gossamer.objectives.problem import Problem
from gossamer.oracle.ask import Ask, Ledger
from gossamer.oracle.clipping import clip_and_sum
from gossamer.oracle.door import Door, Oracle, Question, Secrets
from gossamer.privacy.schedule import Query

_BLOCKS = 4
"""The most blocks of a joint query that are told apart."""


class Watching(Oracle):
    """Answers the exact mean of all records, clipped. Its memory: each query's clipped records by block, and asks."""

    def __init__(self, door: Door, data: PyTree):
        quiet = {query.name: jnp.float32(0) for query in door.schedule}
        super().__init__(door, Secrets(data, quiet, new_key(0), jnp.zeros(0, jnp.int32)))
        self.blocks: dict[str, int] = {}
        """How many blocks each query had that was asked."""

    def answer(self, asked: Question, memory: PyTree) -> tuple[PyTree, PyTree]:
        """Answer and count."""
        several, data = isinstance(asked.clip, tuple), self._secrets.data
        clips = asked.clip if several else (asked.clip,)
        self.blocks[asked.query.name] = min(_BLOCKS, len(clips))

        def beyond(record: PyTree) -> jax.Array:
            value = asked.h(record)
            norms = [trees.norm(block) for block in (value if several else (value,))]
            return jnp.stack([norm > clip for norm, clip in zip(norms, clips, strict=True)])

        shares = jnp.mean(jax.lax.map(beyond, data, batch_size=256), axis=0, dtype=jnp.float32)[:_BLOCKS]
        shares = jnp.pad(shares, (0, _BLOCKS - shares.size))
        total = clip_and_sum(asked.h, data, jnp.ones(self.door.n, bool), asked.clip, self.door.backend)
        counted, asks = memory[asked.query.name]
        memory = {**memory, asked.query.name: (counted + shares, asks + 1)}
        return jax.tree.map(lambda leaf: leaf / self.door.n, total), memory


def shares_clipped(problem: Problem, method: Method, data: PyTree, state: Any, t: jax.Array) -> dict[str, jax.Array]:
    """Return the share of all records that each query of step t clips, NaN if that step does not ask it.

    Keys are `share_clipped`, plus the query's name if it does not ask for the gradient itself, plus its block.
    """
    n = jax.tree.leaves(data)[0].shape[0]
    door = Door(n, method.schedule(n), ())
    nothing = {query.name: (jnp.zeros(_BLOCKS), jnp.int32(0)) for query in door.schedule}
    watching = Watching(door, data)
    ask = Ask(watching, Ledger.empty(door.schedule, nothing), new_key(0))
    method.step(problem, ask, state, t)
    found = {}
    for query in door.schedule:
        counted, asks = ask.ledger.memory[query.name]
        for block in range(watching.blocks.get(query.name, 0)):
            share = jnp.where(asks > 0, counted[block] / asks, jnp.nan)
            found[f"share_clipped{_ending(problem, query, block)}"] = share
    return found


def _ending(problem: Problem, query: Query, block: int) -> str:
    ending = "" if query.name in ("gradient", "anchor") else f"_{query.name}"
    suffixes = ("",) if query.dual else problem.suffixes
    return ending + (suffixes[block] if block < len(suffixes) else f"_{block + 1}")
