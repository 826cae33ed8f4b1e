"""`gs.solve`: from a problem, a table and a budget to a model and its certificate."""

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gossamer import loop, methods, trees
from gossamer.budget import Budget
from gossamer.certificate import certify
from gossamer.diagnostics import Diagnostics
from gossamer.entropy import new_key
from gossamer.exceptions import DivergedError, OverspentError
from gossamer.methods.base import Method
from gossamer.oracle.clipping import Backend
from gossamer.oracle.door import Door
from gossamer.oracle.records import check_records
from gossamer.planning import Plan, plan
from gossamer.progress import Progress
from gossamer.result import Result
from gossamer.schedule import Schedule

PyTree = Any
_PIECE_SECONDS = 0.3


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
      init: where to start, chosen without looking at the data: any pytree of arrays; for `gs.Minimax` a pair (x0, y0).
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
    problem.check(params, jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), data))
    planned = plan(method, n, budget)
    door = make_door(planned, backend, microbatch)
    keys = loop.split(new_key(seed))
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
    method.check_problem(problem)


def split_params(problem: Any, init: PyTree) -> tuple[PyTree, Any, Callable[[PyTree], PyTree]]:
    """Separate what is trained from what is not: float arrays, and Python floats outside Equinox modules.

    Returns the trained part, the problem over it, and the way back to the user's pytree.
    """
    problem.blocks(init)  # refuses what the problem cannot start from
    init = jax.tree.map(lambda x: jnp.asarray(x) if isinstance(x, np.ndarray | np.generic) else x, init)
    params, constants = eqx.partition(init, jax.tree.map(_is_trained, init, is_leaf=_is_module))
    params = jax.tree.map(jnp.asarray, params)
    if not jax.tree.leaves(params):
        raise ValueError("init has no float arrays, so there is nothing to train. Integer arrays are never trained.")
    if not bool(trees.all_finite(params)):
        raise ValueError("init has NaN or infinite entries. Start from finite numbers.")
    leaves = jax.tree.leaves(constants)
    if not leaves:
        return params, problem, lambda trained: trained
    if any(eqx.is_array(leaf) for leaf in leaves):
        raise ValueError(
            "init has integer or boolean arrays, which are not trained. Close over them in the loss instead."
        )
    return params, problem.bind(constants), lambda trained: eqx.combine(trained, constants)


def _is_module(node: Any) -> bool:
    return isinstance(node, eqx.Module)


def _is_trained(node: Any) -> Callable[[Any], bool]:
    return eqx.is_inexact_array if _is_module(node) else eqx.is_inexact_array_like


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
