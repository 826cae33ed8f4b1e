"""The accountant that decides: upper bounds on δ(ε) by privacy loss distributions, from dp-accounting."""

import math

import dp_accounting
from dp_accounting.pld import privacy_loss_distribution as pld_lib

from gossamer.base.exceptions import AccountingError
from gossamer.privacy.budget import Neighbors
from gossamer.privacy.saddle_point import Cost, loss_deviation, loss_range

RELATIONS = {
    "replace_one": dp_accounting.NeighboringRelation.REPLACE_ONE,
    "add_remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
}
_MOST_CELLS = 280_000


def compose(costs: list[Cost], neighbors: Neighbors, fineness: float = 1e-3) -> pld_lib.PrivacyLossDistribution:
    """Compose pessimistic privacy loss distributions on one grid, fine enough and yet small.

    Rounding one loss of deviation s to a grid of width h adds a variance of at most min(h²/4, s·h) to it; h is
    the largest width at which all of that stays below `fineness` of the composition's own variance. It must not
    ask for too many cells of one query either (each costs microseconds): a coarser grid is still an upper bound.
    """
    deviations = [loss_deviation(cost, neighbors) for cost in costs]
    variance = sum(cost.count * s**2 for cost, s in zip(costs, deviations, strict=True))

    def added(width: float) -> float:
        return sum(c.count * min(width**2 / 4, s * width) for c, s in zip(costs, deviations, strict=True))

    if all(cost.rate == 1.0 for cost in costs):
        fineness /= 100  # one Gaussian has so few cells that it may have ten times as many
    width = math.sqrt(variance)
    while added(width) > fineness * variance:
        width /= 1.5
    width = max(width, max(loss_range(cost, neighbors) for cost in costs) / _MOST_CELLS)

    relation = RELATIONS[neighbors]
    total = None
    for cost in costs:
        one = pld_lib.from_gaussian_mechanism(
            standard_deviation=cost.noise_multiplier,
            sampling_prob=cost.rate,
            value_discretization_interval=width,
            neighboring_relation=relation,
        )
        if cost.count > 1:
            one = one.self_compose(cost.count)
        total = one if total is None else total.compose(one)
    if total is None:
        raise AccountingError("a schedule without queries costs nothing and needs no budget.")
    return total
