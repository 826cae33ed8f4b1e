"""`gs.solve`: from a problem, a table and a budget to a model and its certificate."""

import dataclasses
import json
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from gossamer import methods
from gossamer.base import processes, trees
from gossamer.base.entropy import new_key
from gossamer.base.exceptions import DivergedError, OverspentError
from gossamer.base.trees import PyTree
from gossamer.engine import loop
from gossamer.engine.checkpoints import Checkpoints, digest, digest_records
from gossamer.engine.diagnostics import Diagnostics
from gossamer.engine.opening import Run, open_run
from gossamer.engine.paying import pay
from gossamer.engine.progress import Progress
from gossamer.methods.base import Method
from gossamer.methods.result import Result
from gossamer.objectives.problem import Problem
from gossamer.oracle import locality
from gossamer.oracle.clipping import Backend
from gossamer.oracle.people import People, dense
from gossamer.oracle.records import Records, place
from gossamer.oracle.stored import is_stored
from gossamer.privacy.budget import Budget, check_budget
from gossamer.privacy.budget_file import BudgetFile
from gossamer.privacy.certificate import Certificate, certify
from gossamer.privacy.planning import Plan, not_a_method, plan

_PIECE_SECONDS = 0.3
_CALLBACK = re.compile(r"index = \d+ : ui64")
"""How a program names the Python functions that it calls back: by numbers that differ from one process to another."""


def solve(
    problem: Problem,
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
    checkpoints: Checkpoints | None = None,
    mesh: Mesh | None = None,
    shards: int | None = None,
    ledger: BudgetFile | None = None,
) -> Result:
    """Solve a problem on a table of records within a privacy budget.

    Args:
      problem: what to minimise, such as `gs.ERM(loss)`.
      data: the table: any pytree of arrays with one row per record, or the persons that `gs.by_person` makes of it.
        Arrays mapped from files (`numpy.memmap`) stay on disk: only the rows of a sample are read, and full passes
        read them in chunks.
      method: a configuration such as `gs.methods.SGD(steps=500)`.
      budget: what may be spent; all of what is scheduled counts as spent once the run begins.
      init: where to start, chosen without looking at the data: any pytree of arrays; for `gs.Minimax` a pair (x0, y0).
      seed: None takes entropy from the operating system. A number is for tests: the noise is then reproducible.
      progress: whether to show a progress bar on a terminal; it shows public values only.
      diagnostics: whether to compute NON-PRIVATE values along the way (true objective, gradient norm, share of
        clipped records); the certificate then says that they were looked at.
      backend: how per-record gradients are clipped: "auto", "linear", "ghost" or "vmap".
      microbatch: how many records' gradients are in memory at a time.
      checkpoints: `gs.Checkpoints(folder)` saves the run as it goes, so that it survives being killed.
      mesh: spreads the records by rows over these devices, `jax.sharding.Mesh(jax.devices(), ("records",))`. With many
        processes, each passes its own rows: `data[gs.local_rows(n, mesh)]`.
      shards: into how many parts the table is cut, each sampled by itself. With the same seed and the same shards a run
        has the same bits on any number of devices that divides them. Without a mesh the default is 1, which is fastest
        on one device; on 1, 2, 4 or 8 devices it is 8, and on others as many as there are.
      ledger: `gs.BudgetFile(path)` pays for the run before its first query, and refuses it if too little is left.

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
    check_match(problem, method, budget)
    _check_options(diagnostics, data, mesh, checkpoints)
    ready = make_ready(problem, data, method, init, mesh, shards=shards)
    planned = plan(ready.method, ready.records.n, budget)
    noted = data if seed is None else None
    pay(ledger, planned, type(method).__name__, checkpoints, ready.records.unit.scope, records=noted)
    return run_ready(
        ready,
        planned,
        new_key(seed),
        seed=seed,
        progress=progress,
        diagnostics=diagnostics,
        backend=backend,
        microbatch=microbatch,
        checkpoints=checkpoints,
    )


class Ready(NamedTuple):
    """What is to be solved, checked, with the records in their place."""

    problem: Problem
    data: PyTree
    records: Records
    method: Method
    params: PyTree
    """What is trained, where it starts."""
    rebuild: Callable[[PyTree], PyTree]
    """The way back from it to the user's pytree."""
    mesh: Mesh | None

    @property
    def trusted(self) -> tuple[str, ...]:
        """The reasons for which parts of the loss are not checked."""
        return locality.reasons(self.problem.record_loss, self.params, self.records.record)


def make_ready(
    problem: Problem,
    data: PyTree,
    method: Method,
    init: PyTree,
    mesh: Mesh | None = None,
    shards: int | None = None,
) -> Ready:
    """Check what is to be solved, and put the records in their place. Nothing is asked of them."""
    params, problem, rebuild = split_params(problem, init)
    records = place(data, mesh, shards)
    if isinstance(data, People):
        problem.check(params, data.row())  # which its loss was written for
        problem = problem.by_person(data)
    problem.check(params, records.record)
    return Ready(
        problem=problem,
        data=data,
        records=records,
        method=method.sized(params),
        params=params,
        rebuild=rebuild,
        mesh=mesh,
    )


def run_ready(
    ready: Ready,
    planned: Plan,
    key: jax.Array,
    *,
    seed: int | None,
    progress: bool = False,
    diagnostics: bool = False,
    backend: Backend = "auto",
    microbatch: int | None = None,
    checkpoints: Checkpoints | None = None,
) -> Result:
    """Run what is ready by its plan, with this key; a run that was saved goes on with the key that it was begun with.

    The certificate is that of the plan; it says whether the key came from a seed. `gs.solve` says what the other
    arguments are.
    """
    problem, method, mesh = ready.problem, ready.method, ready.mesh
    certificate = certify(planned, problem, seed, diagnostics, ready.trusted, unit=ready.records.unit)
    if checkpoints:
        _check_resumable(problem, ready.params, ready.records.record)
    run = open_run(
        planned,
        problem,
        ready.records,
        init=ready.params,
        key=key,
        backend=backend,
        microbatch=microbatch,
        mesh=mesh,
    )
    begun = processes.from_first((run.keys, run.start))
    run = dataclasses.replace(run, keys=begun[0])
    if checkpoints:
        identity = _identity(run, certificate, ready.data)
        begun = processes.from_first(
            processes.all_agree(lambda: checkpoints.begin(identity, begun) if processes.is_first() else begun)
        )
        run = dataclasses.replace(run, keys=begun[0])
    keys, carry = begun
    watch = Diagnostics(problem, dense(ready.records.data), method) if diagnostics else None
    with (
        processes.watched("Start the run again" + (" with resume=True (--resume)." if checkpoints else ".")),
        Progress(type(method).__name__, method.steps, shown=progress and processes.is_first()) as bar,
    ):
        for stop in _stops(int(carry.t), method.steps, bar, watch, checkpoints):
            carry = run.advance(carry, stop)
            done = int(carry.t)
            _check_run(carry, planned)
            if ready.records.store is not None:
                processes.all_agree(ready.records.store.check)
            bar.update(done, gradient_norm=float(carry.history["gradient_norm"][done - 1]))
            if watch:
                watch.look(done, carry.state)
            if checkpoints and processes.is_first() and checkpoints.due(done, method.steps):
                checkpoints.save(identity, (keys, carry))
    return Result(
        params=ready.rebuild(carry.choice.params),
        certificate=certificate,
        history={name: np.asarray(values) for name, values in carry.history.items()},
        diagnostics=watch.table() if watch else {},
    )


def _check_resumable(problem: Problem, params: PyTree, record: PyTree) -> None:
    """Refuse to save a run of Python code that has no name: other code could go on with the same noise.

    Two answers about the same records under the same noise differ by what is not private at all.
    """
    if locality.calls_back(problem.record_loss, params, record) and not getattr(problem, "version", None):
        raise ValueError(
            "this loss calls Python, and checkpoints cannot tell whether a continued run would call the same code. "
            "Name what it does, gs.BlackBox(value, python=True, version='...'), and change the name with the code; "
            "or run without checkpoints."
        )


def _identity(run: Run, certificate: Certificate, data: PyTree) -> dict[str, str]:
    """Return what a saved run must agree with to be continued: what it promised, how it was to run, and on what."""
    promise = json.loads(certificate.to_json())
    return {
        "version of Gossamer or JAX": json.dumps(promise.pop("versions")),
        "configuration": json.dumps(promise),
        "program": digest(_CALLBACK.sub("", run.program_alone())),
        "table of records": digest(*map(str, processes.of_all(int(digest_records(data), 16) % 2**61))),
    }


def _check_options(diagnostics: bool, data: PyTree, mesh: Mesh | None, checkpoints: Checkpoints | None) -> None:
    for name, given in {"checkpoints": checkpoints, "a mesh": mesh, "a table on disk": is_stored(data)}.items():
        if diagnostics and given:
            raise ValueError(
                f"diagnostics=True does not go with {name}: it looks at all records on one device, and is not saved. "
                "Leave it out, or look at a sample of the records."
            )


def check_match(problem: Problem, method: Any, budget: Any) -> None:
    """Refuse what does not go together, naming what would."""
    if not isinstance(method, Method):
        raise not_a_method(method)
    check_budget(budget)
    if not isinstance(problem, method.problems):
        able = [m.__name__ for m in methods.ALL if isinstance(problem, m.problems)]
        solved = ", ".join(kind.__name__ for kind in method.problems)
        raise TypeError(
            f"{type(method).__name__} cannot solve a problem of type {type(problem).__name__}. "
            + (f"These can: {', '.join(able)}." if able else f"It solves {solved}.")
        )
    method.check_problem(problem)


def split_params(problem: Problem, init: PyTree) -> tuple[PyTree, Problem, Callable[[PyTree], PyTree]]:
    """Separate what is trained from what is not: float arrays, and Python floats outside Equinox modules.

    Returns the trained part, the problem over it, and the way back to the user's pytree.
    """
    problem.blocks(init)  # refuses what the problem cannot start from
    for path, leaf in jax.tree_util.tree_leaves_with_path(init, is_leaf=_is_module):
        if type(leaf) is int:
            raise ValueError(
                f"init{jax.tree_util.keystr(path)} = {leaf} is an integer, which is not trained. Write {leaf}.0, or "
                "close over it in the loss."
            )
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


def _stops(
    done: int, steps: int, bar: Progress, watch: Diagnostics | None, checkpoints: Checkpoints | None
) -> Iterator[int]:
    """Yield where to pause: where diagnostics look, or checkpoints are due, or the bar moves, else never."""
    if watch:
        for stop in np.unique(np.ceil(np.linspace(0, steps, 21)[1:]).astype(int)):
            yield int(stop)
        return
    paced = bar.shown and not processes.many()  # many must pause at the same steps, whatever their clocks say
    piece = max(1, steps // 100) if processes.many() else 1 if paced else steps
    while done < steps:
        begun, before = time.monotonic(), done
        done = min(steps, done + piece, checkpoints.next_due(done) if checkpoints else steps)
        yield done
        if paced:
            per_second = (done - before) / max(time.monotonic() - begun, 1e-4)
            piece = max(1, min(10 * piece, int(per_second * _PIECE_SECONDS)))


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
            "(gs.plan shows the noise before data is touched). If this loss diverges with backend='ghost' and not with "
            "backend='vmap', report it: an answer is withheld when a record was seen to pass its threshold. It is also "
            "withheld where a run would draw more noise than its arithmetic is charged for: millions of thresholds, or "
            "a trillion numbers."
        )
