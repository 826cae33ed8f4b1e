"""What runs look like on the way: iterates at chosen steps, for several budgets and seeds at once. Not private."""

import functools
import time
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from gossamer import loop
from gossamer.budget import Budget
from gossamer.methods.base import Method
from gossamer.oracle.door import Door, Oracle
from gossamer.planning import plan
from gossamer.solving import make_door

PyTree = Any


def iterates(
    problem: Any,
    data: PyTree,
    method: Method,
    budgets: Sequence[Budget],
    *,
    init: PyTree,
    seeds: Sequence[int],
    looks: Sequence[int],
) -> list[PyTree]:
    """Return the iterates after each of the steps `looks`, stacked over budgets × seeds.

    All runs are vectorised: a full pass reads the table once for all of them.
    """
    door, noise = _common_door(data, method, budgets)
    cases = [(noise[i], seed) for i in range(len(budgets)) for seed in seeds]
    stacked = jax.tree.map(lambda *values: jnp.stack([jnp.asarray(v) for v in values]), *[n for n, _ in cases])
    keys = jnp.stack([jax.random.key(seed) for _, seed in cases])
    carry = jax.vmap(lambda key: loop.start(method, problem, init, door, loop.split(key).output))(keys)
    found = []
    for stop in looks:
        carry = _advance(method, problem, door, data, stacked, keys, carry, jnp.int32(stop))
        found.append(jax.vmap(method.params)(carry.state))
    return found


def seconds(
    problem: Any, data: PyTree, method: Method, budget: Budget, *, init: PyTree, first: int, last: int
) -> float:
    """Return the time that steps `first` + 1 to `last` of one run take after compilation."""
    door, (noise,) = _common_door(data, method, [budget])
    keys = loop.split(jax.random.key(0))
    secrets = loop.make_secrets(door, data, noise, keys)
    carry = loop.start(method, problem, init, door, keys.output)
    carry = jax.block_until_ready(loop.advance(method, problem, door, secrets, carry, jnp.int32(first)))
    begun = time.perf_counter()
    jax.block_until_ready(loop.advance(method, problem, door, secrets, carry, jnp.int32(last)))
    return time.perf_counter() - begun


def _common_door(data: PyTree, method: Method, budgets: Sequence[Budget]) -> tuple[Door, list[dict[str, Any]]]:
    """Return a door whose samples have room for every budget's, and the noise of each."""
    n = jax.tree.leaves(data)[0].shape[0]
    plans = [plan(method, n, budget) for budget in budgets]
    roomiest = max(plans, key=lambda p: sum(size for _, size in p.capacities))
    return make_door(roomiest), [p.noise() for p in plans]


@functools.partial(jax.jit, static_argnames=("method", "problem", "door"))
def _advance(
    method: Method, problem: Any, door: Door, data: PyTree, noise: PyTree, keys: jax.Array, carry: Any, stop: jax.Array
) -> Any:
    def one(noise: PyTree, key: jax.Array, carry: loop.Carry) -> loop.Carry:
        secrets = loop.make_secrets(door, data, noise, loop.split(key))
        return loop.advance_by(method, problem, Oracle(door, secrets), carry, stop)

    return jax.vmap(one)(noise, keys, carry)
