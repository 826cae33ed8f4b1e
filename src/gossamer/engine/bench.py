"""What privacy costs in time on this machine, on random rows: `gossamer bench`.

Private steps are those of the loop that `gs.solve` compiles. Beside each runs the same loop without privacy, in plain
JAX: uniform batches, the gradient of their mean loss, no clipping and no noise. Competitors take turns in every round
and the ratio is the median of the rounds' ratios, so that whatever else the machine does falls on both alike.
"""

import math
import os
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossamer import methods
from gossamer.base.entropy import new_key
from gossamer.base.trees import PyTree
from gossamer.engine.opening import open_run
from gossamer.methods.base import Method
from gossamer.models import CrossEntropy, init_mlp
from gossamer.objectives import ERM, logistic
from gossamer.objectives.problem import Problem
from gossamer.oracle import sampling
from gossamer.privacy import accounting
from gossamer.privacy.budget import Budget
from gossamer.privacy.planning import plan

Run = Callable[[], Any]
ROWS, COLUMNS, HIDDEN, BATCH = 50_000, 50, (64, 32), 256
_STEPS = {"linear": 2000, "network": 200}
_BUDGET = Budget(1.0, 1e-6)
_CALIBRATED = {"100 full passes": methods.GD(steps=100), f"1000 samples of {BATCH}": methods.SGD(batch_size=BATCH)}


class Comparison(NamedTuple):
    """Seconds of a private step and of a plain one, and their ratio; medians of rounds."""

    model: str
    private: float
    plain: float
    ratio: float


class Measured(NamedTuple):
    """All that `gossamer bench` measures, in seconds."""

    machine: dict[str, Any]
    steps: list[Comparison]
    draw: float
    """One Poisson sample, a part of the linear model's private step."""
    calibration: dict[str, float]
    """Finding the noise of a schedule, once a run."""


def measure(quick: bool = False) -> Measured:
    """Measure; `quick` leaves out what takes long to compile or to calibrate, and makes fewer steps."""
    table = random_table(ROWS, COLUMNS)
    models: dict[str, tuple[Any, PyTree]] = {
        "linear": (logistic, {"weights": jnp.zeros(COLUMNS), "intercept": jnp.zeros(())})
    }
    if not quick:
        models["network"] = CrossEntropy(), init_mlp(jax.random.key(0), COLUMNS, HIDDEN)
    counts = {name: steps // 10 if quick else steps for name, steps in _STEPS.items()}
    runs: dict[str, Run] = {"draw": draws(ROWS, counts["linear"])}
    for name, (loss, init) in models.items():
        method = methods.SGD(steps=counts[name], batch_size=BATCH)
        runs[f"{name} private"] = private_run(ERM(loss), table, method, init)
        runs[f"{name} plain"] = plain_run(loss, table, method, init)
    seconds = in_turns(runs, rounds=3 if quick else 9)

    def compare(model: str) -> Comparison:
        private, plain = seconds[f"{model} private"], seconds[f"{model} plain"]
        ratio = median(a / b for a, b in zip(private, plain, strict=True))
        return Comparison(model, median(private) / counts[model], median(plain) / counts[model], ratio)

    schedules = dict(list(_CALIBRATED.items())[: 1 if quick else None])
    return Measured(
        machine={"cores": os.cpu_count(), "device": jax.devices()[0].device_kind, "jax": jax.__version__},
        steps=[compare(model) for model in models],
        draw=median(seconds["draw"]) / counts["linear"],
        calibration={name: _calibration(method) for name, method in schedules.items()},
    )


def random_table(rows: int, columns: int) -> tuple[jax.Array, jax.Array]:
    """Return rows of norm about 1 and targets 0 or 1."""
    numbers = np.random.default_rng(0)
    features = numbers.standard_normal((rows, columns), np.float32) / np.float32(columns**0.5)
    return jnp.asarray(features), jnp.asarray(numbers.integers(0, 2, rows).astype(np.float32))


def private_run(problem: Problem, table: PyTree, method: Method, init: PyTree) -> Run:
    """Return the compiled loop of a private run.

    Its noise is multiplied by zero, which takes as long as any other number and needs no calibration.
    """
    planned = plan(method, len(jax.tree.leaves(table)[0]), Budget(math.inf, 1e-6))
    return open_run(planned, problem, table, init=init, key=new_key(0)).finish


def plain_run(loss: Callable[..., jax.Array], table: PyTree, method: methods.SGD, init: PyTree) -> Run:
    """Return the compiled loop of as many steps without privacy."""
    rows = len(jax.tree.leaves(table)[0])

    def mean_loss(params: PyTree, batch: PyTree) -> jax.Array:
        return jnp.mean(jax.vmap(loss, (None, 0))(params, batch))

    def step(t: jax.Array, params: PyTree, table: PyTree) -> PyTree:
        chosen = jax.random.randint(jax.random.fold_in(jax.random.key(0), t), (method.batch_size,), 0, rows)
        gradient = jax.grad(mean_loss)(params, jax.tree.map(lambda leaf: leaf[chosen], table))
        return jax.tree.map(lambda x, g: x - method.learning_rate * g, params, gradient)

    @jax.jit
    def run(table: PyTree) -> PyTree:
        return jax.lax.fori_loop(0, method.steps, lambda t, params: step(t, params, table), init)

    return lambda: run(table)


def draws(rows: int, count: int) -> Run:
    """Return a compiled loop of Poisson draws; their sum keeps the compiler from skipping any."""
    schedule = methods.SGD(batch_size=BATCH).schedule(rows)
    (query,) = schedule
    capacity = accounting.capacities(schedule, rows, _BUDGET)[0][query.name]
    key = new_key(0)

    def draw(t: jax.Array, total: jax.Array) -> jax.Array:
        return total + sampling.poisson(jax.random.fold_in(key, t), rows, BATCH / rows, capacity).mask

    return jax.jit(lambda: jax.lax.fori_loop(0, count, draw, jnp.zeros(capacity, jnp.int32)))


def in_turns(runs: Mapping[str, Run], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each run in each round, after a first one that compiles."""
    jax.block_until_ready([run() for run in runs.values()])
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            begun = time.perf_counter()
            jax.block_until_ready(run())
            seconds[name].append(time.perf_counter() - begun)
    return seconds


def _calibration(method: Method) -> float:
    begun = time.perf_counter()
    accounting.calibrate.__wrapped__(method.schedule(ROWS), _BUDGET, ROWS)  # not what it remembers
    return time.perf_counter() - begun
