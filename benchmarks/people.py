"""Time of a step by persons of ten rows each, against the same rows as records of their own.

A linear model and a network with one hidden layer; samples of 256 persons against samples of 2560 rows, and full
passes. Both take turns in one run; a step's time is that of a whole `gs.solve` after a first one, divided by its steps.
Printed are the medians of the rounds, by the clock and in CPU time, and their ratio.

    python benchmarks/people.py
"""

import time
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import gossamer as gs
from gossamer.models import CrossEntropy

PERSONS, ROWS, FEATURES, HIDDEN = 6_400, 10, 54, 128
BATCH, ROUNDS = 256, 5
BUDGET = gs.Budget(epsilon=1.0, delta=1e-6)
LINEAR = {"weights": jnp.zeros(FEATURES), "intercept": jnp.zeros(())}
NUMBERS = np.random.default_rng(0)
NETWORK = [
    {"weights": jnp.asarray(NUMBERS.normal(size=shape) / np.sqrt(shape[0]), jnp.float32), "bias": jnp.zeros(shape[1])}
    for shape in ((FEATURES, HIDDEN), (HIDDEN, 1))
]
MODELS = {"linear": (gs.objectives.logistic, LINEAR), f"{FEATURES}-{HIDDEN}-1": (CrossEntropy(), NETWORK)}


def make_table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = NUMBERS.normal(size=(PERSONS * ROWS, FEATURES)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    targets = (rows @ NUMBERS.normal(size=FEATURES) > 0).astype(np.float32)
    return rows, targets, np.repeat(np.arange(PERSONS), ROWS)


def main() -> None:
    rows, targets, ids = make_table()
    tables = {"rows": (rows, targets), "persons": gs.by_person((rows, targets), ids, rows=ROWS)}
    printed = Table(title=f"{PERSONS} persons of {ROWS} rows, {FEATURES} features; ms a step: clock, CPU")
    for heading in ("model", "asked of", *tables, "ratio, clock", "ratio, CPU"):
        printed.add_column(heading)
    for model, (loss, init) in MODELS.items():
        for kind in ("samples", "full passes"):
            times: dict[str, list[tuple[float, float]]] = {name: [] for name in tables}
            for turn in range(ROUNDS + 1):
                for name, table in tables.items():
                    taken = seconds_per_step(loss, init, table, method(kind, name))
                    times[name] += [taken] if turn else []  # the first one compiles
            clock, cpu = ({name: median(t[k] for t in taken) for name, taken in times.items()} for k in (0, 1))
            shown = [f"{1e3 * clock[name]:.2f}, {1e3 * cpu[name]:.2f}" for name in tables]
            ratios = [f"{each['persons'] / each['rows']:.2f}" for each in (clock, cpu)]
            printed.add_row(model, kind, *shown, *ratios)
    Console(width=110).print(printed)


def method(kind: str, unit: str) -> gs.methods.Method:
    if kind == "full passes":
        return gs.methods.GD(steps=10, learning_rate=0.5)
    return gs.methods.SGD(steps=50, batch_size=BATCH * (ROWS if unit == "rows" else 1), learning_rate=0.5)


def seconds_per_step(loss: Any, init: Any, table: Any, how: Any) -> tuple[float, float]:
    begun, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(gs.solve(gs.ERM(loss), table, how, BUDGET, init=init, progress=False).params)
    return (time.perf_counter() - begun) / how.steps, (time.process_time() - cpu) / how.steps


if __name__ == "__main__":
    main()
