"""What runs look like on the way: iterates at chosen steps, for several budgets and seeds at once. Not private."""

import functools
import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp

from gossamer.base.entropy import new_key
from gossamer.base.trees import PyTree
from gossamer.engine import loop
from gossamer.engine.loop import Carry, Setup
from gossamer.engine.opening import Lane, open_run, set_up
from gossamer.methods.base import Method
from gossamer.objectives.problem import Problem
from gossamer.privacy.budget import Budget
from gossamer.privacy.planning import plan


def iterates(
    problem: Problem,
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
    n = jax.tree.leaves(data)[0].shape[0]
    plans = [plan(method.sized(init), n, budget) for budget in budgets]
    # Samples need room for every budget's.
    roomiest = max(plans, key=lambda p: sum(size for _, size in p.capacities))
    setup = set_up(roomiest, problem)
    cases = [(planned.noise(), seed) for planned in plans for seed in seeds]
    noise = jax.tree.map(lambda *values: jnp.stack([jnp.asarray(v) for v in values]), *[n for n, _ in cases])
    keys = jnp.stack([new_key(seed) for _, seed in cases])
    carry = jax.vmap(lambda noise, key: Lane(setup, noise, init, key).start())(noise, keys)
    found = []
    for stop in looks:
        carry = _advance(setup, (data, init), (noise, keys, carry), jnp.int32(stop))
        found.append(jax.vmap(method.params)(carry.state))
    return found


def seconds(
    problem: Problem, data: PyTree, method: Method, budget: Budget, *, init: PyTree, first: int, last: int
) -> float:
    """Return the time that steps `first` + 1 to `last` of one run take after compilation."""
    planned = plan(method.sized(init), jax.tree.leaves(data)[0].shape[0], budget)
    run = open_run(planned, problem, data, init=init, key=new_key(0))
    carry = run.advance(run.start, first)
    begun = time.perf_counter()
    run.advance(carry, last)
    return time.perf_counter() - begun


@functools.partial(jax.jit, static_argnames=("setup",))
def _advance(
    setup: Setup, shared: tuple[PyTree, PyTree], runs: tuple[PyTree, jax.Array, Carry], stop: jax.Array
) -> Carry:
    """Advance runs on the same table from the same start, each with its noise, key and carry."""
    data, init = shared

    def one(noise: PyTree, key: jax.Array, carry: Carry) -> Carry:
        return loop.advance_by(setup, Lane(setup, noise, init, key).oracle(data), carry, stop)

    return jax.vmap(one)(*runs)
