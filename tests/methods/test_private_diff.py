"""PrivateDiff: the settings of Theorems 5 and 6, and what its schedule takes for typical."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import optimize, stats

import gossamer as gs
from gossamer.methods import PrivateDiff

BUDGET = gs.Budget(1.0, math.exp(-1))


def _theory(n, d, budget=BUDGET, **options):
    return PrivateDiff.for_problem(n, d, smoothness=1.0, strong_concavity=0.5, budget=budget, **options)


def test_settings_of_theorem_6():
    """s = 1000/√(1·1) = 10³: R = s^(4/3) = 10⁴ rounds, a refresh every T = 10⁻²·10⁴ = 100 of them; κ = 2, L = 3."""
    method = _theory(1_000, 1, clip_x=2.0)
    assert (method.steps, method.period, method.inner_steps, method.output) == (10_000, 100, 2, "random")
    assert (method.batch_size, method.difference_batch_size) == (1_000, 100)
    assert (method.clip_x, method.clip_floor, method.learning_rate_y) == (2.0, 2e-6, 1.0)
    assert (method.smoothness_x, method.smoothness_y) == (1.0, 1.0)
    tiny = _theory(10, 10**6)
    assert (tiny.steps, tiny.period) == (1, 1)
    assert [(query.name, query.count) for query in tiny.schedule(10)] == [("ascent", 2), ("gradient", 1)]


def test_the_step_size_of_theorem_6():
    """σ√T = 2√(2kTR)/s = 2√(2k) here, and η_x = 1/(2 C2 σ√T), with k = 3 and C2 = L = 3, or k = 2 and C2 = l = 1."""
    assert math.isclose(_theory(1_000, 1).learning_rate_x, 1 / (12 * math.sqrt(6)))
    assert math.isclose(_theory(1_000, 1, ascent="public").learning_rate_x, 1 / 8)
    # Half the noise would allow 1/4; Φ's smoothness allows 1/(2L).
    assert _theory(1_000, 1, gs.Budget(1.0, math.exp(-1), "add_remove"), ascent="public").learning_rate_x == 1 / 6


def test_small_samples_are_enlarged():
    """d = 125² leaves s = 8: R = 16, T = 4, so 4 refreshes and 12 differences: 10³·√(1/16) and 10³·√(1/48) records."""
    method = _theory(1_000, 125**2)
    assert (method.steps, method.period) == (16, 4)
    assert (method.batch_size, method.difference_batch_size) == (250, 144)


@pytest.mark.parametrize("ascent", ["gradient", "best_response", "public"])
def test_every_kind_of_query_gets_the_same_share(ascent):
    method = _theory(1_000, 5, ascent=ascent)
    shares = [query.count * query.sampling.rate**2 / query.noise**2 for query in method.schedule(1_000)]
    assert method.inner_steps == (1 if ascent == "best_response" else 2)
    assert len(shares) == (2 if ascent == "public" else 3)
    np.testing.assert_allclose(shares, shares[0], rtol=1e-12)
    chosen = (1.0, 2.0, 3.0)[: len(shares)]
    assert _theory(1_000, 5, ascent=ascent, noise=chosen).noise == chosen


@pytest.mark.parametrize("ascent", ["gradient", "public"])
def test_the_step_size_knows_the_noise(ascent):
    """σ = 2√(2kR)/s against the calibrated noise of a difference: smaller by what √(2 ln(1/δ))/ε overestimates.

    The Gaussian mechanism's exact noise is the root of Balle and Wang's δ(ε); the queries here are many and small, so
    they compose to it up to a few per cent, and a wrong k (22 %) or a forgotten factor shows.
    """
    n, d, budget = 10_000, 5, gs.Budget(1.0, 1e-6)
    method = _theory(n, d, budget, ascent=ascent)
    query = gs.plan(method, n, budget).schedule["difference"]
    measured = query.noise_multiplier * math.sqrt(d) / query.sampling.size(n)
    change, kinds = (1.0, 2) if ascent == "public" else (3.0, 3)
    s = n / math.sqrt(d * math.log(1e6))
    taken = 2 * math.sqrt(2 * kinds * method.steps) / s
    assert math.isclose(method.learning_rate_x, 0.5 / (change * taken * math.sqrt(method.period)))

    def excess(sigma):
        return stats.norm.cdf(0.5 / sigma - sigma) - math.e * stats.norm.cdf(-0.5 / sigma - sigma) - 1e-6

    exact = optimize.brentq(excess, 1.0, 10.0) / math.sqrt(2 * math.log(1e6))
    assert abs(measured / taken / exact - 1) < 0.04


def test_a_y_that_records_do_not_meet_does_not_widen_a_difference():
    """The weight of a difference: (period − 1)/2 · (threshold/rate)², the threshold for a step of length η_x·clip_x."""
    method = PrivateDiff(
        period=5, learning_rate_x=0.1, clip_x=2.0, smoothness_x=0.5, clip_floor=0.01, batch_size=50, ascent="public"
    )
    difference = method.schedule(100)["difference"]
    assert math.isclose(difference.weight, 2 * ((0.5 * 0.1 * 2.0 + 0.01) / 0.5) ** 2, rel_tol=1e-6)
    assert difference.clip == "min(4, 0.5‖Δx‖ + 0.01)"
    met = dataclasses.replace(method, ascent="gradient", learning_rate_y=0.2, clip_y=3.0, smoothness_y=0.7)
    weight = met.schedule(100)["difference"].weight
    assert math.isclose(weight, 2 * ((0.1 + 0.7 * 0.2 * 3.0 + 0.01) / 0.5) ** 2, rel_tol=1e-6)
