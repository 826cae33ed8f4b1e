"""Histograms of columns, bought by one query of counts in the schedule of the training that uses them.

Privacy. Each record is in one bin of each of m columns: a vector of norm √m without negative entries, so that any two
are at an acute angle and a replaced record moves the sum by √2 thresholds (`Query.cost`). A person's vector is the
mean over its own rows, of which the same is true.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.base.trees import PyTree
from gossamer.engine.stages import Answers, Posed, Stage
from gossamer.methods.base import Method, Report
from gossamer.methods.fields import Count, Output
from gossamer.objectives.erm import ERM
from gossamer.oracle import Ask, Nonnegative
from gossamer.oracle.people import OwnMean, People
from gossamer.privacy.schedule import Query, Schedule

BINS = 32


class Counted(NamedTuple):
    """The noisy shares of bins, a row for each column."""

    shares: jax.Array


@dataclass(frozen=True)
class Counting(Method[ERM]):
    """Asks once for the share of records in each bin of each column; records are rows of shares in [0, 1].

    Args:
      columns: m; a share below 0 is in no bin.
      bins: of each column.
      steps: 1.
    """

    columns: Count = 1
    bins: Count = BINS
    steps: Count = 1
    output: Output = "last"

    def schedule(self, n: int) -> Schedule:
        """Return one full pass."""
        return Schedule((Query("counts", count=1, clip=f"{math.sqrt(self.columns):g}", acute=True),))

    def init(self, problem: ERM, params: PyTree) -> Counted:
        """Start with nothing."""
        return Counted(params)

    def step(self, problem: ERM, ask: Ask, state: Counted, t: jax.Array) -> tuple[Counted, Report]:
        """Count."""

        def bins(record: jax.Array) -> jax.Array:
            place = jnp.minimum(jnp.floor(record * self.bins), self.bins - 1)
            return (place[:, None] == jnp.arange(self.bins)).astype(jnp.float32)

        shares = ask("counts", Nonnegative(OwnMean(bins)), clip=math.sqrt(self.columns))
        return Counted(shares), Report(state.shares, jnp.float32(0))

    def params(self, state: Counted) -> jax.Array:
        """Return the shares."""
        return state.shares


def histogram_stage(name: str, share: float, records: np.ndarray | People) -> Stage:
    """Return the stage that buys histograms of columns of shares with this share of the budget."""
    method = Counting(columns=(records.rows if isinstance(records, People) else records).shape[1])

    def pose(answers: Answers) -> Posed:
        return Posed(ERM(_nothing), records, jnp.zeros((method.columns, method.bins)), method)

    return Stage(name, method, share, pose)


def _nothing(params: jax.Array, record: jax.Array) -> jax.Array:
    """Nothing is minimised: there is one answer."""
    return 0.0 * (jnp.sum(params) + jnp.sum(record))
