"""What a run will be like, before any data is read: what privacy costs, noise against signal, evaluations, seconds.

*What privacy costs.* How far a model's score is below that of the same model without privacy follows, roughly, from the
noise energy of `methods.whitened`: measured on public tables (`gossamer reproduce forecast`), the energy puts cells in
order, but says no more than within what range a loss is: tables of equal energy differ by a factor of four either way.

*Noise-to-signal.* An answer is (Σ clip(h(z_i), C) + N(0, (σC)² I))/(q n). Its noise has norm σC√d/(q n), d the number
of values that are asked for; its mean has norm C at most, when all records pull alike at full length. Their ratio
√d·σ/(q n) is free of C. Well below 1 single answers can be trusted; above it only the mean of many can, which is how
methods with many small steps work. A query that asks for several things at once divides its noise among them, which is
not in this number: the model's part has somewhat more.
"""

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize

from gossamer.oracle.correlation import answer_noise
from gossamer.privacy import accounting, saddle_point
from gossamer.privacy.budget import Budget, Neighbors
from gossamer.privacy.planning import Plan, Scheduled, plan, warn_if_weak
from gossamer.privacy.schedule import Query, Schedule

# Seconds of a compiled step of private logistic regression on the machine that docs/benchmarks.md is about: for a
# query, for a record of it, and for a value of that record. The rows of a sample are gathered first.
_FULL = (1e-5, 1e-8, 1.8e-9)
_SAMPLED = (2e-5, 8e-8, 2.5e-9)
_PROBE_SECONDS = 8.5e-5
"""What `_probe` took there."""


DIFFERENCES_FROM = (9e4, 3e6)
"""Between these signals it depends on the condition number whether differences beat SGD (docs/variance_reduction)."""
_SLOW_RATE = 1e-3
"""Calibrating samples at smaller rates takes from several seconds to half a minute."""


class Curve(NamedTuple):
    """loss ≈ scale·E^power; of the cells that it was fitted to, eight in ten are between low and high times that."""

    scale: float
    power: float
    low: float
    high: float


CURVES = {"AUC": Curve(0.019, 0.34, 0.23, 4.3), "R²": Curve(0.033, 0.45, 0.31, 5.1)}
"""By the tables of development in docs/forecast/losses.md, which also says how often they are right."""
_MEASURED = (6e-5, 1e3)
"""The noise energies that were measured; beyond them a loss is that at the nearest."""


class Loss(NamedTuple):
    """How far a score is expected below that without privacy, and between what losses eight in ten tables are."""

    score: str
    about: float
    low: float
    high: float


def expected_loss(energy: float, score: str) -> Loss:
    """Return what noise of this energy is expected to cost a model of a table in AUC or R²."""
    curve, (least, most) = CURVES[score], _MEASURED
    about = curve.scale * min(max(energy, least), most) ** curve.power
    worst = {"AUC": 0.5, "R²": 1.0}[score]  # that of a model that knows nothing
    return Loss(score, *(min(each, worst) for each in (about, curve.low * about, curve.high * about)))


class Cell(NamedTuple):
    """What n records and ε would give; None where the method cannot run, or its noise is beyond the accountant."""

    n: int
    epsilon: float
    noise_multiplier: float | None
    """Of the query: as calibrated, or, if `is_bound`, an upper bound on that."""
    noise_to_signal: float | None
    is_bound: bool


def outline(method: Scheduled, n: int, budget: Budget, exact: bool = False) -> tuple[Plan, bool]:
    """Return a plan in a second or two, and whether its noise is only a bound (`table`) since calibration takes long.

    Args:
      method: how to train.
      n: the number of records.
      budget: what may be spent.
      exact: whether to wait for the noise that a run would take.
    """
    schedule = method.schedule(n)
    if exact or not budget.is_private or _smallest_rate(schedule) >= _SLOW_RATE:
        return plan(method, n, budget), False
    warn_if_weak(n, budget)
    sizes, lost = accounting.capacities(schedule, n, budget)
    noisy = _bounded(schedule, budget)
    return Plan(method, n, budget, noisy, capacities=tuple(sizes.items()), truncation_delta=lost), True


def evaluations(query: Query, n: int) -> float:
    """Return the expected number of gradients of one record in all samples of a query."""
    return query.count * query.sampling.size(n) * query.gradients


def noise_to_signal(query: Query, n: int, parameters: int, dual: int = 1) -> float:
    """Return the norm of an answer's noise relative to the longest signal, √d·σ/(q n).

    Args:
      query: with its noise multiplier.
      n: the number of records.
      parameters: d, the number of the model's parameters.
      dual: d of queries about the second player alone.
    """
    length = math.sqrt(dual if query.dual else parameters)
    noise = length * query.calibrated_noise() / query.sampling.size(n)
    return noise * answer_noise(query.sampling.stream)


def differences_pay(n: int, d: int, epsilon: float) -> tuple[float, bool | None]:
    """Return the signal hnε/√d of a linear model, and whether methods by differences pay: None where it depends.

    SPIDER and SVRG, against SGD with momentum, by the measured boundary (docs/variance-reduction.md): h is the largest
    curvature of the mean over that of a record, here taken as 4/d, of rows of norm 1 with d columns that are unequal.
    """
    signal = 4 * n * epsilon / d**1.5
    below, above = DIFFERENCES_FROM
    return signal, False if signal < below else True if signal >= above else None


def seconds(schedule: Schedule, n: int, columns: int) -> float:
    """Return a guess of how long a run of a linear model takes here once it is compiled, right to a factor of 2 or so.

    Stored figures of another machine, times how much longer this one takes for a small piece of work.
    """

    def of(query: Query) -> float:
        start, record, value = _SAMPLED if query.sampling.size(n) < n else _FULL
        return query.count * start + evaluations(query, n) * (record + value * columns)

    return _probe() / _PROBE_SECONDS * sum(map(of, schedule))


def table(
    method_of: Callable[[int], Scheduled],
    sizes: Sequence[int],
    epsilons: Sequence[float],
    delta_of: Callable[[int], float],
    neighbors: Neighbors,
    parameters: int,
    dual: int = 1,
    query: str | None = None,
) -> list[Cell]:
    """Return the noise of a query for several n and ε, row by row; without a name, of a method's first.

    Without Poisson samples it is as calibrated. With them calibration takes seconds, and a bound by Rényi divergence
    takes its place: 7 to 34 % above in trials, up to 1.9 times as much at rates below 1/1000.
    """

    def cell(n: int, epsilon: float) -> Cell:
        try:
            schedule = method_of(n).schedule(n)
            budget = Budget(epsilon, delta_of(n), neighbors)
            is_bound = _smallest_rate(schedule) < 1.0
            noisy = _bounded(schedule, budget) if is_bound else accounting.calibrate(schedule, budget, n)
        except (ValueError, saddle_point.DidNotConvergeError):  # a sample larger than the table, say
            return Cell(n, epsilon, None, None, False)
        first = noisy.queries[0] if query is None else noisy[query]
        return Cell(n, epsilon, first.noise_multiplier, noise_to_signal(first, n, parameters, dual), is_bound)

    return [cell(n, epsilon) for n in sizes for epsilon in epsilons]


def _smallest_rate(schedule: Schedule) -> float:
    """Return the smallest rate at which chance lowers a cost; 1 if it lowers none."""
    return min(query.sampling.cost(1.0, query.count).rate for query in schedule)


def _bounded(schedule: Schedule, budget: Budget) -> Schedule:
    """Return the schedule with noise that keeps a budget for sure, and is not the least that does."""
    ratios = np.array(schedule.ratios())

    def noisy(log_scale: float) -> Schedule:
        return schedule.with_noise(tuple(math.exp(log_scale) * ratios))

    def excess(log_scale: float) -> float:
        reached = saddle_point.renyi_delta(
            accounting.costs_of(noisy(log_scale), budget.neighbors), budget.epsilon, budget.neighbors
        )
        return math.log(max(reached, 1e-300)) - math.log(budget.delta * (1 - accounting.TRUNCATION_SHARE))

    low = high = -math.log(min(ratios))
    while excess(low) <= 0:
        low -= 1.0
    while excess(high) > 0:
        high += 1.0
    return noisy(optimize.brentq(excess, low, high, xtol=1e-3) + 1e-3)


def _probe() -> float:
    """Return the seconds of a product of a matrix and a vector on one core (no BLAS, whose threads start slowly)."""
    rows = np.ones((8192, 64), np.float32)
    times = []
    for _ in range(50):
        begun = time.perf_counter()
        np.einsum("ij,j->i", rows, rows[0])
        times.append(time.perf_counter() - begun)
    return min(times)
