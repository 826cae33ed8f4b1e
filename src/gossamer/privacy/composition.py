"""What several releases about the same records cost together."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from gossamer.base.exceptions import AccountingError
from gossamer.base.messages import is_number, shown
from gossamer.privacy import accounting, pld
from gossamer.privacy.budget import Neighbors
from gossamer.privacy.certificate import Certificate
from gossamer.privacy.planning import Plan
from gossamer.privacy.saddle_point import Cost
from gossamer.privacy.schedule import Schedule

_ROUNDS = 100
_SETTLED = 1e-9


class _Release(NamedTuple):
    """What both a certificate and a plan say."""

    schedule: Schedule
    n: int
    capacities: dict[str, int]
    neighbors: Neighbors
    unit: str
    apart: tuple[float, float] | None
    """ε and δ of what is not known by its queries alone: a search."""
    is_private: bool


def compose(certificates: Sequence[Certificate | Plan], delta: float) -> float:
    """Return ε at δ of releases on the same records, all of them together, by privacy loss distributions.

    *What it covers:* a list that was fixed beforehand. If one result decides whether or how a later run is made, use a
    `gs.BudgetFile`: this computation does not hold then. Everything on the certificates is charged: what was bought
    before a training, and samples that are cut. A search counts by its own ε and δ, which are added.

    *Why.* The queries of all runs, given all answers before, are those of one run with all of them, so that their
    privacy losses add up. Disjoint blocks are disjoint within one run only: each run's blocks cost on their own. What
    rounding and perturbed objectives cost adds up in ε and multiplies in δ (`Schedule.surcharge`).

    Args:
      certificates: what was released, each about the same n records, neighbours and unit. Plans of what is still to
        be released (`gs.plan`) do as well.
      delta: δ of all of them together.

    Example:
      >>> import gossamer as gs, jax.numpy as jnp
      >>> def fit():
      ...     return gs.solve(
      ...         gs.ERM(gs.objectives.logistic), (jnp.ones((100, 3)), jnp.ones(100)), gs.methods.GD(steps=5),
      ...         gs.Budget(1.0, 1e-5), init={"weights": jnp.zeros(3), "intercept": jnp.zeros(())},
      ...     )
      >>> round(gs.compose([fit().certificate, fit().certificate], delta=1e-5), 2)
      1.46
    """
    certificates = list(certificates)
    if not (certificates and all(isinstance(each, Certificate | Plan) for each in certificates)):
        raise TypeError(f"certificates = {shown(certificates)} must be a list of certificates, at least one.")
    releases = [_release(each) for each in certificates]
    _check(releases, delta)
    if not all(each.is_private for each in releases):
        return math.inf
    apart = [each.apart for each in releases if each.apart is not None]
    epsilon = math.fsum(epsilon for epsilon, _ in apart)
    left = delta - math.fsum(delta for _, delta in apart)
    others = [each for each in releases if each.apart is None]
    if not others:
        return epsilon if left >= -_SETTLED * delta else math.inf
    return epsilon + _together(others, left) if left > 0 else math.inf


def _release(each: Certificate | Plan) -> _Release:
    if isinstance(each, Plan):
        budget = each.budget
        return _Release(
            each.schedule,
            each.n,
            dict(each.capacities),
            budget.neighbors,
            unit="row",
            apart=None,
            is_private=budget.is_private,
        )
    apart = None if each.selection is None else (each.epsilon, each.delta)
    return _Release(
        each.schedule,
        each.n,
        each.capacities,
        each.neighbors,
        unit=each.unit.scope,
        apart=apart,
        is_private=each.is_private,
    )


def _together(releases: list[_Release], delta: float) -> float:
    """Return ε of runs whose queries are known."""
    neighbors = releases[0].neighbors
    costs: list[Cost] = accounting.merged(
        [cost for each in releases for cost in accounting.costs_of(each.schedule, neighbors)]
    )
    if accounting.is_hopeless(costs, neighbors):
        return math.inf
    extras = [each.schedule.surcharge(neighbors) for each in releases]
    extra, factor = math.fsum(each.epsilon for each in extras), math.prod(each.factor for each in extras)
    composed = pld.compose(costs, neighbors)
    epsilon = 0.0
    for _ in range(_ROUNDS):  # ε rises with what samples cost that are cut, and that with ε
        cut = math.fsum(accounting.truncation(c.schedule, c.n, c.capacities, epsilon) for c in releases)
        noise = (delta - cut) / factor
        if noise < accounting.SMALLEST_DELTA:
            return math.inf
        found = extra + float(composed.get_epsilon_for_delta(noise))
        if found <= epsilon:
            return epsilon
        epsilon = found * (1 + _SETTLED)
    raise AccountingError(f"the joint cost did not settle at delta = {delta:g}. Allow a larger delta.")


def _check(releases: list[_Release], delta: float) -> None:
    """Refuse what does not add up."""
    if not (is_number(delta) and 0 < delta < 1):
        raise ValueError(f"delta = {shown(delta)} must be strictly between 0 and 1.")
    for name, what in (("n", "numbers of records"), ("neighbors", "neighbours"), ("unit", "units")):
        found = {str(getattr(each, name)) for each in releases}
        if len(found) > 1:
            raise ValueError(
                f"the certificates have different {what} ({', '.join(sorted(found))}), so they are not about the same "
                "records, or do not promise the same. Compose those that agree."
            )
