"""The game of membership inference: many models, each trained on a random half of a pool of records.

It must be the game that the certificate bounds, so the relation of neighbours decides how members are drawn from the
pool of 2n records. Fix a record i. A test whether i was in is about two laws of the model: given that i is a member,
and given that it is not. The laws on two neighbouring tables are (ε, δ)-close, and so are mixtures of such pairs, since
hockey-stick divergences are jointly convex. It remains to write the two laws as such mixtures:

* "replace_one": a random set S of n records, in a table of n rows. Given i ∈ S, put a random record from outside S in
  the place of i: what results is a random set of n records without i. So the pairs differ in one replaced record. An
  "add_remove" certificate does not bound this game at its ε: replacing takes two steps.
* "add_remove": a fair coin for each record on its own. Given the others' coins, i is there or not: the pairs differ by
  one record. The public n that answers are divided by is the expected number of records. By its words a "replace_one"
  certificate does not bound this game: it says nothing of an absent record.

Members and non-members come from one distribution in both, whatever the pool holds. The order of rows may differ within
a pair; the law of a run does not depend on it, but for truncated samples, which δ pays for.
"""

import dataclasses
import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.base.trees import PyTree
from gossamer.engine.loop import Setup
from gossamer.engine.opening import Lane, set_up
from gossamer.methods.base import Method
from gossamer.objectives.problem import Problem
from gossamer.oracle.clipping import Backend
from gossamer.oracle.door import Oracle, Question
from gossamer.privacy import accounting
from gossamer.privacy.budget import Budget
from gossamer.privacy.planning import Plan, plan

_LANES = 16
_LANE_BYTES = 1 << 28
"""Room for the tables of models that are trained at the same time."""


def plan_game(method: Method, records: int, budget: Budget) -> Plan:
    """Return the plan for n = N/2 records: in a table of n rows, or of all N rows, of which some are absent.

    Absent rows change neither rates nor noise, but samples are drawn from all rows, and need room for that.
    """
    planned = plan(method, records // 2, budget)
    if budget.neighbors == "replace_one":
        return planned
    sizes, lost = accounting.capacities(planned.schedule, records, budget)
    lost = lost if budget.is_private else 0.0
    return dataclasses.replace(planned, n=records, capacities=tuple(sizes.items()), truncation_delta=lost)


def draw_members(key: jax.Array, models: int, records: int, budget: Budget) -> np.ndarray:
    """Return who is in which model, a boolean array (models, records).

    The first half are shadow models, in pairs with opposite members: each record is in exactly half of them. The second
    half are the attacked models, independent of each other and of those.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    if budget.neighbors == "add_remove":
        members = rng.random((models, records)) < 0.5
    else:
        members = rng.permuted(np.tile(np.arange(records) < records // 2, (models, 1)), axis=1)
    members[1 : models // 2 : 2] = ~members[0 : models // 2 : 2]
    return members


def play(
    planned: Plan,
    problem: Problem,
    data: PyTree,
    members: np.ndarray,
    *,
    init: PyTree,
    key: jax.Array,
    backend: Backend,
    oracle: type[Oracle],
) -> PyTree:
    """Train all models; return their outputs, stacked along a new first axis."""
    models, _ = members.shape
    lanes = math.gcd(models, _LANES)
    while lanes > 1 and lanes * sum(leaf.nbytes for leaf in jax.tree.leaves(data)) > _LANE_BYTES:
        lanes //= 2
    runs = members, jax.random.split(key, models)
    return _train(set_up(planned, problem, backend), oracle, lanes, (planned.noise(), init, data), runs)


@functools.partial(jax.jit, static_argnames=("setup", "kind", "lanes"))
def _train(
    setup: Setup,
    kind: type[Oracle],
    lanes: int,
    shared: tuple[dict[str, Any], PyTree, PyTree],
    runs: tuple[jax.Array, jax.Array],
) -> PyTree:
    """Train models, `lanes` at a time: with the same noise, start and pool, and each with its members and key."""
    noise, init, data = shared

    def one(run: tuple[jax.Array, jax.Array]) -> PyTree:
        members, key = run
        lane = Lane(setup, noise, init, key)
        if setup.door.n == members.size:
            oracle: Any = _Doubling(lane.oracle(data, members, kind))
        else:
            rows = jnp.flatnonzero(members, size=setup.door.n)
            oracle = lane.oracle(jax.tree.map(lambda leaf: leaf[rows], data), kind=kind)
        return lane.finish(oracle).choice.params

    return jax.lax.map(one, runs, batch_size=lanes)


class _Doubling:
    """Answers twice what the inner oracle does: a mean over the n records that are expected, not over all 2n rows."""

    def __init__(self, inner: Oracle):
        self.inner, self.door = inner, inner.door

    def answer(self, asked: Question, memory: PyTree) -> tuple[PyTree, PyTree]:
        """Answer and double."""
        answer, memory = self.inner.answer(asked, memory)
        return jax.tree.map(lambda leaf: 2.0 * leaf, answer), memory
