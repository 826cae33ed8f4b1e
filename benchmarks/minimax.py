"""The cost of one epoch of private minimax training: PrivateDiff and SGDA against a non-private SGDA, in one run.

AUC maximisation on a random table of the size of MNIST (60 000 × 784), MLP 256-128, samples of 2048. An epoch is
n/batch updates of x. PrivateDiff makes one ascent step in a round and refreshes every second one, so that half of its
rounds ask two gradients of each record. The non-private epoch is a compiled
`lax.fori_loop` over uniform batches of the same loss. The competitors take turns; printed are the medians of their
rounds, by the clock and in CPU time (all threads), which a busy machine disturbs less.

    python benchmarks/minimax.py
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import gossamer as gs

ROWS, PIXELS, BATCH, HIDDEN = 60_000, 784, 2_048, (256, 128)
STEPS, ROUNDS = round(ROWS / BATCH), 5
BUDGET = gs.Budget(1.0, 1e-6)
METHODS = {
    "PrivateDiff": gs.methods.PrivateDiff(steps=STEPS, batch_size=BATCH, period=2, inner_steps=1),
    "SGDA": gs.methods.SGDA(steps=STEPS, batch_size=BATCH),
}


def score(model: Any, features: jax.Array) -> jax.Array:
    (*hidden, last) = model
    for weights, bias in hidden:
        features = jax.nn.relu(features @ weights + bias)
    weights, bias = last
    return jax.nn.sigmoid((features @ weights + bias)[0])


PROBLEM = gs.objectives.auc(score, positive_share=0.5)


def make_start() -> Any:
    sizes = (PIXELS, *HIDDEN, 1)
    keys = jax.random.split(jax.random.key(0), len(sizes) - 1)
    layers = [
        (jax.random.normal(key, (width, after)) / width**0.5, jnp.zeros(after))
        for key, width, after in zip(keys, sizes, sizes[1:], strict=False)
    ]
    return gs.objectives.auc_init(PROBLEM, layers)


def make_table() -> tuple[jax.Array, jax.Array]:
    numbers = np.random.default_rng(0)
    pixels = numbers.integers(0, 256, size=(ROWS, PIXELS)).astype(np.float32) / 255
    return jnp.asarray(pixels), jnp.asarray(numbers.integers(0, 2, size=ROWS).astype(np.float32))


def private(method: gs.methods.Method) -> Callable[[Any, Any], Any]:
    return lambda table, start: gs.solve(PROBLEM, table, method, BUDGET, init=start, seed=0, progress=False).params


@jax.jit
def plain(table: Any, start: Any) -> Any:
    def mean_loss(params: Any, batch: Any) -> jax.Array:
        return jnp.mean(jax.vmap(PROBLEM.record_loss, (None, 0))(params, batch))

    def step(t: jax.Array, params: Any) -> Any:
        chosen = jax.random.randint(jax.random.fold_in(jax.random.key(0), t), (BATCH,), 0, ROWS)
        g_x, g_y = jax.grad(mean_loss)(params, jax.tree.map(lambda leaf: leaf[chosen], table))
        x, y = params
        return jax.tree.map(lambda a, g: a - 0.5 * g, x, g_x), PROBLEM.project_y(y + 0.5 * g_y)

    return jax.lax.fori_loop(0, STEPS, step, start)


def seconds(run: Callable[[Any, Any], Any], table: Any, start: Any) -> tuple[float, float]:
    begun, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(run(table, start))
    return time.perf_counter() - begun, time.process_time() - cpu


def main() -> None:
    table, start = make_table(), make_start()
    runs: dict[str, Callable[[Any, Any], Any]] = {"SGDA, not private": plain}
    runs |= {name: private(method) for name, method in METHODS.items()}
    for run in runs.values():
        jax.block_until_ready(run(table, start))
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            times[name].append(seconds(run, table, start))
    medians = {name: tuple(median(column) for column in zip(*rows, strict=True)) for name, rows in times.items()}
    base = medians["SGDA, not private"]
    report = Table(title=f"one epoch: {STEPS} updates of x, samples of {BATCH} of {ROWS} records")
    for column in ("", "seconds", "× not private", "CPU seconds", "× not private"):
        report.add_column(column, justify="left" if column == "" else "right")
    for name, (wall, cpu) in medians.items():
        report.add_row(name, f"{wall:.2f}", f"{wall / base[0]:.2f}", f"{cpu:.2f}", f"{cpu / base[1]:.2f}")
    Console().print(report)


if __name__ == "__main__":
    main()
