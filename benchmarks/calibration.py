"""Time, memory and tightness of calibration, from ε = 0.01 to 40 and up to 10⁶ queries, for both neighbours.

Every case runs in a new process that has only imported the library. `seconds` and `CPU` are those of
`accounting.calibrate`; `peak MB` is the largest resident set of that process by `resource.getrusage`, the imported
library included; `ε/budget` is `accounting.pld_epsilon` of the calibrated schedule at the budget's δ = 1e-6, divided by
the budget's ε. The run ends with an error if a case is refused, overspends, or takes over 30 seconds of CPU or 2 GB.

    python benchmarks/calibration.py [epsilon ...]
"""

import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product

from rich.console import Console
from rich.table import Table

import gossamer as gs
from gossamer.privacy import accounting
from gossamer.privacy.budget import Neighbors

DELTA = 1e-6
MOST_SECONDS, MOST_MEGABYTES = 30.0, 2048.0
EPSILONS = (0.01, 0.1, 1.0, 10.0, 40.0)
NEIGHBORS: tuple[Neighbors, ...] = ("replace_one", "add_remove")
SCHEDULES = {
    "1 full pass": ((1, 1.0),),
    "1000 full passes": ((1000, 1.0),),
    "10⁴ at 0.01 + 20 full passes": ((10**4, 0.01), (20, 1.0)),
    "10⁶ at 10⁻³": ((10**6, 1e-3),),
    "10⁶ at 10⁻⁵": ((10**6, 1e-5),),
    "10⁶ at 0.9": ((10**6, 0.9),),
    "1 at 10⁻³": ((1, 1e-3),),
    "10 at 10⁻³": ((10, 1e-3),),
}


@dataclass(frozen=True)
class Cost:
    """What one calibration took; `ratio` is None when it was refused."""

    seconds: float
    cpu: float
    megabytes: float
    ratio: float | None

    def within_limits(self) -> bool:
        """Whether a noise was found, keeps the budget and was cheap enough."""
        return (
            self.ratio is not None
            and self.ratio <= 1.0
            and self.cpu <= MOST_SECONDS
            and self.megabytes <= MOST_MEGABYTES
        )


def measure(schedule: str, epsilon: float, neighbors: Neighbors) -> Cost:
    queries = (gs.Query(f"q{i}", count, gs.Poisson(rate)) for i, (count, rate) in enumerate(SCHEDULES[schedule]))
    budget = gs.Budget(epsilon, DELTA, neighbors=neighbors)
    begun, cpu = time.perf_counter(), time.process_time()
    try:
        calibrated = accounting.calibrate(gs.Schedule(tuple(queries)), budget, n=10**6)
    except accounting.AccountingError:
        calibrated = None
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    ratio = accounting.pld_epsilon(calibrated, DELTA, neighbors) / epsilon if calibrated else None
    return Cost(seconds, cpu, megabytes, ratio)


def main(epsilons: tuple[float, ...]) -> int:
    context = multiprocessing.get_context("spawn")
    page = Table("schedule", "ε", "neighbours", "seconds", "CPU", "peak MB", "ε/budget", "")
    costs = []
    with ProcessPoolExecutor(max_workers=1, mp_context=context, max_tasks_per_child=1) as fresh:
        for schedule, epsilon, neighbors in product(SCHEDULES, epsilons, NEIGHBORS):
            cost = fresh.submit(measure, schedule, epsilon, neighbors).result()
            costs.append(cost)
            page.add_row(
                schedule,
                f"{epsilon:g}",
                neighbors,
                f"{cost.seconds:.2f}",
                f"{cost.cpu:.2f}",
                f"{cost.megabytes:.0f}",
                "refused" if cost.ratio is None else f"{cost.ratio:.5f}",
                "" if cost.within_limits() else "over",
            )
    console = Console()
    console.print(page)
    console.print(
        f"worst: {max(c.cpu for c in costs):.1f} s of CPU, {max(c.megabytes for c in costs):.0f} MB, "
        f"ε/budget {max(c.ratio or 0.0 for c in costs):.5f}; {sum(not c.within_limits() for c in costs)} over"
    )
    return 0 if all(c.within_limits() for c in costs) else 1


if __name__ == "__main__":
    sys.exit(main(tuple(map(float, sys.argv[1:])) or EPSILONS))
