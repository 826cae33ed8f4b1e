"""`gs.solve`: from a problem, a table and a budget to a model and its certificate."""

import dataclasses
import secrets as os_entropy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gossamer import loop, methods, trees
from gossamer.budget import Budget
from gossamer.certificate import Certificate, certify
from gossamer.diagnostics import Diagnostics
from gossamer.exceptions import DivergedError, OverspentError
from gossamer.methods.base import Method
from gossamer.oracle.clipping import Backend
from gossamer.oracle.door import Door
from gossamer.oracle.records import check_records
from gossamer.planning import Plan, plan
from gossamer.progress import Progress
from gossamer.schedule import Schedule

PyTree = Any
_PIECE_SECONDS = 0.3


@dataclass(frozen=True)
class Result:
    """What a run returns."""

    params: PyTree
    """The private output."""
    certificate: Certificate
    history: dict[str, np.ndarray]
    """Public values, one per step."""
    diagnostics: dict[str, np.ndarray] = field(default_factory=dict)
    """Non-private values, if they were asked for."""


def solve(
    problem: Any,
    data: PyTree,
    method: Method,
    budget: Budget,
    *,
    init: PyTree,
    seed: int | None = None,
    progress: bool = True,
    diagnostics: bool = False,
    backend: Backend = "auto",
    microbatch: int | None = None,
) -> Result:
    """Solve a problem on a table of records within a privacy budget.

    Args:
      problem: what to minimise, such as `gs.ERM(loss)`.
      data: the table: any pytree of arrays with one row per record.
      method: a configuration such as `gs.methods.SGD(steps=500)`.
      budget: what may be spent; all of what is scheduled counts as spent once the run begins.
      init: where to start: any pytree of arrays, chosen without looking at the data.
      seed: None takes entropy from the operating system. A number is for tests: the noise is then reproducible.
      progress: whether to show a progress bar on a terminal; it shows public values only.
      diagnostics: whether to compute NON-PRIVATE values along the way (true objective, gradient norm, share of
        clipped records); the certificate then says that they were looked at.
      backend: how per-record gradients are clipped: "auto", "linear", "ghost" or "vmap".
      microbatch: how many records' gradients are in memory at a time.

    Example:
      >>> import gossamer as gs, jax.numpy as jnp
      >>> data = (jnp.ones((100, 3)), jnp.ones(100))
      >>> result = gs.solve(
      ...     gs.ERM(gs.objectives.logistic), data, gs.methods.GD(steps=5), gs.Budget(1.0, 1e-5),
      ...     init={"weights": jnp.zeros(3), "intercept": jnp.zeros(())},
      ... )
      >>> result.certificate.epsilon
      1.0
    """
    _check_match(problem, method, budget)
    params, problem, rebuild = split_params(problem, init)
    data, n = check_records(data)
    _check_loss(problem, params, data)
    planned = plan(method, n, budget)
    door = make_door(planned, backend, microbatch)
    keys = loop.split(_key(seed))
    secrets = loop.make_secrets(door, data, planned.noise(), keys)
    watch = Diagnostics(problem, data, method) if diagnostics else None
    carry = loop.start(method, problem, params, door, keys.output)
    with Progress(type(method).__name__, method.steps, shown=progress) as bar:
        for stop in _stops(method.steps, bar, watch):
            carry = loop.advance(method, problem, door, secrets, carry, jnp.int32(stop))
            done = int(carry.t)
            _check_run(carry, planned)
            bar.update(done, gradient_norm=float(carry.history["gradient_norm"][done - 1]))
            if watch:
                watch.look(done, method.params(carry.state))
    return Result(
        params=rebuild(carry.choice.params),
        certificate=certify(planned, problem, seed, diagnostics),
        history={name: np.asarray(values) for name, values in carry.history.items()},
        diagnostics=watch.table() if watch else {},
    )


def make_door(planned: Plan, backend: Backend = "auto", microbatch: int | None = None) -> Door:
    """Return the door of a plan. Its schedule has no noise: that is given to the compiled loop as numbers."""
    if microbatch is not None and microbatch < 1:
        raise ValueError(f"microbatch = {microbatch!r} must be at least 1, or None to choose it by memory.")
    bare = Schedule(tuple(dataclasses.replace(query, noise_multiplier=None) for query in planned.schedule))
    return Door(planned.n, bare, planned.capacities, backend, microbatch)


def _check_match(problem: Any, method: Any, budget: Any) -> None:
    if not isinstance(method, Method):
        raise TypeError(f"method = {method!r} must be an instance of a class in gs.methods, such as gs.methods.GD().")
    if not isinstance(budget, Budget):
        raise TypeError(f"budget = {budget!r} must be a gs.Budget(epsilon, delta).")
    kind = type(problem).__name__
    if kind not in method.problems:
        able = [m.__name__ for m in methods.ALL if kind in m.problems]
        raise TypeError(
            f"{type(method).__name__} cannot solve a problem of type {kind}. "
            + (f"These can: {', '.join(able)}." if able else f"It solves {', '.join(method.problems)}.")
        )


@dataclass(frozen=True)
class _WithConstants:
    """A loss whose parameters are put together with the constant leaves of the user's pytree."""

    loss: Callable
    constants: tuple[Any, ...]
    structure: Any

    def __call__(self, params: PyTree, record: PyTree) -> jax.Array:
        constants = jax.tree.unflatten(self.structure, self.constants)
        return self.loss(eqx.combine(params, constants), record)


def split_params(problem: Any, init: PyTree) -> tuple[PyTree, Any, Callable[[PyTree], PyTree]]:
    """Separate what is trained from what is not: float arrays, and Python floats outside Equinox modules.

    Returns the trained part, the problem over it, and the way back to the user's pytree.
    """
    modules = any(isinstance(x, eqx.Module) for x in jax.tree.leaves(init, is_leaf=lambda x: isinstance(x, eqx.Module)))
    init = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray | np.generic) else x, init)
    trained = eqx.is_inexact_array if modules else eqx.is_inexact_array_like
    params, constants = eqx.partition(init, trained)
    params = jax.tree.map(jnp.asarray, params)
    if not jax.tree.leaves(params):
        raise ValueError("init has no float arrays, so there is nothing to train. Integer arrays are never trained.")
    if not bool(trees.all_finite(params)):
        raise ValueError("init has NaN or infinite entries. Start from finite numbers.")
    leaves, structure = jax.tree.flatten(constants)
    if not leaves:
        return params, problem, lambda trained: trained
    if any(eqx.is_array(leaf) for leaf in leaves):
        raise ValueError(
            "init has integer or boolean arrays, which are not trained. Close over them in the loss instead."
        )
    bound = dataclasses.replace(problem, loss=_WithConstants(problem.loss, tuple(leaves), structure))
    return params, bound, lambda trained: eqx.combine(trained, constants)


def _check_loss(problem: Any, params: PyTree, data: PyTree) -> None:
    record = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), data)
    value = jax.eval_shape(problem.loss, params, record)
    if not (hasattr(value, "shape") and value.shape == () and jnp.issubdtype(value.dtype, jnp.floating)):
        raise ValueError(
            f"loss(params, record) returned {value} for one record; it must return one float. A loss written for a "
            "batch, or one without a mean over its outputs, looks like this."
        )


def _key(seed: int | None) -> jax.Array:
    if seed is not None:
        return jax.random.key(seed)
    words = np.frombuffer(os_entropy.token_bytes(8), np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")


def _stops(steps: int, bar: Progress, watch: Diagnostics | None) -> Iterator[int]:
    """Yield where to pause: at the looks of diagnostics, else after about a third of a second, else never."""
    if watch:
        for stop in np.unique(np.ceil(np.linspace(0, steps, 21)[1:]).astype(int)):
            yield int(stop)
        return
    piece, done = (1 if bar.shown else steps), 0
    while done < steps:
        begun = time.monotonic()
        done = min(steps, done + piece)
        yield done
        elapsed = max(time.monotonic() - begun, 1e-4)
        piece = max(1, min(10 * piece, int(piece * _PIECE_SECONDS / elapsed)))


def _check_run(carry: loop.Carry, planned: Plan) -> None:
    asked = {name: int(count) for name, count in carry.ledger.counts.items()}
    for query in planned.schedule:
        if asked[query.name] > query.count:
            raise OverspentError(
                f"{type(planned.method).__name__} asked {query.name!r} {asked[query.name]} times but scheduled "
                f"{query.count}. The extra answers were withheld; correct the method's schedule."
            )
    if not bool(carry.finite):
        raise DivergedError(
            f"the iterate was not finite after step {int(carry.t)} of {planned.method.steps}. The scheduled privacy "
            "is spent. Use a smaller learning_rate, or a smaller clip, or more noise-tolerant settings "
            "(gs.plan shows the noise before data is touched)."
        )
