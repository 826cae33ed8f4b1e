"""Steps per second of private logistic regression: `gs.solve`, plain JAX and Opacus, in one run.

200 000 synthetic rows of norm 1 with 54 features, Poisson samples of 256 records, clip 1, no momentum. Gossamer's time
is that of a whole `gs.solve` of 5000 steps after a first one, whose compiled loop and calibrated noise it finds again.
Plain SGD is the same loop without privacy: a compiled `lax.fori_loop` over uniform batches of 256. The competitors take
turns; printed are the medians of their rounds, by the clock and in CPU time (all threads), which a busy machine
disturbs less. Opacus needs PyTorch and runs in an interpreter of its own, named by the environment variable
GOSSAMER_TORCH_PYTHON; without it that row is skipped.

    python benchmarks/steps.py
"""

import json
import os
import subprocess
import time
from pathlib import Path
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import gossamer as gs
from gossamer.engine.bench import Run, plain_run

ROWS, FEATURES, BATCH = 200_000, 54, 256
STEPS, ROUNDS = 5_000, 5
OPACUS_WARM_UP, OPACUS_STEPS = 20, 100
METHOD = gs.methods.SGD(steps=STEPS, learning_rate=0.5, clip=1.0, batch_size=BATCH, momentum=0.0)
INIT = {"weights": jnp.zeros(FEATURES), "intercept": jnp.zeros(())}
HOW_TO = (
    "Opacus is skipped: GOSSAMER_TORCH_PYTHON is not set. To make an interpreter for it: python3 -m venv ENV; "
    "ENV/bin/pip install torch==2.13.0; ENV/bin/pip install opacus; export GOSSAMER_TORCH_PYTHON=ENV/bin/python"
)


def make_table() -> tuple[jax.Array, jax.Array]:
    numbers = np.random.default_rng(0)
    rows = numbers.normal(size=(ROWS, FEATURES)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    targets = (rows @ numbers.normal(size=FEATURES) > 0).astype(np.float32)
    return jnp.asarray(rows), jnp.asarray(targets)


def private(table: Any) -> Any:
    budget = gs.Budget(epsilon=1.0, delta=1e-6)
    return gs.solve(gs.ERM(gs.objectives.logistic), table, METHOD, budget, init=INIT, progress=False).params


def seconds_per_step(run: Run) -> tuple[float, float]:
    begun, cpu = time.perf_counter(), time.process_time()
    jax.block_until_ready(run())
    return (time.perf_counter() - begun) / STEPS, (time.process_time() - cpu) / STEPS


def opacus(python: str) -> dict[str, tuple[float, float]]:
    script = str(Path(__file__).with_name("opacus_logistic.py"))
    sizes = map(str, (ROWS, FEATURES, BATCH, OPACUS_WARM_UP, OPACUS_STEPS))
    done = subprocess.run([python, script, *sizes], check=True, capture_output=True, text=True)
    return {f"Opacus, {mode}": times for mode, times in json.loads(done.stdout).items()}


def main() -> None:
    console = Console()
    python = os.environ.get("GOSSAMER_TORCH_PYTHON")
    if not python:
        console.print(HOW_TO)
    table = make_table()
    ours = {
        "gs.solve": lambda: private(table),
        "plain SGD, not private": plain_run(gs.objectives.logistic, table, METHOD, INIT),
    }
    jax.block_until_ready([run() for run in ours.values()])
    rounds: dict[str, list[tuple[float, float]]] = {}
    for _ in range(ROUNDS):
        turn = {name: seconds_per_step(run) for name, run in ours.items()}
        for name, times in (turn | (opacus(python) if python else {})).items():
            rounds.setdefault(name, []).append(times)

    page = Table("", "µs/step", "× gs.solve", "CPU µs/step", "× gs.solve", "steps/s")
    medians = {name: [median(times) for times in zip(*turns, strict=True)] for name, turns in rounds.items()}
    first = medians["gs.solve"]
    for name, (clock, cpu) in medians.items():
        micros = (f"{1e6 * clock:.1f}", f"{clock / first[0]:.2f}", f"{1e6 * cpu:.1f}", f"{cpu / first[1]:.2f}")
        page.add_row(name, *micros, f"{1 / clock:.0f}")
    console.print(page)


if __name__ == "__main__":
    main()
