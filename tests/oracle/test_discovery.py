"""Discovery: its cost, what a single record can do, and twins that see it."""

import dataclasses
import math

import jax
import numpy as np
import pytest
from scipy import stats

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.oracle.discovery import discovered
from gossamer.privacy import accounting
from gossamer.privacy.discovery import Discovery
from gossamer.privacy.schedule import Query, Schedule

COMMON = np.array(["no"] * 500 + ["yes"] * 400 + [""] * 50, object)


def test_what_is_frequent_is_found_in_alphabetical_order_and_nothing_missing():
    found = discovered([COMMON[::-1], COMMON], Discovery(2, 5.0), 10.0, new_key(0))
    assert found == (("no", "yes"), ("no", "yes"))
    rare = np.append(COMMON, "unique")
    assert discovered([rare], Discovery(1, 5.0), 10.0, new_key(1)) == (("no", "yes"),)
    assert discovered([rare], Discovery(1, 5.0), 0.0, new_key(1)) == (("no", "unique", "yes"),)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_the_deviation_is_what_the_noise_multiplier_stands_for(neighbors):
    """A replaced record moves two counts in each of c columns, an absent one moves one: √(2c)/s = 2/σ, √c/s = 1/σ."""
    c, sigma = 3, 7.0
    deviation = Discovery(c, 5.0).deviation(sigma, neighbors)
    moved, charged = (math.sqrt(2 * c), 2) if neighbors == "replace_one" else (math.sqrt(c), 1)
    assert moved / deviation == pytest.approx(charged / sigma)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_slips_are_charged_with_one_and_e_to_the_epsilon(neighbors):
    budget = gs.Budget(1.0, 1e-5, neighbors)
    discovery = Discovery.within(budget, 4)
    beta = 4 * stats.norm.sf(discovery.threshold)
    schedule = Schedule((Query("values", 1, discovery), Query("gradient", 10)))
    assert accounting.truncation(schedule, 1000, {}, 1.0) == pytest.approx((1 + math.e) * beta, rel=1e-6)
    assert (1 + math.e) * beta == pytest.approx(2e-4 * 1e-5, rel=1e-6)
    _, lost = accounting.capacities(schedule, 1000, budget)
    assert lost == pytest.approx((1 + math.e) * beta, rel=1e-6)
    coarse = Schedule((Query("values", 1, Discovery(4, 3.0)), Query("gradient", 10)))
    with pytest.raises(gs.AccountingError):
        accounting.capacities(coarse, 1000, budget)


def shares_seen(release, runs=400):
    """Return how often a unique value is released from a table that has it, and from its neighbour that has not."""
    tables = [np.append(COMMON, "unique"), np.append(COMMON, "no")]
    return [sum("unique" in release(table, seed) for seed in range(runs)) / runs for table in tables]


@pytest.mark.slow
def test_an_audit_with_a_unique_value_and_its_twins():
    """(ε, δ) = (1, 1e-2): a neighbour never tells the value, so that it may be told in 1 % of runs: 3.5 % with 5 s.e.

    The twins tell it: without a threshold in about 64 % of the runs, without noise always.
    """
    budget = gs.Budget(1.0, 1e-2)
    discovery = Discovery.within(budget, 1)
    with pytest.warns(gs.WeakGuaranteeWarning):
        noise = gs.plan(_Counting(discovery), len(COMMON) + 1, budget).schedule["values"].noise_multiplier
    deviation = discovery.deviation(noise, "replace_one")

    def release(table, seed, threshold=discovery.threshold):
        return discovered([table], dataclasses.replace(discovery, threshold=threshold), deviation, new_key(seed))[0]

    honest = shares_seen(release)
    assert honest[0] <= 1e-2 + 5 * math.sqrt(1e-2 / 400) and honest[1] == 0
    told = shares_seen(lambda table, seed: release(table, seed, threshold=1e-9))
    assert told[0] > 0.5 and told[1] == 0
    exact = shares_seen(lambda table, seed: discovered([table], discovery, 0.0, new_key(seed))[0], runs=2)
    assert exact == [1, 0]


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_slips_charged_with_beta_alone_would_be_too_cheap(epsilon):
    """By closed forms, for one column and an absent record, at thresholds so low that slips matter: z = 2, s = 2.

    With the record its value has count 1 and is told with chance p; without it, never. So δ(ε) ≥ p. Γ(ε) + (1 + e^ε)β
    pays for that; the twin, Γ(ε) + β, does not.
    """
    deviation, z = 2.0, 2.0
    p, beta, mu = stats.norm.sf(z - 1 / deviation), stats.norm.sf(z), 1 / deviation
    gamma = stats.norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * stats.norm.cdf(-epsilon / mu - mu / 2)
    assert gamma + beta < 0.5 * p
    assert p <= gamma + (1 + math.exp(epsilon)) * beta


@dataclasses.dataclass(frozen=True)
class _Counting:
    discovery: Discovery

    def schedule(self, n):
        return Schedule((Query("values", 1, self.discovery),))


@pytest.mark.slow
def test_the_noise_has_the_deviation_that_it_says():
    """5 standard errors of a deviation from 1000 draws; counts of 1000 values that occur 100 times each."""
    values = np.repeat([f"{i:04}" for i in range(1000)], 100).astype(object)
    above = [len(discovered([values], Discovery(1, z), 40.0, new_key(3))[0]) / 1000 for z in (1.0, 2.5, 4.0)]
    expected = [stats.norm.cdf((100 - 40 * z) / 40) for z in (1.0, 2.5, 4.0)]
    assert above == pytest.approx(expected, abs=5 * math.sqrt(0.25 / 1000))


def test_other_keys_and_other_columns_are_refused():
    with pytest.raises(ValueError, match="planned for 2 columns, and there are 1"):
        discovered([COMMON], Discovery(2, 5.0), 1.0, new_key(0))
    with pytest.raises((TypeError, ValueError)):
        discovered([COMMON], Discovery(1, 5.0), 1.0, jax.random.key(0))
    with pytest.raises(ValueError, match="sampler's error"):
        discovered([COMMON], Discovery(1, 5.0), 1e30, new_key(0))
    for columns, threshold in ((0, 5.0), (1, 0.0), (1, math.inf)):
        with pytest.raises(ValueError, match="must be a"):
            Discovery(columns, threshold)


def test_the_order_of_what_is_found_says_nothing_and_that_of_first_appearance_would():
    """The twin lists values as they come: one record, the first, decides about it, with or without noise."""
    here = np.array(["yes", *["no", "yes"] * 200], object)
    there = here.copy()
    there[0] = "no"

    def by_first_appearance(table):
        (found,) = discovered([table], Discovery(1, 5.0), 10.0, new_key(0))
        return tuple(value for value in dict.fromkeys(table.tolist()) if value in found)

    assert discovered([here], Discovery(1, 5.0), 10.0, new_key(0)) == discovered(
        [there], Discovery(1, 5.0), 10.0, new_key(0)
    )
    assert by_first_appearance(here) == ("yes", "no") != by_first_appearance(there)


@pytest.mark.parametrize(
    ("column", "found"),
    [
        (["same"] * 400, ("same",)),
        (["-3", "100"] * 200, ("-3", "100")),
        (["1e300"] * 400, ("1e300",)),
        ([""] * 400, ()),
        ([f"patient {i}" for i in range(400)], ()),
    ],
    ids=["one value", "two atoms", "1e300", "all missing", "unique values"],
)
def test_columns_that_are_made_to_break_it(column, found):
    """Counts of 200 and 400 against a threshold of 50 and a deviation of 10; unique values pass it with chance 2e-4."""
    assert discovered([np.array(column, object)], Discovery(1, 5.0), 10.0, new_key(2)) == (found,)
