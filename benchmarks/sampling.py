"""Cost of a Poisson sample of 256 records, and of a whole private SGD step, as the table grows to 10⁷ rows.

Both should be nearly flat: the sampler's work depends on the batch, and on n only by the number of digits of a gap. The
step (logistic regression, 10 features) also gathers its rows, and these come from farther memory in a larger table.
Draws are timed in one compiled loop, steps by `gossamer.engine.loop.advance`, the loop that `gs.solve` compiles; the
sizes take turns, and the least and the median of the rounds are printed.

    python benchmarks/sampling.py
"""

from statistics import median

import jax.numpy as jnp
from rich.console import Console
from rich.table import Table

import gossamer as gs
from gossamer.engine.bench import BATCH, Run, draws, in_turns, private_run, random_table

SIZES = (10**4, 10**5, 10**6, 10**7)
FEATURES, STEPS, ROUNDS = 10, 2_000, 9
METHOD = gs.methods.SGD(steps=STEPS, batch_size=BATCH)


def steps(n: int) -> Run:
    init = {"weights": jnp.zeros(FEATURES), "intercept": jnp.zeros(())}
    return private_run(gs.ERM(gs.objectives.logistic), random_table(n, FEATURES), METHOD, init)


def main() -> None:
    for title, make in (("one Poisson draw", lambda n: draws(n, STEPS)), ("one private SGD step", steps)):
        times = in_turns({f"{n:.0e}": make(n) for n in SIZES}, ROUNDS)
        page = Table("n", "µs, least", "µs, median", "× first, least", "× first, median", title=title)
        first = times[f"{SIZES[0]:.0e}"]
        for n, seconds in times.items():
            page.add_row(
                n,
                f"{1e6 * min(seconds) / STEPS:.1f}",
                f"{1e6 * median(seconds) / STEPS:.1f}",
                f"{min(seconds) / min(first):.2f}",
                f"{median(seconds) / median(first):.2f}",
            )
        Console().print(page)


if __name__ == "__main__":
    main()
