"""Bounds of columns of which nothing is declared, bought by bisection: counts of who is below a threshold.

    rounds    t = 0, 1, …    all columns in one query each; the lower and the upper bound are searched at once
    u         ±log₂(1 + 1024|x|), clipped to ±64: a public scale that goes from a thousandth to 10¹⁶
    level     the share of values left outside on either side: 1 %, or what the noise lets see if that is more

One record's answer about one column, for a column whose value is u, where a and b are the two thresholds:

    a number      (±½, ±½, 0, 0)     −½ where u is below the threshold, else ½
    a text        (0, 0, √½, 0)
    missing       (0, 0, 0, √½), and after the first round as a text

*Privacy.* Each of these has norm √½, so the vector of c columns has norm C = √(c/2), which is the threshold of the
query: clipping never shortens it. Two records whose numbers are on opposite sides in every column are 2C apart: what a
query of clip C charges for is attained, and nothing is lost; counting texts and missing values costs nothing beside it.
After the first round only columns of numbers are asked about: which they are is a function of the first answer. The
thresholds of a round are functions of earlier answers. So each round is one query of the door, of all records. Where
persons are protected, a person's answer is the mean over its own rows, which is no longer than the longest of them; a
bound is then a quantile in which each person counts once.

A column is one of numbers if the first answer shows at least as many numbers as texts. Its bounds are the lower end of
the cell in which the search for the lower bound ended, and the upper end of the other one. Bounds, once bought, are
public: to use them again costs nothing.
"""

import math
from collections.abc import Callable, Sequence
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
from gossamer.oracle import Ask
from gossamer.oracle.people import OwnMean, People, count
from gossamer.privacy.schedule import Query, Schedule

BOUNDS = "bounds of columns"
"""The name of the stage, and of its query on certificates."""
SHARE_OF_BUDGET = 0.05
"""What bounds cost: of the schedule's cost."""
ROUNDS = 14
"""Of halving: the last cell of 128/2¹⁴ on the scale is 0.5 % of a number wide."""
_END = 64.0
"""Where the scale ends."""
_LEAST_LEVEL, _MOST_LEVEL = 0.01, 0.1
"""The share of values left outside on either side; more than the second is refused."""
_DEVIATIONS = 3.0
"""So many deviations of a count must be outside a bound, or noise alone would decide where it is."""
_LEAST_SEEN, _MOST_OF_SEEN = 1e-3, 0.25
"""A column that fewer records have is left out; so is one of which a bound would leave out more than a quarter."""
_TEXT = 2
"""Where counts of texts and of missing values stand, behind those of both thresholds."""


def on_scale(numbers: np.ndarray) -> np.ndarray:
    """Return numbers on the public scale, in float32; what is no number becomes 0."""
    known = np.nan_to_num(np.asarray(numbers, np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    with np.errstate(over="ignore"):
        scaled = np.sign(known) * np.log2(1 + 1024 * np.abs(known))
    return np.clip(scaled, -_END, _END).astype(np.float32)


def off_scale(scaled: np.ndarray) -> np.ndarray:
    """Return the numbers that stand at places of the scale."""
    scaled = np.asarray(scaled, np.float64)
    return np.sign(scaled) * np.expm1(np.abs(scaled) * math.log(2)) / 1024


class Cells(NamedTuple):
    """What the search sees of each record, or of each row of persons: functions of its own cells alone."""

    place: np.ndarray
    """Of numbers on the scale, shape (n, c)."""
    state: np.ndarray
    """0: a number, 1: a text, 2: missing."""


class Search(NamedTuple):
    """Where the bisection stands, for c columns."""

    low: jax.Array
    """The lower ends of the cells of the lower and of the upper bound, shape (2, c)."""
    high: jax.Array
    """Their upper ends."""
    numbers: jax.Array
    """The noisy share of records that have a number, a mean over all answers so far."""
    texts: jax.Array
    """That of records that have a text, by the first answer."""
    asked: jax.Array
    """1 for columns of numbers, by the first answer, and else 0."""


@dataclass(frozen=True, repr=False)
class Bisection(Method[ERM]):
    """The search for a low and a high quantile of each column, by noisy counts of all records.

    Args:
      steps: rounds.
      noise: the query's noise multiplier divided by n: the deviation of a share at clip 1. The level follows it.
    """

    steps: Count = ROUNDS
    noise: float = 0.0
    output: Output = "last"

    def schedule(self, n: int) -> Schedule:
        """Return one full pass a round."""
        return Schedule((Query("counts", count=self.steps, clip="√(c/2), c the columns that are asked about"),))

    def init(self, problem: ERM, params: PyTree) -> Search:
        """Start from the whole scale."""
        return Search(*params)

    def step(self, problem: ERM, ask: Ask, state: Search, t: jax.Array) -> tuple[Search, Report]:
        """Ask who is below the middles of the cells, and take the half in which each quantile is."""
        first = t == 0
        clip = jnp.sqrt(state.asked.sum() / 2)
        middle = (state.low + state.high) / 2
        answer = ask("counts", OwnMean(_Sides(middle, state.asked, first)), clip=clip)
        others = answer[_TEXT:] / math.sqrt(0.5)
        numbers = state.numbers + state.asked * (1 - others.sum(axis=0) - state.numbers) / (t + 1)
        texts = jnp.where(first, others[0], state.texts)
        asked = jnp.where(first, numbers >= texts, state.asked)
        # The answer about a threshold is half the share of numbers, less the share of those below it.
        shown = jnp.clip(numbers, 0.0, 1.0)
        below = shown / 2 - answer[:_TEXT]
        outside = jnp.maximum(_LEAST_LEVEL * shown, _DEVIATIONS * self.noise * clip)
        left = below > jnp.stack([outside, shown - outside])  # the quantile is in the lower half
        state = Search(
            jnp.where(left, state.low, middle), jnp.where(left, middle, state.high), numbers, texts, 1.0 * asked
        )
        return state, Report(tuple(state), clip)

    def params(self, state: Search) -> PyTree:
        """Return the cells and the first counts."""
        return tuple(state)


@dataclass(frozen=True)
class _Sides:
    """h: on which side of each threshold a record is."""

    middle: jax.Array
    asked: jax.Array
    first: jax.Array

    def __call__(self, record: tuple[jax.Array, jax.Array]) -> jax.Array:
        """Return the four numbers of each column, zero for columns that are not asked about."""
        place, state = record
        sides = jnp.where(place < self.middle, -0.5, 0.5) * (state == 0)
        missing = state == 2
        others = jnp.stack([(state == 1) | (missing & ~self.first), missing & self.first])
        return jnp.concatenate([sides, math.sqrt(0.5) * others]) * self.asked


def bounds_stage(cells: Cells | People, noise: Callable[[], float]) -> Stage:
    """Return the stage that buys what columns are, and their bounds.

    Args:
      cells: what the search sees of the records; of persons, of their rows.
      noise: returns the noise multiplier of the stage's query, once the run is planned.
    """
    n, c = count(cells), (cells.rows if isinstance(cells, People) else cells).place.shape[1]
    method = Bisection()

    def pose(answers: Answers) -> Posed:
        ends = jnp.full((2, c), _END)
        start = (-ends, ends, jnp.zeros(c), jnp.zeros(c), jnp.ones(c))
        searched = Bisection(noise=noise() / n)
        return Posed(ERM(_misplaced), cells, start, searched)

    return Stage(BOUNDS, method, SHARE_OF_BUDGET, pose)


def check_size(n: int, columns: int, noise_multiplier: float) -> None:
    """Refuse a table that is too small for its bounds to be bought with so much noise. n and columns are public."""
    outside = _DEVIATIONS * noise_multiplier * math.sqrt(columns / 2)
    if outside > _MOST_LEVEL * n:
        raise ValueError(
            f"n = {n} records are too few to buy the bounds of {columns} columns: the noise of a count would be "
            f"{noise_multiplier * math.sqrt(columns / 2):.3g} records, and about {math.ceil(outside / _MOST_LEVEL)} "
            "records are needed. Declare what the columns are and their bounds from public knowledge, at least for "
            "some of them; leave columns out; or allow a larger epsilon."
        )


def found_bounds(answer: PyTree, noise_multiplier: float, n: int) -> list[tuple[float, float] | str]:
    """Return, for each column, the bounds of its numbers, or "text", or "rare" where hardly anybody has either."""
    low, high, numbers, texts, asked = map(np.asarray, answer)
    outside = _DEVIATIONS * noise_multiplier * math.sqrt(max(asked.sum(), 1) / 2) / n
    least = max(_LEAST_SEEN, outside / _MOST_OF_SEEN)
    # Noise may have crossed the two searches: then each cell may hold either bound.
    ends = off_scale(np.minimum(low[0], low[1])), off_scale(np.maximum(high[0], high[1]))
    return [
        "rare" if max(number, text) < least else (_shortened(a), _shortened(b)) if is_number else "text"
        for a, b, number, text, is_number in zip(*ends, numbers, texts, asked > 0, strict=True)
    ]


def _shortened(number: float) -> float:
    return float(f"{number:.4g}")


def _misplaced(search: Sequence[jax.Array], record: tuple[jax.Array, jax.Array]) -> jax.Array:
    """How far a record's numbers are outside the bounds, which quantiles keep small; nothing descends on it."""
    place, state = record
    low, high = search[0][0], search[1][1]
    return jnp.sum(jnp.where(state == 0, jnp.maximum(low - place, 0.0) + jnp.maximum(place - high, 0.0), 0.0))
