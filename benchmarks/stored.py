"""A table of 10⁷ rows of 54 features on disk: memory, Poisson steps and full passes, beside the same table in memory.

    python benchmarks/stored.py [rows]

The table is made in a temporary directory and removed afterwards. Processes that hold it in memory and processes that
leave it on disk take turns; each prints the microseconds of a step of `SGD` at batch 1024, the seconds of a full pass
of `GD`, and its largest resident memory. A full pass is compared with reading the file from its beginning to its end,
once from the system's cache and once after the cache was told to forget the file.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROWS, FEATURES, BATCH, STEPS, PASSES, ROUNDS = 10_000_000, 54, 1024, 2000, 2, 3
PIECE = 4 << 20


def make_table(folder: Path, rows: int) -> None:
    numbers = np.random.default_rng(0)
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (rows, FEATURES))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", np.float32, (rows,))
    for start in range(0, rows, 100_000):
        piece = numbers.normal(size=(min(100_000, rows - start), FEATURES)).astype(np.float32)
        piece /= np.linalg.norm(piece, axis=1, keepdims=True)
        X[start : start + len(piece)] = piece
        y[start : start + len(piece)] = piece[:, 0] > 0
    X.flush()
    y.flush()


def forget(folder: Path) -> None:
    """Ask the system to drop the files from its cache."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_through(folder: Path) -> float:
    """Return the seconds of reading the rows from beginning to end."""
    buffer, begun = bytearray(PIECE), time.perf_counter()
    with (folder / "X.npy").open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - begun


def measure(folder: Path, on_disk: bool) -> dict[str, float]:
    import jax
    import jax.numpy as jnp

    import gossamer as gs
    from gossamer.base.entropy import new_key
    from gossamer.engine.opening import open_run
    from gossamer.oracle.records import Records, Shards, Store, longest_tile

    table: Any = tuple(np.load(folder / name, mmap_mode="r" if on_disk else None) for name in ("X.npy", "y.npy"))
    n = len(table[0])
    shards = Shards.over(None, n, longest=longest_tile(table))
    store = Store(table, shards) if on_disk else None
    records = (
        Records((), n, store.record(), shards, store)
        if store
        else Records(jax.tree.map(jnp.asarray, table), n, None, shards)
    )
    del table
    problem, init = gs.ERM(gs.objectives.logistic), {"weights": jnp.zeros(FEATURES), "intercept": jnp.zeros(())}

    def timed(method: Any, first: int, last: int, before: Any = lambda: None) -> float:
        planned = gs.plan(method, n, gs.Budget(1.0, 1e-8))
        run = open_run(planned, problem, records, init=init, key=new_key(0))
        carry = run.advance(run.start, first)
        before()
        begun = time.perf_counter()
        run.advance(carry, last)
        return (time.perf_counter() - begun) / (last - first)

    if on_disk:
        forget(folder)
        figures = {"cold step": timed(gs.methods.SGD(steps=60, batch_size=BATCH), 10, 60)}
        read_through(folder)
    else:
        figures = {}
    figures["step"] = timed(gs.methods.SGD(steps=STEPS + 100, batch_size=BATCH), 100, STEPS + 100)
    figures["pass"] = timed(gs.methods.GD(steps=1 + PASSES), 1, 1 + PASSES)
    if on_disk:
        figures["cold pass"] = timed(gs.methods.GD(steps=2), 1, 2, lambda: forget(folder))
    figures["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return figures


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, __file__, "make", name, str(rows)], check=True)
        found: dict[str, list[dict[str, float]]] = {"memory": [], "disk": []}
        reads: dict[str, list[float]] = {"cold": [], "warm": []}
        for _ in range(ROUNDS):
            forget(folder)
            reads["cold"].append(read_through(folder))
            reads["warm"].append(read_through(folder))
            for kind, results in found.items():
                out = subprocess.run([sys.executable, __file__, kind, name], check=True, capture_output=True, text=True)
                results.append(json.loads(out.stdout))
        size = (folder / "X.npy").stat().st_size / 1e9
    middle = {k: {f: median(r[f] for r in results) for f in results[0]} for k, results in found.items()}
    seconds = {kind: median(values) for kind, values in reads.items()}
    memory, disk = middle["memory"], middle["disk"]
    print(f"{rows} rows of {FEATURES} features, {size:.2f} GB; medians of {ROUNDS} rounds")
    print(f"Poisson step at batch {BATCH}: memory {memory['step'] * 1e6:.0f} µs, disk {disk['step'] * 1e6:.0f} µs")
    print(f"  ratio {disk['step'] / memory['step']:.2f}; disk cold {disk['cold step'] * 1e3:.1f} ms")
    print(f"full pass: memory {memory['pass']:.2f} s, disk {disk['pass']:.2f} s, disk cold {disk['cold pass']:.2f} s")
    print(f"reading the file: cached {seconds['warm']:.2f} s, cold {seconds['cold']:.2f} s")
    print(f"  a pass reads at {seconds['warm'] / disk['pass']:.2f} of the cached rate")
    print(f"  a cold pass reads at {seconds['cold'] / disk['cold pass']:.2f} of the cold rate")
    print(
        f"largest resident memory: disk {max(r['peak'] for r in found['disk']):.0f} MB, memory {memory['peak']:.0f} MB"
    )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["make", folder, rows]:
            make_table(Path(folder), int(rows))
        case [("memory" | "disk") as kind, folder]:
            print(json.dumps(measure(Path(folder), kind == "disk")))
        case [rows]:
            main(int(rows))
        case _:
            main(ROWS)
