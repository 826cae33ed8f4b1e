"""Whole steps of this checkout beside those of another one, as ratios: what a change costs users.

    python benchmarks/against.py OTHER [case ...]     # OTHER: the root of another checkout, an older version say

Each checkout has a process of its own with one thread, and they take turns: a case here, the same case there. Only
public names are used, which both must have. A case is a whole `gs.solve` after one that compiled it, less the time
of a run of one step. Printed are CPU times per step, the least and the median, and the ratios of both.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
FLAGS = "--xla_cpu_multi_thread_eigen=false --xla_force_host_platform_device_count=1"
ROUNDS = 5

Make = Callable[[int], Callable[[], Any]]
"""Returns a run of so many steps."""


def solver(loss: Any, data: Any, init: Any, method: Any) -> Make:
    import gossamer as gs

    budget = gs.Budget(1.0, 1e-6)
    return lambda steps: lambda: gs.solve(gs.ERM(loss), data, method(steps), budget, init=init, progress=False).params


def logistic(batch: int | None) -> Make:
    """200 000 rows of 54 features: Poisson samples, or all of them."""
    import jax.numpy as jnp
    import numpy as np

    import gossamer as gs

    numbers = np.random.default_rng(0)
    rows = numbers.normal(size=(200_000, 54)).astype(np.float32) / 54**0.5
    targets = (rows @ numbers.normal(size=54) > 0).astype(np.float32)

    def method(steps: int) -> Any:
        if batch is None:
            return gs.methods.GD(steps=steps, clip=1.0)
        return gs.methods.SGD(steps=steps, learning_rate=0.5, clip=1.0, batch_size=batch, momentum=0.0)

    init = {"weights": jnp.zeros(54), "intercept": jnp.zeros(())}
    return solver(gs.objectives.logistic, (jnp.asarray(rows), jnp.asarray(targets)), init, method)


def network(name: str, kind: str) -> Make:
    """A network of `benchmarks/ghost.py` on a table that is one batch, met whole by every query."""
    import jax
    from ghost import CASES

    import gossamer as gs

    case = CASES[name]()
    n = len(jax.tree.leaves(case.batch)[0])

    def method(steps: int) -> Any:
        if kind == "gradient":
            return gs.methods.GD(steps=steps, clip=0.5)
        return gs.methods.Spider(steps=steps, period=steps, batch_size=n, clip=0.5, learning_rate=1e-3)

    return solver(case.loss, case.batch, case.params, method)


def noise() -> Make:
    """An answer of 235 000 numbers about eight records: nearly all of it is noise."""
    import jax.numpy as jnp

    import gossamer as gs

    def loss(params: Any, record: Any) -> Any:
        return jnp.sum(params) * record

    return solver(loss, jnp.ones(8), jnp.zeros(235_000), lambda steps: gs.methods.GD(steps=steps, clip=1.0))


CASES: dict[str, tuple[Callable[[], Make], int]] = {
    "logistic 200k x 54, samples of 256": (lambda: logistic(256), 2000),
    "logistic 200k x 54, full pass": (lambda: logistic(None), 20),
    "mlp-2048, gradient": (lambda: network("mlp-2048", "gradient"), 10),
    "mlp-2048, difference": (lambda: network("mlp-2048", "difference"), 6),
    "resnet20-128, gradient": (lambda: network("resnet20-128", "gradient"), 2),
    "noise, 235k numbers": (noise, 100),
}


def serve(name: str) -> None:
    """Answer each line on standard input by the CPU seconds of one run."""
    import jax

    make, steps = CASES[name]
    solve = make()
    runs = [solve(1), solve(1 + steps)]
    jax.block_until_ready([run() for run in runs])

    def seconds(run: Callable[[], Any]) -> float:
        begun = time.process_time()
        jax.block_until_ready(run())
        return time.process_time() - begun

    print("ready", flush=True)
    for _ in sys.stdin:
        short, long = (seconds(run) for run in runs)
        print((long - short) / steps, flush=True)


def compare(name: str, roots: list[Path]) -> list[list[float]]:
    """Return the CPU seconds per step of each round, for each checkout."""
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, "--serve", name],
            env={**os.environ, "PYTHONPATH": f"{root}/src:{HERE}", "XLA_FLAGS": FLAGS, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for root in roots
    ]

    def heard(worker: subprocess.Popen[str]) -> str:
        assert worker.stdout is not None
        if not (line := worker.stdout.readline()):
            raise RuntimeError(f"{name}: a process ended early")
        return line

    def turn(worker: subprocess.Popen[str]) -> float:
        assert worker.stdin is not None
        worker.stdin.write("\n")
        worker.stdin.flush()
        return float(heard(worker))

    try:
        for worker in workers:
            heard(worker)
        rounds = [[turn(worker) for worker in workers] for _ in range(ROUNDS)]
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait()
    return [list(times) for times in zip(*rounds, strict=True)]


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--serve"]:
        serve(arguments[1])
        return 0
    if not arguments or not (Path(arguments[0]) / "src" / "gossamer").is_dir():
        print(f"{__doc__}\ncases: {', '.join(CASES)}")
        return 2
    roots = [HERE.parent, Path(arguments[0]).resolve()]
    chosen = [name for name in CASES if not arguments[1:] or any(name.startswith(start) for start in arguments[1:])]
    print("| case | this: ms, least | median | other: ms, least | median | ratio of least | of medians | of pairs |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name in chosen:
        here, there = compare(name, roots)
        figures = [min(here), median(here), min(there), median(there)]
        pairs = median(a / b for a, b in zip(here, there, strict=True))
        shown = [f"{1e3 * x:.3f}" for x in figures]
        ratios = [f"{figures[0] / figures[2]:.2f}", f"{figures[1] / figures[3]:.2f}", f"{pairs:.2f}"]
        print(f"| {name} | {' | '.join([*shown, *ratios])} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
