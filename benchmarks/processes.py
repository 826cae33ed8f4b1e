"""What a step costs in one process and in two on this machine, against the cost model of docs/scale.md.

    python benchmarks/processes.py

    seconds of a step = fixed + row·(b/M)·d + [D > 1]·(hop·2(D − 1) + byte·8p(D − 1)/D)

for samples of b of the table's rows with d features over D processes on M machines, p = d + 1 parameters: a ring of D
processes passes 2(D − 1) messages one after another, and each sends and receives 8p(D − 1)/D bytes. Here M = 1: one
process uses all cores, and two share them. `fixed` and `row` are fitted to one process; `hop` and `byte` to what the
second process adds to the smallest and to the largest step. The other four are predicted.
"""

import json
import socket
import subprocess
import sys
import time
from statistics import median

import numpy as np

CASES = ((256, 54), (4096, 54), (256, 2000), (1024, 2000), (256, 20_000), (1024, 20_000))
ROWS, STEPS, ROUNDS = 8192, 200, 3


def measure(process: int, count: int, address: str, batch: int, features: int) -> float:
    """Return the seconds of a step, in this process of so many."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import Mesh

    import gossamer as gs
    from gossamer.base.entropy import new_key
    from gossamer.engine.opening import open_run
    from gossamer.oracle.shards import local_rows

    if count > 1:
        jax.distributed.initialize(address, count, process)
    mesh = Mesh(jax.devices(), ("records",)) if count > 1 else None
    here = local_rows(ROWS, mesh) if mesh else slice(0, ROWS)
    numbers = np.random.default_rng(process)
    X = numbers.standard_normal((here.stop - here.start, features), np.float32) / np.sqrt(features, dtype=np.float32)
    method = gs.methods.SGD(steps=(ROUNDS + 1) * STEPS, batch_size=batch)
    problem, init = gs.ERM(gs.objectives.logistic), {"weights": jnp.zeros(features), "intercept": jnp.zeros(())}
    planned = gs.plan(method, ROWS, gs.Budget(np.inf, 1e-6))
    run = open_run(planned, problem, (X, (X[:, 0] > 0).astype(np.float32)), init=init, key=new_key(0), mesh=mesh)
    carry, times = run.start, []
    for stop in range(STEPS, method.steps + 1, STEPS):
        begun = time.perf_counter()
        carry = run.advance(carry, stop)
        times.append((time.perf_counter() - begun) / STEPS)
    return min(times[1:])


def run(count: int, batch: int, features: int) -> float:
    """Return the seconds of a step, of the slowest of so many processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    arguments = [[sys.executable, __file__, *map(str, (k, count, address, batch, features))] for k in range(count)]
    started = [
        subprocess.Popen(each, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for each in arguments
    ]
    return max(json.loads(process.communicate(timeout=300)[0].splitlines()[-1]) for process in started)


def main() -> None:
    found = {(count, *case): median(run(count, *case) for _ in range(3)) for case in CASES for count in (1, 2)}
    alone = np.array([[1.0, b * d] for b, d in CASES])
    seconds = np.array([found[1, b, d] for b, d in CASES])
    # Relative errors count alike, in small steps and in large ones.
    fixed, row = np.linalg.lstsq(alone / seconds[:, None], np.ones(len(CASES)), rcond=None)[0]

    added = {case: found[2, *case] - found[1, *case] for case in (CASES[0], CASES[-1])}
    ends = np.array([[2.0, 4.0 * (d + 1)] for _, d in added])
    hop, byte = np.linalg.solve(ends, list(added.values()))
    print(f"fixed {fixed * 1e6:.0f} µs, row {row * 1e9:.3f} ns, hop {hop * 1e6:.0f} µs, byte {byte * 1e9:.1f} ns")
    print("   b      d   one process   (model)   two processes   (model)")
    for b, d in CASES:
        one, two = found[1, b, d] * 1e6, found[2, b, d] * 1e6
        model = (fixed + row * b * d) * 1e6
        pair = one + (2 * hop + 4 * byte * (d + 1)) * 1e6
        print(f"{b:5d} {d:6d} {one:10.0f} µs {model:7.0f} {two:15.0f} µs {pair:7.0f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))))
    else:
        main()
