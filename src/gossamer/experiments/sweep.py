"""Many seeds of one configuration in one compiled, vectorised run: for experiments, not for releases."""

import functools
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
