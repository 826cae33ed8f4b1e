"""Schedule and noise, before any data is read."""

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gossamer.base.exceptions import WeakGuaranteeWarning
from gossamer.base.messages import is_whole, plain, shown
from gossamer.privacy import accounting, arithmetic
from gossamer.privacy.budget import Budget, check_budget
from gossamer.privacy.schedule import Schedule


class Scheduled(Protocol):
    """All that a plan needs of a method: it declares what it will ask."""

    def schedule(self, n: int) -> Schedule:
        """Declare what will be asked of a table of n records."""


@dataclass(frozen=True)
class Plan:
    """What a method will ask of n records, and with how much noise, to keep a budget."""

    method: Any
    n: int
    budget: Budget
    schedule: Schedule
    """The queries with their noise multipliers."""
    capacities: tuple[tuple[str, int], ...]
    """The static size of each sample whose size is random."""
    truncation_delta: float
    """The part of δ that pays for samples that would outgrow it."""
    elsewhere: int = 0
    """How many kinds of query the other stages of the same run ask, by plans of their own."""

    def noise(self) -> dict[str, np.float32]:
        """Return each query's noise multiplier in float32, rounded up."""
        if not self.budget.is_private:
            return {query.name: np.float32(0) for query in self.schedule}
        return {q.name: np.nextafter(np.float32(q.noise_multiplier), np.float32(np.inf)) for q in self.schedule}

    def __str__(self) -> str:
        promise = (
            f"({self.budget.epsilon:g}, {self.budget.delta:g})-DP, neighbors = {self.budget.neighbors}, n = {self.n}"
        )
        rows = [
            f"  {query.name}: {query.count} times, of {query.sampling}; "
            f"noise multiplier {query.noise_multiplier:.4g}, clip {query.clip}"
            for query in self.schedule
        ]
        if self.budget.is_private:
            rows.append(f"  {100 * arithmetic.INFLATION:.2g} % of the noise pays for rounding: the promise covers bits")
        return "\n".join([f"{type(self.method).__name__}: {promise}", *rows])


def plan(method: Scheduled, n: int, budget: Budget) -> Plan:
    """Return the schedule and the calibrated noise of a method on n records, before any data is read.

    Args:
      method: a configuration such as `gs.methods.SGD(steps=500)`.
      n: the number of records.
      budget: what may be spent.
    """
    if isinstance(method, type) or not hasattr(method, "schedule"):
        raise not_a_method(method)
    check_budget(budget)
    n = plain(n)
    if not is_whole(n):
        raise ValueError(f"n = {shown(n)} must be a whole number of at least 1: the number of records.")
    warn_if_weak(n, budget)
    schedule = method.schedule(n)
    if not isinstance(schedule, Schedule):
        raise TypeError(
            f"{type(method).__name__}.schedule(n) returned {shown(schedule)}; it must return "
            "gs.Schedule((gs.Query(name, count), ...)), all that the method will ask."
        )
    sizes, lost = accounting.capacities(schedule, n, budget)
    return Plan(
        method=method,
        n=n,
        budget=budget,
        schedule=accounting.calibrate(schedule, budget, n),
        capacities=tuple(sizes.items()),
        truncation_delta=lost if budget.is_private else 0.0,
    )


def not_a_method(method: Any) -> TypeError:
    """Return the error for what is no method."""
    return TypeError(
        f"method = {shown(method)} must be an instance of a class in gs.methods, such as gs.methods.GD(), or of a "
        "subclass of gs.methods.Method of your own."
    )


def warn_if_weak(n: int, budget: Budget) -> None:
    """Warn of a δ that allows what nobody would call private."""
    if budget.is_private and budget.delta >= 1 / n:
        warnings.warn(
            f"delta = {budget.delta:g} is not below 1/n = {1 / n:g}: releasing one random record in the clear would "
            "be allowed. Choose it well below, for instance n ** -1.1.",
            WeakGuaranteeWarning,
            stacklevel=3,
        )
