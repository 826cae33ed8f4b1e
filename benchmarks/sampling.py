"""Cost of a Poisson sample of 256 records, and of a whole private SGD step, as the table grows to 10⁷ rows.

Both should be nearly flat: the sampler's work depends on the batch, and on n only by the number of digits of a gap. The
step (logistic regression, 10 features) also gathers its rows, and these come from farther memory in a larger table.
Draws are timed in one compiled loop, steps by `gossamer.loop.advance`, the loop that `gs.solve` compiles; the sizes
take turns, and the least and the median of the rounds are printed.

    python benchmarks/sampling.py
"""

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import jax
import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

import gossamer as gs
from gossamer import accounting, loop
from gossamer.oracle import sampling
from gossamer.solving import make_door

SIZES = (10**4, 10**5, 10**6, 10**7)
BATCH, FEATURES, STEPS, ROUNDS = 256, 10, 2_000, 9
BUDGET = gs.Budget(epsilon=1.0, delta=1e-8)
METHOD = gs.methods.SGD(steps=STEPS, batch_size=BATCH)
Run = Callable[[], Any]


def draws(n: int) -> Run:
    """Return a compiled loop of Poisson draws; their sum keeps the compiler from skipping any."""
    (query,) = METHOD.schedule(n)
    capacity = accounting.capacities(METHOD.schedule(n), n, BUDGET)[0][query.name]

    def draw(t: jax.Array, total: jax.Array) -> jax.Array:
        return total + sampling.poisson(jax.random.fold_in(jax.random.key(0), t), n, query.rate, capacity).rows

    return jax.jit(lambda: jax.lax.fori_loop(0, STEPS, draw, jnp.zeros(capacity, jnp.int32)))


def steps(n: int) -> Run:
    """Return the compiled loop of a private run on n random rows."""
    planned = gs.plan(METHOD, n, BUDGET)
    door = make_door(planned)
    row_key, target_key, run_key = jax.random.split(jax.random.key(0), 3)
    table = (
        jax.random.normal(row_key, (n, FEATURES)),
        jax.random.bernoulli(target_key, shape=(n,)).astype(jnp.float32),
    )
    keys = loop.split(run_key)
    noise = {query.name: jnp.float32(query.noise_multiplier) for query in planned.schedule}
    secrets = loop.make_secrets(door, table, noise, keys)
    problem = gs.ERM(gs.objectives.logistic)
    init = {"weights": jnp.zeros(FEATURES), "intercept": jnp.zeros(())}
    carry = loop.start(METHOD, problem, init, door, keys.output)
    return lambda: loop.advance(METHOD, problem, door, secrets, carry, jnp.int32(STEPS))


def measure(runs: dict[int, Run]) -> dict[int, list[float]]:
    """Return the seconds per draw or step of each size, after a first run that compiles."""
    jax.block_until_ready([run() for run in runs.values()])
    times: dict[int, list[float]] = {n: [] for n in runs}
    for _ in range(ROUNDS):
        for n, run in runs.items():
            begun = time.perf_counter()
            jax.block_until_ready(run())
            times[n].append((time.perf_counter() - begun) / STEPS)
    return times


def main() -> None:
    for title, make in (("one Poisson draw", draws), ("one private SGD step", steps)):
        times = measure({n: make(n) for n in SIZES})
        page = Table("n", "µs, least", "µs, median", "× first, least", "× first, median", title=title)
        first = times[SIZES[0]]
        for n, seconds in times.items():
            page.add_row(
                f"{n:.0e}",
                f"{1e6 * min(seconds):.1f}",
                f"{1e6 * median(seconds):.1f}",
                f"{min(seconds) / min(first):.2f}",
                f"{median(seconds) / median(first):.2f}",
            )
        Console().print(page)


if __name__ == "__main__":
    main()
