"""The stage that discovers values which nobody has listed, such as the classes of a target."""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np

from gossamer.engine.checkpoints import digest
from gossamer.engine.stages import Release, Stage
from gossamer.oracle.discovery import discovered
from gossamer.privacy.budget import Budget
from gossamer.privacy.discovery import Discovery
from gossamer.privacy.planning import Plan
from gossamer.privacy.schedule import Query, Schedule

SHARE_OF_BUDGET = 0.02
"""What a discovery costs: of the schedule's cost."""


@dataclass(frozen=True)
class _Counts:
    """Declares one discovery."""

    discovery: Discovery

    def schedule(self, n: int) -> Schedule:
        """Return the one query."""
        return Schedule((Query("values", 1, self.discovery, clip="one value of each column"),))


def discovery_stage(name: str, columns: Sequence[np.ndarray], budget: Budget) -> Stage:
    """Return the stage that discovers the values of some columns; its answer is a tuple of values for each of them.

    Args:
      name: what to call it.
      columns: the text of each record, "" for a missing one.
      budget: of the whole run; a fixed part of its δ pays for slips.
    """
    discovery = Discovery.within(budget, len(columns))

    def answer(planned: Plan, key: jax.Array) -> tuple[tuple[str, ...], ...]:
        noise = float(planned.noise()["values"])
        deviation = discovery.deviation(noise, planned.budget.neighbors)
        return discovered(columns, discovery, deviation, key, 1 + planned.elsewhere)

    release = Release(answer, digest(*("\0".join(column.tolist()) for column in columns)))
    return Stage(name, _Counts(discovery), SHARE_OF_BUDGET, lambda answers: release)
