"""The one loop that runs every method, compiled, in pieces of any length.

The loop runs from the carry's step to `stop`, a number that the compiled code is given: one compilation serves
every piece, so that progress, checkpoints and diagnostics may interrupt a run wherever they like. It stops by
itself at an iterate that is not finite, which is public, being computed from private answers.
"""

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from gossamer.base import trees
from gossamer.base.generator import check_key
from gossamer.base.messages import shown
from gossamer.base.trees import PyTree
from gossamer.methods import output
from gossamer.methods.base import Method, Report
from gossamer.objectives.problem import Problem
from gossamer.oracle.ask import Ask, Ledger
from gossamer.oracle.door import Door, Oracle, Secrets

_STEPS = 0x5E9
"""Sets the steps' public randomness apart from the choice of an iterate, which comes from the same stream."""


class Carry(NamedTuple):
    """A run between two steps."""

    t: jax.Array
    state: PyTree
    ledger: Ledger
    choice: output.Choice
    history: dict[str, jax.Array]
    finite: jax.Array
    public: jax.Array
    """The key of what steps draw in public."""


@dataclass(frozen=True)
class Setup:
    """What is fixed about a run; hashable, so that the loop compiles once for it."""

    method: Method
    problem: Problem
    door: Door


class Keys(NamedTuple):
    """Independent streams of a run's randomness."""

    oracle: jax.Array
    order: jax.Array
    output: jax.Array


def split(key: jax.Array) -> Keys:
    """Split a run's key into its streams."""
    check_key("key", key)
    return Keys(*jax.random.split(key, len(Keys._fields)))


def make_secrets(
    door: Door, data: PyTree, noise: dict[str, Any], keys: Keys, present: jax.Array | None = None
) -> Secrets:
    """Give the oracle what it alone may hold."""
    rows = jnp.arange(door.n if door.needs_order else 0, dtype=jnp.int32)
    order = jax.random.permutation(keys.order, rows) if door.needs_order else rows
    return Secrets(data, noise, keys.oracle, order, present)


def make_sharded_secrets(
    door: Door, data: PyTree, noise: dict[str, Any], keys: Keys, mesh: Mesh | None = None
) -> Secrets:
    """Give the oracle what it alone may hold, in shards: each has an order and a padding of its own."""
    shards = door.shards

    def orders(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        def one(shard: jax.Array) -> tuple[jax.Array, jax.Array]:
            size = shards.size(shard)
            present = jnp.arange(shards.rows) < size
            if not door.needs_order:
                return jnp.zeros(0, jnp.int32), present
            own = key if shards.count == 1 else jax.random.fold_in(key, shard)
            order = jax.random.permutation(own, jnp.arange(shards.rows, dtype=jnp.int32))
            return order[jnp.argsort(order >= size, stable=True)], present  # padding comes last

        order, present = jax.vmap(one)(shards.numbers())
        return order.reshape(-1), present.reshape(-1)

    if mesh is None:
        order, present = jax.jit(orders)(keys.order)
    else:
        rows = P(mesh.axis_names)
        order, present = jax.jit(
            jax.shard_map(orders, mesh=mesh, in_specs=P(), out_specs=rows, check_vma=False),
        )(keys.order)
    return Secrets(data, noise, keys.oracle, order, present)


def start(setup: Setup, params: PyTree, key: jax.Array, memory: PyTree = None) -> Carry:
    """Return a run before its first step."""
    method = setup.method
    state = method.init(setup.problem, params)
    carry = Carry(
        t=jnp.int32(0),
        state=state,
        ledger=Ledger.empty(setup.door.schedule, memory),
        choice=output.first_choice(params, method.steps, key),
        history={
            name: jnp.full(method.steps, jnp.nan, jnp.float32) for name in ("gradient_norm", *method.public(state))
        },
        finite=jnp.bool_(True),
        public=jax.random.fold_in(key, _STEPS),
    )
    # No weak types, which no file keeps: a saved run must have the types of a new one.
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, leaf.dtype), carry)


def advance_by(setup: Setup, oracle: Oracle, carry: Carry, stop: jax.Array) -> Carry:
    """Run until step `stop`, or until the iterate is not finite."""
    method, problem = setup.method, setup.problem

    def unfinished(carry: Carry) -> jax.Array:
        return (carry.t < stop) & carry.finite

    def body(carry: Carry) -> Carry:
        ask = Ask(oracle, carry.ledger, jax.random.fold_in(carry.public, carry.t))
        state, report = _checked(method, method.step(problem, ask, carry.state, carry.t))
        after = method.params(state)
        row = {"gradient_norm": report.gradient_norm, **method.public(state)}
        return Carry(
            t=carry.t + 1,
            state=state,
            ledger=ask.ledger,
            choice=output.choose(
                method.output, carry.choice, carry.t, at=report.at, gradient_norm=report.gradient_norm, after=after
            ),
            history={name: carry.history[name].at[carry.t].set(value) for name, value in row.items()},
            finite=trees.all_finite(after),
            public=carry.public,
        )

    return jax.lax.while_loop(unfinished, body, carry)


def _checked(method: Method, stepped: Any) -> tuple[PyTree, Report]:
    """Return what a step returned, or refuse what is no state with its report."""
    if isinstance(stepped, tuple) and len(stepped) == 2 and isinstance(stepped[1], Report):
        return stepped
    raise TypeError(
        f"{type(method).__name__}.step(...) returned {shown(stepped)}; it must return the pair (state, Report(at, "
        "gradient_norm)) of gossamer.methods.base."
    )


@functools.partial(jax.jit, static_argnames=("setup", "mesh"))
def advance(setup: Setup, secrets: Secrets, carry: Carry, stop: jax.Array, mesh: Mesh | None = None) -> Carry:
    """Run until step `stop`, compiled once for each setup and shapes.

    On a mesh every device runs the whole loop: it clips and sums its own rows, and does all else like the others.
    """

    def run(secrets: Secrets, carry: Carry, stop: jax.Array) -> Carry:
        return advance_by(setup, Oracle(setup.door, secrets), carry, stop)

    if mesh is None:
        return run(secrets, carry, stop)
    rows = P(mesh.axis_names)
    places: dict[str, Any] = {"data": rows, "noise": P(), "key": P(), "order": rows, "present": rows}
    # All devices compute the same carry from the same answers, which JAX cannot see.
    sharded = jax.shard_map(run, mesh=mesh, in_specs=(Secrets(**places), P(), P()), out_specs=P(), check_vma=False)
    return sharded(secrets, carry, stop)
