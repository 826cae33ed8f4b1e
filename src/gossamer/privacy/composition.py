"""What several releases about the same records cost together."""

import math
from collections.abc import Sequence

from gossamer.base.exceptions import AccountingError
from gossamer.base.messages import is_number, shown
from gossamer.privacy import accounting, pld
from gossamer.privacy.certificate import Certificate
from gossamer.privacy.saddle_point import Cost

_ROUNDS = 100
_SETTLED = 1e-9


def compose(certificates: Sequence[Certificate], delta: float) -> float:
    """Return ε at δ of releases on the same records, all of them together, by privacy loss distributions.

    *What it covers:* a list that was fixed beforehand. If one result decides whether or how a later run is made, use a
    `gs.BudgetFile`: this computation does not hold then. Everything on the certificates is charged: what was bought
    before a training, and samples that are cut. A search counts by its own ε and δ, which are added.

    *Why.* The queries of all runs, given all answers before, are those of one run with all of them, so that their
    privacy losses add up. Disjoint blocks are disjoint within one run only: each run's blocks cost on their own. What
    rounding and perturbed objectives cost adds up in ε and multiplies in δ (`Schedule.surcharge`).

    Args:
      certificates: what was released, each about the same n records, neighbours and unit.
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
    _check(certificates, delta)
    if not all(certificate.is_private for certificate in certificates):
        return math.inf
    chosen = [each for each in certificates if each.selection is not None]
    others = [each for each in certificates if each.selection is None]
    epsilon = math.fsum(each.epsilon for each in chosen)
    left = delta - math.fsum(each.delta for each in chosen)
    return epsilon + _together(others, left) if left > 0 else math.inf


def _together(certificates: list[Certificate], delta: float) -> float:
    """Return ε of runs whose queries are known."""
    if not certificates:
        return 0.0
    neighbors = certificates[0].neighbors
    costs: list[Cost] = accounting.merged(
        [cost for each in certificates for cost in accounting.costs_of(each.schedule, neighbors)]
    )
    if accounting.is_hopeless(costs, neighbors):
        return math.inf
    extras = [each.schedule.surcharge(neighbors) for each in certificates]
    extra, factor = math.fsum(each.epsilon for each in extras), math.prod(each.factor for each in extras)
    composed = pld.compose(costs, neighbors)
    epsilon = 0.0
    for _ in range(_ROUNDS):  # ε rises with what samples cost that are cut, and that with ε
        cut = math.fsum(accounting.truncation(c.schedule, c.n, c.capacities, epsilon) for c in certificates)
        noise = (delta - cut) / factor
        if noise < accounting.SMALLEST_DELTA:
            return math.inf
        found = extra + float(composed.get_epsilon_for_delta(noise))
        if found <= epsilon:
            return epsilon
        epsilon = found * (1 + _SETTLED)
    raise AccountingError(f"the joint cost did not settle at delta = {delta:g}. Allow a larger delta.")


def _check(certificates: list[Certificate], delta: float) -> None:
    """Refuse what does not add up."""
    if not (certificates and all(isinstance(each, Certificate) for each in certificates)):
        raise TypeError(f"certificates = {shown(certificates)} must be a list of certificates, at least one.")
    if not (is_number(delta) and 0 < delta < 1):
        raise ValueError(f"delta = {shown(delta)} must be strictly between 0 and 1.")
    for name, what in (("n", "numbers of records"), ("neighbors", "neighbours"), ("unit", "units")):
        found = {str(getattr(each, name)) for each in certificates}
        if len(found) > 1:
            raise ValueError(
                f"the certificates have different {what} ({', '.join(sorted(found))}), so they are not about the same "
                "records, or do not promise the same. Compose those that agree."
            )
