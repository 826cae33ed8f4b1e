"""What it costs: from a budget to noise, and from noise back to ε.

Two accountants are asked. Every figure that decides anything is an upper bound by privacy loss distributions
(`gossamer.privacy.pld`). The exact but unproven contour integral (`gossamer.privacy.saddle_point`) only proposes where
to look, and raises the alarm when the two disagree. What cannot be computed is refused: nothing here rounds in the
user's favour.
"""

import functools
import math
from collections.abc import Callable, Mapping

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld_lib
from scipy import optimize, special

from gossamer.base.exceptions import AccountingError
from gossamer.privacy import arithmetic, pld, saddle_point
from gossamer.privacy.budget import Budget, Neighbors
from gossamer.privacy.saddle_point import Cost
from gossamer.privacy.sampling import Sampling, Surcharge
from gossamer.privacy.schedule import Query, Schedule

TRUNCATION_SHARE = 1e-3
"""The part of δ set aside for samples that outgrow their static size."""
SMALLEST_DELTA = 1e-10
"""Below this the rounding of the accountant's Fourier transforms may show."""
_LEAST_NOISE = 0.01
_LARGEST_VARIANCE = 1e5
_INFLATIONS = tuple(1.0 + 1e-4 * 2**k for k in range(9))


def costs_of(schedule: Schedule, neighbors: Neighbors | None = None) -> list[Cost]:
    """Return what a calibrated schedule costs; what asks all records costs one Gaussian."""
    return merged([query.cost(neighbors) for query in schedule.at_worst()])


def merged(costs: list[Cost]) -> list[Cost]:
    """Return the same costs with all queries of all records as one.

    Gaussian queries of all records with multipliers σ_j are together as telling as one of multiplier (Σ 1/σ_j²)^(−1/2).
    """
    sampled = [cost for cost in costs if cost.rate < 1.0]
    whole = [cost.noise_multiplier / math.sqrt(cost.count) for cost in costs if cost.rate == 1.0]
    return sampled + ([Cost(1.0, _together(whole), 1)] if whole else [])


def _together(multipliers: list[float]) -> float:
    """Return the noise multiplier of one Gaussian that tells as much as all of these."""
    least = min(multipliers)
    return 0.0 if least == 0 else least / math.sqrt(sum((least / each) ** 2 for each in multipliers))


def is_hopeless(costs: list[Cost], neighbors: Neighbors) -> bool:
    """Return whether there is so little noise that ε is in the thousands, and to compute it would take minutes.

    Of noise below a hundredth of a threshold nothing is computed, even if samples are so rare that ε might be small.
    """
    if any(cost.noise_multiplier < _LEAST_NOISE for cost in costs):
        return True
    return _leading_variance(costs, neighbors) > _LARGEST_VARIANCE


def _leading_variance(costs: list[Cost], neighbors: Neighbors) -> float:
    """Return the variance Σ c q² Δ²/σ² of the whole privacy loss, to leading order."""
    sensitivity = 2.0 if neighbors == "replace_one" else 1.0
    return sum(cost.count * (cost.rate * sensitivity / cost.noise_multiplier) ** 2 for cost in costs)


def pld_deltas(schedule: Schedule, epsilons: np.ndarray, neighbors: Neighbors) -> np.ndarray:
    """Return an upper bound on δ(ε) of a schedule's noise for each ε."""
    return np.asarray(pld.compose(costs_of(schedule, neighbors), neighbors).get_delta_for_epsilon(epsilons))


def profile(costs: list[Cost], neighbors: Neighbors, extra: Surcharge) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that bounds δ(ε) from above for each ε ≥ 0 of an array, in both orders of the two tables.

    By privacy loss distributions, or in closed form where all is one Gaussian. ε − `extra.epsilon` may be below 0: the
    larger of both orders is H_γ ≤ 1 − γ + γ H_{1/γ} there.
    """
    if is_hopeless(costs, neighbors):
        return np.ones_like
    ideal = functools.partial(gaussian_delta, gaussian_mu(costs, neighbors))
    if any(cost.rate < 1.0 for cost in costs):
        ideal = functools.partial(_composed_deltas, pld.compose(costs, neighbors))

    def bound(epsilons: np.ndarray) -> np.ndarray:
        moved = epsilons - extra.epsilon
        fallen = np.minimum(moved, 0.0)
        deltas = -np.expm1(fallen) + np.exp(fallen) * ideal(np.abs(moved))
        return np.minimum(extra.factor * deltas, 1.0)

    return bound


def _composed_deltas(composed: pld_lib.PrivacyLossDistribution, epsilons: np.ndarray) -> np.ndarray:
    different, where = np.unique(epsilons, return_inverse=True)  # it wants them sorted
    deltas = np.asarray(composed.get_delta_for_epsilon(different))
    return np.maximum(deltas, SMALLEST_DELTA)[where].reshape(epsilons.shape)


def gaussian_mu(costs: list[Cost], neighbors: Neighbors) -> float:
    """Return μ of the one Gaussian that queries of all records amount to."""
    return math.sqrt(_leading_variance(costs, neighbors))


def gaussian_delta(mu: float, epsilons: np.ndarray) -> np.ndarray:
    """Return δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) of one Gaussian of parameter μ (Balle and Wang, 2018)."""
    rest = special.log_ndtr(-mu / 2 - epsilons / mu) + epsilons
    return np.maximum(special.ndtr(mu / 2 - epsilons / mu) - np.exp(rest), 0.0)


def pld_epsilon(schedule: Schedule, delta: float, neighbors: Neighbors) -> float:
    """Return an upper bound on ε at δ (0 < δ < 1) for a calibrated schedule, by PLD."""
    costs = costs_of(schedule, neighbors)
    if is_hopeless(costs, neighbors):
        return math.inf
    extra = schedule.surcharge(neighbors)
    return extra.epsilon + float(pld.compose(costs, neighbors).get_epsilon_for_delta(delta / extra.factor))


@functools.lru_cache(maxsize=256)
def calibrate(schedule: Schedule, budget: Budget, n: int) -> Schedule:
    """Return the schedule with the least noise, in its split, that keeps the budget.

    δ is shared: all but a thousandth pays for the noise, the rest for truncated samples (`capacities`).
    """
    if not budget.is_private:
        return schedule.with_noise(tuple(0.0 for _ in schedule))
    extra = schedule.surcharge(budget.neighbors)
    if budget.delta < SMALLEST_DELTA * extra.factor:
        raise AccountingError(
            f"delta = {budget.delta:g} is below {SMALLEST_DELTA * extra.factor:g}, the smallest value that the "
            "accountant resolves. Choose a larger delta; n ** -1.1 is customary."
        )
    schedule.check(n, budget.neighbors)
    arithmetic.check_tails(budget.epsilon, budget.delta)
    if budget.epsilon <= extra.epsilon:
        raise AccountingError(
            f"epsilon = {budget.epsilon:g} must exceed {extra.epsilon:g}, which rounding and the Jacobian of a "
            "perturbed objective cost whatever the noise. Allow a larger epsilon, or regularise more."
        )
    left = Budget(budget.epsilon - extra.epsilon, budget.delta / extra.factor, budget.neighbors)
    delta = left.delta * (1 - TRUNCATION_SHARE)
    ratios = np.array(schedule.ratios())

    def costs_at(scale: float) -> list[Cost]:
        return costs_of(schedule.with_noise(tuple(scale * ratios)), budget.neighbors)

    cause = None
    try:
        scale = _smallest_scale(costs_at, delta, left)
        for inflation in _INFLATIONS:
            candidate = costs_at(scale * inflation)
            if pld.compose(candidate, budget.neighbors).get_delta_for_epsilon(left.epsilon) <= delta:
                return schedule.with_noise(tuple(scale * inflation * ratios))
    except (ArithmeticError, ValueError) as error:  # what dp-accounting and SciPy raise beyond their range
        cause = error
    raise AccountingError(
        f"the accountant did not confirm any noise for epsilon = {budget.epsilon:g}, delta = {budget.delta:g} on "
        f"{[(query.name, query.count, str(query.sampling)) for query in schedule]}. Ask fewer queries, or allow a "
        "larger epsilon."
    ) from cause


def capacities(schedule: Schedule, n: int, budget: Budget) -> tuple[dict[str, int], float]:
    """Return the static size of every sample whose size is random, and the δ that samples cut there can cost.

    If the samples of a run differ from ideal ones with probability at most τ over all queries, for either neighbour,
    then P' ≤ P + τ ≤ e^ε Q + δ₀ + τ ≤ e^ε (Q' + τ) + δ₀ + τ: that adds (1 + e^ε) τ to the ideal δ₀. Each query has two
    parts in τ, both upper bounds: that a sample outgrows its capacity (`Sampling.log_overflow`), and that it is drawn
    with a finite number of random bits (`Sampling.sampling_error`). The second cannot be chosen: where it is more than
    half of what is set aside, the budget is refused.
    """
    sampled = [query for query in schedule if query.sampling.has_capacity]
    epsilon = budget.epsilon if budget.is_private else 0.0
    drawn = truncation(schedule, n, {query.name: n for query in sampled}, epsilon)
    left = TRUNCATION_SHARE * budget.delta - drawn
    if left < drawn:
        raise AccountingError(
            f"epsilon = {epsilon:g} is so large that the finite precision of random samples may cost {drawn:.2g} of "
            f"delta = {budget.delta:g}. Choose a smaller epsilon, or math.inf for a run without privacy."
        )
    sizes: dict[str, int] = {}
    for query in sampled:
        allowed = math.log(left / len(sampled) / query.count) - np.logaddexp(0.0, epsilon)
        sizes[query.name] = query.sampling.capacity(n, allowed)
    return sizes, truncation(schedule, n, sizes, epsilon)


def shard_capacity(sampling: Sampling, n: int, capacity: int, shards: int) -> int:
    """Return where to cut each shard's part of a sample so that any is cut no more often than `capacity` would cut all.

    By a bound on a shard of ⌈n/shards⌉ rows and a union over the shards: what a certificate says of samples that are
    cut at `capacity` is then true of a table that is spread.
    """
    rows = -(-n // shards)
    if shards == 1 or capacity >= n:
        return min(capacity, rows)
    return sampling.capacity(rows, sampling.log_overflow(n, capacity) - math.log(shards))


def truncation(schedule: Schedule, n: int, sizes: Mapping[str, int], epsilon: float) -> float:
    """Return the δ that samples drawn as they are and cut at these sizes can cost; one of n rows is never cut.

    And what slips of a discovery can cost, which is the same: a chance to differ from the mechanism that is accounted.
    """
    log_growth = float(np.logaddexp(0.0, epsilon))

    def lost(query: Query) -> float:
        cut = query.sampling.log_overflow(n, sizes[query.name]) if sizes.get(query.name, n) < n else -math.inf
        error = query.sampling.sampling_error(n)
        log_lost = log_growth + float(np.logaddexp(cut, math.log(error) if error else -math.inf))
        return query.count * math.exp(min(log_lost, 0.0))  # a probability: more than 1 is never lost

    return sum(map(lost, schedule))


def _smallest_scale(costs_at: Callable[[float], list[Cost]], delta: float, budget: Budget) -> float:
    """Propose the noise scale at which δ(ε) equals the target."""

    def excess_by(delta_of: Callable[[list[Cost]], float], log_scale: float) -> float:
        return math.log(max(delta_of(costs_at(math.exp(log_scale))), 1e-300)) - math.log(delta)

    def exact(costs: list[Cost]) -> float:
        return saddle_point.delta_near(costs, budget.epsilon, budget.neighbors, delta)

    def loose(costs: list[Cost]) -> float:
        return saddle_point.renyi_delta(costs, budget.epsilon, budget.neighbors)

    def bound(costs: list[Cost]) -> float:
        return float(pld.compose(costs, budget.neighbors, fineness=1e-2).get_delta_for_epsilon(budget.epsilon))

    unit = costs_at(1.0)
    spread = math.sqrt(_leading_variance(unit, budget.neighbors))
    tail = math.sqrt(2 * math.log(1.25 / delta))
    start = math.log(spread * (tail / budget.epsilon if budget.epsilon < tail else budget.epsilon**-0.5))
    # A small rate saves privacy only down to noise multipliers of about a half: the tail takes over there.
    start = max([start, *(math.log(0.5 / c.noise_multiplier) for c in unit if c.rate < 1.0)])
    try:
        return _root(functools.partial(excess_by, exact), start, tolerance=2e-5)
    except saddle_point.DidNotConvergeError:
        # Few evaluations, since each takes seconds: the Rényi bound's own root is a little above.
        near = _root(functools.partial(excess_by, loose), start, tolerance=1e-3)
        return _root(functools.partial(excess_by, bound), math.log(near), tolerance=1e-3, stride=0.1)


def _root(excess: Callable[[float], float], start: float, tolerance: float, stride: float = 0.25) -> float:
    """Return exp of a point just above the root of a decreasing function, searched from `start`."""
    excess = functools.cache(excess)
    low = _walk(excess, start, -stride, until=lambda value: value > 0)
    high = _walk(excess, low, stride, until=lambda value: value <= 0)
    return math.exp(optimize.brentq(excess, low, high, xtol=tolerance) + tolerance)


def _walk(function: Callable[[float], float], start: float, step: float, until: Callable[[float], bool]) -> float:
    """Walk from `start`, where the function must exist, until its value is as wanted; shorten steps that fail."""
    here = start
    for _ in range(100):
        try:
            value = function(here)
        except saddle_point.DidNotConvergeError:
            if here == start or abs(step) < 1e-2:
                raise
            here, step = here - step / 2, step / 2
            continue
        if until(value):
            return here
        here += step
    raise AccountingError("no noise scale brackets the budget; allow a larger epsilon or delta.")
