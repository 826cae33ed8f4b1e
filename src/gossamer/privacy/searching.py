"""What a search costs: the best of a secret number of runs, each with a setting of its own from a public list.

`gossamer.privacy.selection` has the theorem. Here are the runs: each setting has a schedule, its profile is an upper
bound by privacy loss distributions, and the profile of a trial is the largest of them at each ε. `Certificate.verify`
asks for the second opinion: the same by the contour integral.
"""

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import interpolate

from gossamer.base.exceptions import AccountingError
from gossamer.base.messages import is_number
from gossamer.privacy import accounting, saddle_point
from gossamer.privacy.accounting import gaussian_delta
from gossamer.privacy.budget import Budget, Neighbors
from gossamer.privacy.envelope import largest_gaussian
from gossamer.privacy.planning import Plan
from gossamer.privacy.saddle_point import Cost
from gossamer.privacy.sampling import Surcharge
from gossamer.privacy.schedule import Schedule
from gossamer.privacy.selection import Profile, select
from gossamer.privacy.trials import Trials, negative_binomial

_FACTORS = (1.003, 1.0, 0.998, 0.995, 0.99, 0.98, 0.96, 0.93, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
"""What of the first guess to try for a trial's ε; the guess is right for Gaussians, and too large for heavy tails."""
_MOST_SCHEDULES = 100
_NODES = 48
_FAR = 1e-12


@dataclass(frozen=True)
class Selection:
    """How the best of several runs was chosen.

    Args:
      trials: the expected number of runs, which was drawn in secret.
      eta: the shape of its law, a truncated negative binomial one.
      most: the largest number of runs.
      schedules: what a run could ask, a schedule for each setting that has one of its own.
      capacities: for each schedule, where its samples are cut.
    """

    trials: float
    eta: float
    most: int
    schedules: tuple[Schedule, ...]
    capacities: tuple[dict[str, int], ...]

    def __post_init__(self) -> None:
        if not (1 <= len(self.schedules) <= _MOST_SCHEDULES and len(self.schedules) == len(self.capacities)):
            raise ValueError(f"a selection needs 1 to {_MOST_SCHEDULES} schedules, and capacities for every one.")
        if not all(is_number(value) for value in (self.trials, self.eta)):
            raise TypeError("trials and eta of a selection must be numbers.")
        for schedule, sizes in zip(self.schedules, self.capacities, strict=True):
            if set(sizes) != {query.name for query in schedule if query.sampling.has_capacity}:
                raise ValueError("a selection must have a capacity for every query of a Poisson sample.")
        negative_binomial(self.trials, self.eta, self.most)

    @property
    def law(self) -> Trials:
        """The law of the number of runs."""
        return negative_binomial(self.trials, self.eta, self.most)

    def truncation(self, n: int, epsilon: float) -> float:
        """Return the δ that cut samples cost: that of the worst setting, for every expected run."""
        each = zip(self.schedules, self.capacities, strict=True)
        return self.trials * max(accounting.truncation(schedule, n, sizes, epsilon) for schedule, sizes in each)


def delta_of(selection: Selection, epsilon: float, neighbors: Neighbors, n: int) -> float:
    """Return an upper bound on δ of a search at ε, by privacy loss distributions."""
    profiles = [accounting.profile(*_parts(schedule, neighbors)) for schedule in selection.schedules]
    return select(_largest(profiles), selection.law, epsilon) + selection.truncation(n, epsilon)


def recomputed_epsilon(selection: Selection, budget: Budget, n: int) -> float:
    """Return ε of a search at δ by the contour integral, where that converges."""
    neighbors = budget.neighbors
    profile = _largest([_contour(*_parts(schedule, neighbors)) for schedule in selection.schedules])
    law = selection.law

    def excess(epsilon: float) -> float:
        return select(profile, law, epsilon) + selection.truncation(n, epsilon) - budget.delta

    low, high = 0.0, budget.epsilon
    while excess(high) > 0:
        low, high = high, 1.5 * high
        if high > 100 * budget.epsilon:
            return math.inf
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


@functools.lru_cache(maxsize=64)
def trial_budget(budget: Budget, law: Trials) -> Budget:
    """Return about what one run of a search may spend, as if it were one Gaussian; δ is that of the whole."""
    low, high = 0.01, 1.0
    whole = math.sqrt(largest_gaussian(budget.epsilon, budget.delta))

    def fits(share: float) -> bool:
        return select(lambda e: gaussian_delta(share * whole, e), law, budget.epsilon, cells=1000) <= budget.delta

    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return Budget(_epsilon_of(low * whole, budget.delta), budget.delta, budget.neighbors)


def plan_search(
    plans_at: Callable[[Budget], Sequence[Plan]], budget: Budget, n: int, trials: float, eta: float, most: int
) -> tuple[Selection, list[Plan]]:
    """Return how to choose within a budget, and the plan of each setting, with the least noise that does.

    Args:
      plans_at: `plans_at(budget)` → the plan of a run with each setting, each with that budget.
      budget: of the whole search.
      n: the number of records.
      trials: the expected number of runs.
      eta: the shape of its law.
      most: the largest number of runs.
    """
    law = negative_binomial(trials, eta, most)
    guess = trial_budget(budget, law)
    for factor in _FACTORS:
        plans = list(plans_at(Budget(factor * guess.epsilon, guess.delta, guess.neighbors)))
        different = {(plan.schedule, plan.capacities): plan for plan in plans}
        selection = Selection(
            float(trials),
            float(eta),
            most,
            tuple(plan.schedule for plan in different.values()),
            tuple(dict(plan.capacities) for plan in different.values()),
        )
        if delta_of(selection, budget.epsilon, budget.neighbors, n) <= budget.delta:
            return selection, plans
    raise AccountingError(
        f"no noise was confirmed for a search with {trials:g} trials within epsilon = {budget.epsilon:g}, delta = "
        f"{budget.delta:g}. Expect fewer trials, or allow a larger epsilon."
    )


def _epsilon_of(mu: float, delta: float) -> float:
    low, high = 0.0, 1000.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if float(gaussian_delta(mu, np.array([middle]))[0]) <= delta else (middle, high)
    return high


def _parts(schedule: Schedule, neighbors: Neighbors) -> tuple[list[Cost], Neighbors, Surcharge]:
    return accounting.costs_of(schedule, neighbors), neighbors, schedule.surcharge(neighbors)


def _largest(profiles: Sequence[Profile]) -> Profile:
    return lambda epsilons: np.max([profile(epsilons) for profile in profiles], axis=0)


def _contour(costs: list[Cost], neighbors: Neighbors, extra: Surcharge) -> Profile:
    """Return a profile through exact values at some ε; an upper bound by PLD where they do not converge."""
    try:
        end = 0.25
        while end < 64 and saddle_point.delta(costs, end, neighbors) > _FAR:
            end *= 2
        nodes = end * np.linspace(0.0, 1.0, _NODES) ** 1.5
        nodes[0] = 1e-6
        logs = [math.log(max(saddle_point.delta(costs, float(node), neighbors), 1e-300)) for node in nodes]
    except saddle_point.DidNotConvergeError:
        return accounting.profile(costs, neighbors, extra)
    smooth = interpolate.PchipInterpolator(nodes, logs)

    def profile(epsilons: np.ndarray) -> np.ndarray:
        return np.minimum(extra.factor * np.exp(smooth(np.clip(epsilons - extra.epsilon, 0.0, end))), 1.0)

    return profile
