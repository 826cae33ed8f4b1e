"""Limits against closed forms. Areas and single points are tested in tests/audit/test_roc.py."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import gossamer as gs
from gossamer.privacy import tradeoff

ALPHA = np.linspace(0.0, 1.0, 501)


def limits(method, n, budget):
    planned = gs.plan(method, n, budget)
    return planned, tradeoff.scheduled(planned.schedule, budget, n, dict(planned.capacities))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 0.01), (3.0, 1e-5)])
def test_a_guess_at_even_odds_is_best_where_the_curve_is_farthest_from_blind_guessing(epsilon, delta):
    curve = tradeoff.certified(gs.Budget(epsilon, delta))
    fine = np.linspace(0.0, 1.0, 100_001)
    assert curve.even_odds() == pytest.approx(np.max(1 - curve.missed(fine) + 1 - fine) / 2, abs=1e-4)
    assert curve.even_odds() == pytest.approx((math.exp(epsilon) + delta) / (1 + math.exp(epsilon)))


@pytest.mark.parametrize(("neighbors", "distance"), [("replace_one", 2.0), ("add_remove", 1.0)])
def test_at_even_odds_full_passes_are_one_gaussian(neighbors, distance):
    """N(0, 1) against N(μ, 1): right with probability Φ(μ/2). Never below, and 0.1 % above."""
    planned, curve = limits(gs.methods.GD(steps=5), 500, gs.Budget(1.0, 1e-4, neighbors))
    mu = math.sqrt(5) * distance / planned.schedule["gradient"].noise_multiplier
    assert 0 <= curve.even_odds() - norm.cdf(mu / 2) < 1e-3 * norm.cdf(mu / 2)


def test_the_schedule_allows_less_than_its_budget_everywhere_and_more_than_blind_guessing():
    budget = gs.Budget(2.0, 1e-3)
    _, curve = limits(gs.methods.SGD(steps=50, batch_size=20), 100, budget)
    found = 1 - curve.missed(ALPHA)
    assert np.all(np.diff(found) >= 0)
    assert np.all(found <= 1 - tradeoff.certified(budget).missed(ALPHA) + 1e-12)
    assert np.all(found >= ALPHA)


def test_without_privacy_there_is_no_limit_and_a_huge_epsilon_is_no_accident():
    nothing = tradeoff.certified(gs.Budget(math.inf, 1e-3))
    assert (nothing.found(0.0), nothing.even_odds(), nothing.auc()) == (1.0, 1.0, 1.0)
    _, curve = limits(gs.methods.GD(steps=1), 10, gs.Budget(40.0, 1e-3))
    assert curve.even_odds() > 0.999
    assert np.all(np.isfinite(curve.missed(ALPHA)))


def test_the_envelope_of_two_is_the_larger_of_both():
    one, other = tradeoff.certified(gs.Budget(0.5, 0.05)), tradeoff.certified(gs.Budget(2.0, 1e-6))
    both = np.maximum(one.missed(ALPHA), other.missed(ALPHA))
    np.testing.assert_array_equal(one.together(other).missed(ALPHA), both)
    assert np.any(both > one.missed(ALPHA)) and np.any(both > other.missed(ALPHA))


def test_a_promise_as_risks():
    """One Gaussian answer: μ, advantage and groups by closed forms."""
    mu = 0.8
    epsilons = np.linspace(0.0, 4.0, 400)
    deltas = norm.cdf(mu / 2 - epsilons / mu) - np.exp(epsilons) * norm.cdf(-mu / 2 - epsilons / mu)
    curve = tradeoff.TradeOff(epsilons, deltas)
    assert curve.gaussian(4.0) == pytest.approx(mu, rel=1e-6)
    assert tradeoff.TradeOff(epsilons, 2 * deltas).gaussian(4.0) > 1.05 * mu
    assert curve.advantage() == pytest.approx(2 * norm.cdf(mu / 2) - 1, rel=1e-3)
    assert curve.right_accusations(0.5, 0.05) == pytest.approx(curve.found(0.05) / (curve.found(0.05) + 0.05))
    assert curve.right_accusations(0.01, 0.05) < curve.right_accusations(0.5, 0.05)
    assert curve.of_group(1).even_odds() == pytest.approx(curve.even_odds())
    assert curve.of_group(2).even_odds() >= norm.cdf(mu)  # what two records cost exactly
    assert curve.of_group(3).advantage() <= 1.0
    nothing = tradeoff.TradeOff(np.array([math.inf]), np.array([1e-5]))
    assert nothing.gaussian(1.0) == math.inf and nothing.of_group(2).even_odds() == 1.0
