"""The filter theorem: against every adaptive analyst of small mechanisms, with two filters that look right and fail."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import stats
from testkit.selecting import discrete, gaussian

import gossamer as gs
from gossamer.base.exceptions import AccountingError
from gossamer.privacy import accounting
from gossamer.privacy.accounting import gaussian_delta
from gossamer.privacy.envelope import envelope, largest_gaussian
from gossamer.privacy.sampling import Poisson
from gossamer.privacy.schedule import Query, Schedule


def stick(pair, gamma):
    p, q = pair
    return float(np.maximum(p - gamma * q, 0.0).sum())


def worst_analyst(pairs, allowed, gamma, path=(), depth=3):
    """Return H_γ of everything an analyst sees who chooses each next mechanism by what was seen, as badly as possible.

    Given an outcome y, what follows is measured at γ·Q(y)/P(y): so the best choice for each y is found on its own.

    Args:
      pairs: the mechanisms, each a pair of laws.
      allowed: `allowed(path)` → whether the mechanisms of a path, by number, may all be used.
      gamma: e^ε.
      path: what was used so far.
      depth: how many more may be used.
    """
    largest = max(0.0, 1 - gamma)
    if depth == 0:
        return largest
    for number, (p, q) in enumerate(pairs):
        if allowed((*path, number)):
            value = sum(
                a * worst_analyst(pairs, allowed, gamma * b / a, (*path, number), depth - 1)
                for a, b in zip(p, q, strict=True)
                if a > 0
            )
            largest = max(largest, value)
    return largest


def mechanisms(seed):
    """Return pairs of three kinds: a coin, one that rarely tells everything, and an asymmetric one."""
    draw = np.random.default_rng(seed)
    coin = 1 / (1 + math.exp(draw.uniform(0.05, 0.6)))
    rare = draw.uniform(1e-3, 0.02)
    weights = draw.gamma(3.0, size=(2, 3))
    p, q = weights / weights.sum(-1, keepdims=True)
    mixed = 0.8 * p + 0.2 * q
    return [
        (np.array([1 - coin, coin]), np.array([coin, 1 - coin])),
        (np.array([rare, 1 - rare, 0.0]), np.array([0.0, 1 - rare, rare])),
        (p, mixed),
    ]


def enveloped(pair, tail):
    forth, back = discrete(*pair), discrete(*pair[::-1])
    return envelope(lambda e: np.maximum(forth(e), back(e)), tail)


@pytest.mark.parametrize("seed", range(3))
def test_no_analyst_beats_the_envelopes(seed):
    """All adaptive policies of depth 3, for several pools; and the bound is not idle: it is met within a factor."""
    pairs = mechanisms(seed)
    tails = [1e-4, 0.02, 1e-4]
    costs = [(enveloped(pair, tail) ** 2, tail) for pair, tail in zip(pairs, tails, strict=True)]
    for r, tail in [(2.5 * costs[0][0], 0.03), (sum(mu for mu, _ in costs), 0.05), (3.01 * max(costs)[0], 0.061)]:

        def allowed(path, r=r, tail=tail):
            return sum(costs[i][0] for i in path) <= r and sum(costs[i][1] for i in path) <= tail

        assert any(allowed(path) for path in itertools.product(range(3), repeat=2))
        for gamma in (1.0, 1.3, 2.0, 5.0):
            for way in (pairs, [pair[::-1] for pair in pairs]):
                bound = tail + (1 - tail) * float(gaussian(math.sqrt(r))(math.log(gamma)))
                assert worst_analyst(way, allowed, gamma) <= bound + 1e-12


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3, 60))
def test_no_analyst_beats_the_envelopes_in_many_cases(seed):
    test_no_analyst_beats_the_envelopes(seed)


def cells(mu, count=120):
    """Return a Gaussian pair in cells: nearly as telling."""
    edges = np.concatenate([[-np.inf], np.linspace(-7.0, 7.0 + mu, count), [np.inf]])
    return np.diff(stats.norm.cdf(edges - mu)), np.diff(stats.norm.cdf(edges))


def together(pairs):
    """Return the pair of several mechanisms that are all used."""
    return tuple(functools.reduce(np.multiply.outer, side).ravel() for side in zip(*pairs, strict=True))


FIRST, RARE, GAMMA = cells(0.25), 0.004, math.exp(1.0)


@pytest.fixture(scope="module")
def full():
    """Return three mechanisms, δ, and μ²: after the first, either of the others fills δ at ε = 1 to the brim."""
    leak = (np.array([RARE, 1 - RARE, 0.0]), np.array([0.0, 1 - RARE, RARE]))
    delta = stick(together([FIRST, leak]), GAMMA)
    grid = np.linspace(0.2, 0.6, 401)
    mu = max(mu for mu in grid if stick(together([FIRST, cells(mu)]), GAMMA) <= delta)
    return [FIRST, leak, cells(mu)], delta, mu


def test_the_natural_filter_fails(full):
    """The twin: compose all mechanisms so far and compare with (ε, δ). After a telling first result, the Gaussian."""
    pairs, delta, _ = full

    @functools.cache
    def allowed(path):
        return path.count(0) <= 1 and stick(together([pairs[i] for i in path]), GAMMA) <= delta * (1 + 1e-9)

    assert worst_analyst(pairs, allowed, GAMMA, depth=2) > 1.2 * delta


def test_pools_that_move_fail(full):
    """The twin: what one pool does not use pays for another, as long as d + δ_√r(ε) ≤ δ holds after each run."""
    pairs, _, mu = full
    spent = [(0.25**2, 0.0), (0.0, RARE), (mu**2, 0.0)]

    def delta_of(path):
        r, d = (sum(spent[i][k] for i in path) for k in (0, 1))
        return d + (float(gaussian(math.sqrt(r))(1.0)) if r else 0.0)

    delta = max(delta_of((0, 1)), delta_of((0, 2)))
    assert (
        worst_analyst(pairs, lambda path: path.count(0) <= 1 and delta_of(path) <= delta, GAMMA, depth=2) > 1.1 * delta
    )

    def static(path):
        return (
            path.count(0) <= 1 and sum(spent[i][0] for i in path) <= 0.25**2 and sum(spent[i][1] for i in path) <= RARE
        )

    assert worst_analyst(pairs, static, GAMMA, depth=2) <= RARE + float(gaussian(0.25)(1.0))


def test_the_envelope_of_a_gaussian_is_itself():
    for mu in (0.02, 0.24, 1.5):
        for tail in (1e-6, 1e-9):
            assert envelope(gaussian(mu), tail) == pytest.approx(mu, rel=2e-4)
    assert envelope(gaussian(0.24), 1e-3) < 0.24  # chance pays for the tail


def test_the_envelope_of_full_passes_is_that_of_their_sum():
    schedule = accounting.calibrate(Schedule((Query("g", 50), Query("h", 7))), gs.Budget(1.0, 1e-6), 1000)
    costs = accounting.costs_of(schedule)
    profile = accounting.profile(costs, "replace_one", schedule.surcharge("replace_one"))
    assert envelope(profile, 1e-8) == pytest.approx(accounting.gaussian_mu(costs, "replace_one"), rel=5e-4)


@pytest.mark.deep
def test_a_heavy_tail_costs_more_and_less_the_more_is_left_to_chance():
    schedule = accounting.calibrate(Schedule((Query("g", 300, Poisson(0.002)),)), gs.Budget(1.0, 1e-6), 10_000)
    for neighbors in ("replace_one", "add_remove"):
        profile = accounting.profile(accounting.costs_of(schedule, neighbors), neighbors, schedule.surcharge(neighbors))
        at = [envelope(profile, tail) for tail in (1e-9, 1e-7, 1e-5)]
        assert at == sorted(at, reverse=True)
        for mu, tail in zip(at, (1e-9, 1e-7, 1e-5), strict=True):
            epsilons = np.linspace(0.0, 20.0, 3001)
            assert np.all(profile(epsilons) <= (1 - tail) * gaussian_delta(mu, epsilons) + tail)
    assert at[0] > 1.1 * math.sqrt(largest_gaussian(1.0, 1e-6))


def test_what_has_no_envelope_is_refused():
    with pytest.raises(AccountingError, match="has no envelope"):
        envelope(lambda e: np.full_like(e, 0.1), 1e-3)


def test_the_largest_gaussian_keeps_the_promise_and_wastes_nothing():
    for epsilon, delta in [(0.1, 1e-7), (1.0, 1e-6), (8.0, 1e-5)]:
        mu = math.sqrt(largest_gaussian(epsilon, delta))
        assert 0.999 * delta < float(gaussian(mu)(epsilon)) <= delta
