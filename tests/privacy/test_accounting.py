"""Calibration and accountants: against closed forms, against each other, and at the extremes."""

import math
import subprocess
import sys

import dp_accounting
import numpy as np
import pytest
from dp_accounting import gaussian_mechanism
from scipy import stats
from testkit.rings import deep_but

import gossamer as gs
from gossamer.privacy import accounting, saddle_point
from gossamer.privacy.saddle_point import Cost
from gossamer.privacy.sampling import Blocks, Poisson
from gossamer.privacy.schedule import Query, Schedule

RELATIONS = {
    "replace_one": dp_accounting.NeighboringRelation.REPLACE_ONE,
    "add_remove": dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
}


def outside_epsilon(schedule, delta, neighbors):
    """ε recomputed with dp-accounting alone, from what a certificate's schedule says."""
    accountant = dp_accounting.pld.PLDAccountant(RELATIONS[neighbors])
    for query in schedule:
        event = dp_accounting.GaussianDpEvent(query.noise_multiplier)
        if query.sampling.rate < 1:
            event = dp_accounting.PoissonSampledDpEvent(query.sampling.rate, event)
        accountant.compose(event, query.count)
    return accountant.get_epsilon(delta)


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize("epsilon", deep_but([0.3, 8.0], 8.0))
@pytest.mark.parametrize(
    "queries",
    [
        (Query("gradient", 50),),
        (Query("gradient", 300, Poisson(0.02)),),
        (Query("refresh", 4), Query("difference", 200, Poisson(0.05))),
    ],
    ids=["full", "poisson", "both"],
)
def test_epsilon_recomputed_outside_equals_the_certificate(queries, epsilon, neighbors):
    schedule = accounting.calibrate(Schedule(queries), gs.Budget(epsilon, 1e-5, neighbors), 5000)
    recomputed = outside_epsilon(schedule, 1e-5, neighbors)
    assert recomputed <= epsilon * (1 + 1e-3)
    assert recomputed >= 0.99 * epsilon
    assert outside_epsilon(schedule, 1e-5, neighbors) == pytest.approx(
        outside_epsilon_of_event(schedule, neighbors), rel=1e-6
    )


def outside_epsilon_of_event(schedule, neighbors):
    return dp_accounting.pld.PLDAccountant(RELATIONS[neighbors]).compose(schedule.dp_event()).get_epsilon(1e-5)


@pytest.mark.parametrize(("neighbors", "sensitivity"), [("replace_one", 2.0), ("add_remove", 1.0)])
def test_full_passes_match_the_analytic_gaussian_mechanism(neighbors, sensitivity):
    """T passes with σ are one Gaussian with σ/√T: Balle and Wang's exact formula."""
    for epsilon, steps in [(0.1, 1), (1.0, 30), (20.0, 7)]:
        schedule = accounting.calibrate(Schedule((Query("g", steps),)), gs.Budget(epsilon, 1e-6, neighbors), 100)
        exact = sensitivity * math.sqrt(steps) * gaussian_mechanism.get_sigma_gaussian(epsilon, 0.999e-6)
        sigma = schedule["g"].noise_multiplier
        assert exact <= sigma <= 1.003 * exact


def test_the_contour_integral_is_exact_for_gaussians():
    for sigma, epsilon in [(1.0, 1.0), (0.3, 12.0), (10.0, 0.2), (2.0, 0.01)]:
        exact = stats.norm.cdf(0.5 / sigma - epsilon * sigma)
        exact -= math.exp(epsilon) * stats.norm.cdf(-0.5 / sigma - epsilon * sigma)
        ours = saddle_point.delta([Cost(1.0, sigma, 1)], epsilon, "add_remove")
        assert ours == pytest.approx(exact, rel=1e-3)  # the smoothing's own error is 2e-4


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", deep_but(["replace_one", "add_remove"], "replace_one"))
@pytest.mark.parametrize(
    "cost", [Cost(0.01, 1.0, 1000), Cost(0.5, 3.0, 50), Cost(0.9, 3.0, 50), Cost(0.001, 1.0, 100_000)]
)
def test_the_two_accountants_agree_on_samples(cost, neighbors):
    """They share no code; the PLD is an upper bound, and close."""
    exact = saddle_point.epsilon([cost], 1e-6, neighbors)
    query = Query("g", cost.count, Poisson(cost.rate), noise_multiplier=cost.noise_multiplier)
    bound = accounting.pld_epsilon(Schedule((query,)), 1e-6, neighbors)
    assert exact * (1 - 1e-4) <= bound <= exact * 1.005


def test_one_sampled_query_by_direct_integration():
    """δ = ∫ (p − e^ε q)₊ on a fine grid, for one query."""
    rate, sigma, epsilon = 0.3, 1.1, 0.4
    x = np.linspace(-15, 15, 400_001)
    zero, up, down = (stats.norm.pdf(x, m, sigma) for m in (0, 1, -1))
    p, q = (1 - rate) * zero + rate * up, (1 - rate) * zero + rate * down
    expected = np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x)
    ours = saddle_point.delta([Cost(rate, sigma, 1)], epsilon, "replace_one")
    assert ours == pytest.approx(expected, rel=1e-3)
    removed = np.trapezoid(np.maximum(p - math.exp(epsilon) * zero, 0), x)
    added = np.trapezoid(np.maximum(zero - math.exp(epsilon) * p, 0), x)
    ours = saddle_point.delta([Cost(rate, sigma, 1)], epsilon, "add_remove")
    assert ours == pytest.approx(max(removed, added), rel=1e-3)


def test_the_renyi_bound_is_above_the_exact_delta():
    for cost in (Cost(1.0, 2.0, 3), Cost(0.02, 0.9, 500)):
        exact = saddle_point.delta([cost], 2.0, "replace_one")
        bound = saddle_point.renyi_delta([cost], 2.0, "replace_one")
        assert exact < bound < 30 * exact


EXTREMES = [
    (1.0, [("g", 10**6, 1e-5)], "replace_one"),
    (10.0, [("g", 1, 1e-3)], "replace_one"),
    (40.0, [("g", 10**4, 0.01), ("r", 20, 1.0)], "add_remove"),
]


@pytest.mark.deep
@pytest.mark.parametrize(("epsilon", "queries", "neighbors"), EXTREMES)
def test_calibration_at_the_extremes_keeps_the_budget_and_wastes_little(epsilon, queries, neighbors):
    """Times and memory over a larger table: benchmarks/calibration.py. The smallest ε is in the next test."""
    schedule = Schedule(tuple(Query(name, count, Poisson(rate)) for name, count, rate in queries))
    calibrated = accounting.calibrate(schedule, gs.Budget(epsilon, 1e-6, neighbors), 10**5)
    accounted = accounting.pld_epsilon(calibrated, 1e-6, neighbors)
    assert 0.98 * epsilon <= accounted <= epsilon


@pytest.mark.deep
def test_calibration_at_the_smallest_epsilon_needs_little_memory():
    """In a process of its own: below 2 GB, imports included. (getrusage would count the parent's peak, too.)"""
    code = (
        "import re, gossamer as gs\n"
        "from gossamer.privacy import accounting\n"
        "s = gs.Schedule((gs.Query('g', 10**6, gs.Poisson(1e-3)),))\n"
        "s = accounting.calibrate(s, gs.Budget(0.01, 1e-6), 10**5)\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "print(accounting.pld_epsilon(s, 1e-6, 'replace_one'))\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    kilobytes, accounted = map(float, out.stdout.split())
    assert kilobytes * 1024 < 2e9
    assert 0.98 * 0.01 <= accounted <= 0.01


@pytest.mark.slow
def test_epsilon_is_monotone_in_noise():
    sigmas = [0.6, 1.0, 2.0, 5.0]
    epsilons = [saddle_point.epsilon([Cost(0.1, s, 100)], 1e-5, "replace_one") for s in sigmas]
    assert epsilons == sorted(epsilons, reverse=True)


@pytest.mark.slow
def test_the_automatic_split_minimises_the_weighted_noise():
    """At equal ε no other ratio gives a smaller Σ a_j σ_j²."""
    queries = (Query("refresh", 10, weight=1.0), Query("difference", 200, Poisson(0.1), weight=5.0))
    budget = gs.Budget(1.0, 1e-5)

    def objective(schedule):
        calibrated = accounting.calibrate(schedule, budget, 1000)
        return sum(query.weight * query.noise_multiplier**2 for query in calibrated)

    best = objective(Schedule(queries))
    automatic = Schedule(queries).ratios()
    for factor in (0.5, 0.8, 1.25, 2.0):
        noise = (automatic[0] * factor, automatic[1])
        tilted = Schedule(
            tuple(
                Query(q.name, q.count, q.sampling, weight=q.weight, noise=r)
                for q, r in zip(queries, noise, strict=True)
            )
        )
        assert objective(tilted) > best * 0.999


def test_explicit_ratios_are_kept():
    queries = (Query("a", 5, noise=1.0), Query("b", 5, Poisson(0.2), noise=3.0))
    calibrated = accounting.calibrate(Schedule(queries), gs.Budget(1.0, 1e-5), 100)
    assert calibrated["b"].noise_multiplier == pytest.approx(3 * calibrated["a"].noise_multiplier)


def test_results_are_cached():
    schedule, budget = Schedule((Query("g", 7),)), gs.Budget(0.77, 1e-5)
    assert accounting.calibrate(schedule, budget, 100) is accounting.calibrate(schedule, budget, 100)


def test_disjoint_blocks_cost_one_gaussian():
    once = accounting.calibrate(Schedule((Query("g", 1),)), gs.Budget(1.0, 1e-5), 1000)
    many = accounting.calibrate(Schedule((Query("g", 10, Blocks(100)),)), gs.Budget(1.0, 1e-5), 1000)
    assert many["g"].noise_multiplier == pytest.approx(once["g"].noise_multiplier)
    with pytest.raises(gs.AccountingError, match="add_remove"):
        accounting.calibrate(Schedule((Query("g", 10, Blocks(100)),)), gs.Budget(1.0, 1e-5, "add_remove"), 1000)
    with pytest.raises(gs.AccountingError, match="need 1100 rows but there are n = 1000"):
        accounting.calibrate(Schedule((Query("g", 11, Blocks(100)),)), gs.Budget(1.0, 1e-5), 1000)


def test_a_sample_that_is_never_cut_still_pays_for_its_precision():
    """(1 + e^ε)·count·(n·2⁻¹¹⁷ + n²·2⁻¹²⁷); for a sample with room for all rows that is everything."""
    schedule = Schedule((Query("gradient", 7, Poisson(0.5)), Query("refresh", 3)))
    expected = (1 + math.e) * 7 * (40 * 2.0**-117 + 1600 * 2.0**-127)
    assert accounting.truncation(schedule, 40, {"gradient": 40}, 1.0) == pytest.approx(expected, rel=1e-9)
    cut = math.exp(Poisson(0.5).log_overflow(40, 39))
    together = accounting.truncation(schedule, 40, {"gradient": 39}, 1.0)
    assert together == pytest.approx((1 + math.e) * 7 * cut + expected, rel=1e-9)


def test_a_budget_whose_samples_are_not_precise_enough_is_refused():
    schedule = Schedule((Query("gradient", 1000, Poisson(0.01)),))
    _, lost = accounting.capacities(schedule, 10**4, gs.Budget(30.0, 1e-6))
    assert lost <= 1e-9
    with pytest.raises(gs.AccountingError, match=r"epsilon = 60 is so large"):
        accounting.capacities(schedule, 10**4, gs.Budget(60.0, 1e-6))


def test_capacities_cover_the_tail_that_they_charge():
    """The charge is (1 + e^ε)·count·P(size > capacity), and a thousandth of δ at most."""
    for n, rate, count, epsilon in [(1000, 0.1, 100, 1.0), (10**6, 1e-3, 10**5, 0.1), (300, 0.5, 10, 8.0)]:
        schedule = Schedule((Query("g", count, Poisson(rate)),))
        budget = gs.Budget(epsilon, 1e-6)
        sizes, lost = accounting.capacities(schedule, n, budget)
        true = (1 + math.exp(epsilon)) * count * stats.binom.sf(sizes["g"], n, rate)
        assert true <= lost <= 1e-3 * budget.delta
        assert sizes["g"] < n * rate + 20 * math.sqrt(n * rate)


def test_a_noiseless_budget_has_no_noise():
    schedule = accounting.calibrate(Schedule((Query("g", 5),)), gs.Budget(math.inf, 1e-5), 10)
    assert schedule["g"].noise_multiplier == 0
    assert accounting.pld_epsilon(schedule, 1e-5, "replace_one") == math.inf


@pytest.mark.parametrize("budget", [gs.Budget(1e-12, 1e-9), gs.Budget(1.0, 1e-14)])
def test_a_budget_that_cannot_be_accounted_for_is_refused(budget):
    with pytest.raises(gs.AccountingError):
        accounting.calibrate(Schedule((Query("g", 10**6, Poisson(0.5)),)), budget, 1000)
