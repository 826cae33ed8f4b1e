"""Many seeds of one configuration in one compiled, vectorised run, or one run step by step: not for releases."""

import functools
from collections.abc import Iterable, Iterator

import jax
import jax.numpy as jnp

from gossamer.base.entropy import new_key
from gossamer.base.trees import PyTree
from gossamer.engine.loop import Setup
from gossamer.engine.opening import Lane, open_run, set_up
from gossamer.methods.base import Method
from gossamer.objectives.problem import Problem
from gossamer.privacy.budget import Budget
from gossamer.privacy.planning import plan


def sweep(
    problem: Problem,
    data: PyTree,
    method: Method,
    budget: Budget,
    *,
    init: PyTree,
    seed: int,
    runs: int,
    batch: int = 64,
) -> PyTree:
    """Return the private outputs of `runs` independent runs, stacked along a new first axis.

    Each equals in law what `gs.solve` returns. Runs are vectorised `batch` at a time.
    """
    data = jax.tree.map(jnp.asarray, data)
    planned = plan(method.sized(init), jax.tree.leaves(data)[0].shape[0], budget)
    keys = jax.random.split(new_key(seed), runs)
    return _outputs(set_up(planned, problem), min(batch, runs), (planned.noise(), init, data), keys)


def iterates(
    problem: Problem, data: PyTree, method: Method, budget: Budget, init: PyTree, key: jax.Array, stops: Iterable[int]
) -> Iterator[PyTree]:
    """Yield the private iterate after each of these numbers of steps of one run.

    It is what a method with a period wants: vectorised runs compute both branches of a step, refresh and difference.
    """
    planned = plan(method.sized(init), jax.tree.leaves(data)[0].shape[0], budget)
    run = open_run(planned, problem, data, init=init, key=key)
    carry = run.start
    for stop in stops:
        carry = run.advance(carry, stop)
        yield method.params(carry.state)


@functools.partial(jax.jit, static_argnames=("setup", "batch"))
def _outputs(setup: Setup, batch: int, shared: tuple[PyTree, PyTree, PyTree], keys: jax.Array) -> PyTree:
    noise, init, data = shared

    def one(key: jax.Array) -> PyTree:
        lane = Lane(setup, noise, init, key)
        return lane.finish(lane.oracle(data)).choice.params

    return jax.lax.map(one, keys, batch_size=batch)
