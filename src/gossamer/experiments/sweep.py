"""Many seeds of one configuration in one compiled, vectorised run, or one run step by step: not for releases."""

import functools
from collections.abc import Iterable, Iterator
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


def sweep(
    problem: Any, data: PyTree, method: Method, budget: Budget, *, init: PyTree, seed: int, runs: int, batch: int = 64
) -> PyTree:
    """Return the private outputs of `runs` independent runs, stacked along a new first axis.

    Each equals in law what `gs.solve` returns. Runs are vectorised `batch` at a time.
    """
    data = jax.tree.map(jnp.asarray, data)
    planned = plan(method, jax.tree.leaves(data)[0].shape[0], budget)
    keys = jax.random.split(jax.random.key(seed), runs)
    return _outputs(method, problem, make_door(planned), min(batch, runs), planned.noise(), data, init, keys)


def iterates(
    problem: Any, data: PyTree, method: Method, budget: Budget, init: PyTree, key: jax.Array, stops: Iterable[int]
) -> Iterator[PyTree]:
    """Yield the private iterate after each of these numbers of steps of one run.

    It is what a method with a period wants: vectorised runs compute both branches of a step, refresh and difference.
    """
    data = jax.tree.map(jnp.asarray, data)
    planned = plan(method, jax.tree.leaves(data)[0].shape[0], budget)
    door, keys = make_door(planned), loop.split(key)
    secrets = loop.make_secrets(door, data, planned.noise(), keys)
    carry = loop.start(method, problem, init, door, keys.output)
    for stop in stops:
        carry = loop.advance(method, problem, door, secrets, carry, jnp.int32(stop))
        yield method.params(carry.state)


@functools.partial(jax.jit, static_argnames=("method", "problem", "door", "batch"))
def _outputs(
    method: Method, problem: Any, door: Door, batch: int, noise: PyTree, data: PyTree, init: PyTree, keys: jax.Array
) -> PyTree:
    def one(key: jax.Array) -> PyTree:
        streams = loop.split(key)
        secrets = loop.make_secrets(door, data, noise, streams)
        carry = loop.start(method, problem, init, door, streams.output)
        return loop.advance_by(method, problem, Oracle(door, secrets), carry, jnp.int32(method.steps)).choice.params

    return jax.lax.map(one, keys, batch_size=batch)
