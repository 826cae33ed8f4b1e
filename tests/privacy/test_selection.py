"""The selection theorem: against brute force, against scores that are as bad as possible, against published bounds."""

import itertools
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import dp_event, rdp
from scipy import optimize
from testkit.selecting import adversarial, attained, best_of, discrete, gaussian, profile_bound

from gossamer.privacy.selection import select
from gossamer.privacy.trials import Trials, fixed, negative_binomial, poisson

LAWS = {
    "fixed": fixed(3),
    "poisson": poisson(4, 30),
    "geometric": negative_binomial(5, 1, 60),
    "eta 2": negative_binomial(6, 2, 40),
    "few": Trials((0.1, 0.2, 0.0, 0.3, 0.4)),
}
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0)


def random_pairs(count, outcomes, seed):
    """Return pairs of laws, some of their masses zero or tiny."""
    draw = np.random.default_rng(seed)
    weights = draw.gamma(0.7, size=(2, count, outcomes)) * draw.choice(
        [1.0, 1e-3, 0.0], p=[0.8, 0.1, 0.1], size=(2, count, outcomes)
    )
    weights[..., 0] += 1e-3
    return weights / weights.sum(-1, keepdims=True)


def worst(trials, p, q, epsilon):
    """Return the largest δ over all orders of the outcomes, and over both orders of the tables, for each pair."""
    orders = [list(order) for order in itertools.permutations(range(p.shape[-1]))]
    return np.max([attained(trials, a[:, o], b[:, o], epsilon) for o in orders for a, b in ((p, q), (q, p))], axis=0)


def theorem(trials, p, q, epsilon, places=1501):
    """Return E ψ(dQ/dP), the larger of both orders, of many pairs at once: ψ by trying many p, no cleverness."""

    def one(p, q):
        ratio = np.argsort(q / np.maximum(p, 1e-300), axis=-1)  # the best test takes the likeliest under P first
        x = np.concatenate([np.zeros((len(p), 1)), np.cumsum(np.take_along_axis(p, ratio, -1), -1)], -1).clip(0, 1)
        y = np.concatenate([np.zeros((len(p), 1)), np.cumsum(np.take_along_axis(q, ratio, -1), -1)], -1).clip(0, 1)
        at = np.sort(np.concatenate([np.linspace(0, 1, places), np.geomspace(1e-9, 1, places)]))
        out, slopes = np.empty(len(p)), trials.slope(at)
        for i in range(len(p)):
            g = np.interp(at, x[i], y[i])
            gaps = slopes[:, None] * p[i] - math.exp(epsilon) * trials.slope(g)[:, None] * q[i]
            out[i] = np.maximum(gaps, 0.0).max(0).sum()
        return out

    return np.maximum(one(p, q), one(q, p))


def violations(trials, count, outcomes, epsilon, seed, bound=theorem):
    p, q = random_pairs(count, outcomes, seed)
    return worst(trials, p, q, epsilon) - bound(trials, p, q, epsilon)


@pytest.mark.parametrize("law", LAWS)
def test_no_order_of_scores_beats_the_theorem(law):
    """All orders of 2 to 4 outcomes. A grid of p finds ψ up to 3e-3; the twin without G is beaten."""
    for seed, (outcomes, epsilon) in enumerate([(2, 0.1), (3, 0.5), (4, 1.0)]):
        assert violations(LAWS[law], 25, outcomes, epsilon, seed).max() < 3e-3


@pytest.mark.deep
@pytest.mark.parametrize("law", LAWS)
def test_no_order_of_scores_beats_the_theorem_on_thousands_of_pairs(law):
    for seed, (outcomes, epsilon) in enumerate(itertools.product((2, 3, 4, 5), EPSILONS)):
        assert violations(LAWS[law], 50, outcomes, epsilon, 100 + seed).max() < 3e-3


def without_trade_off(trials, p, q, epsilon):
    """The twin: as if the ranks of an outcome were the same on both tables."""
    return trials.mean * np.maximum(
        np.maximum(p - math.exp(epsilon) * q, 0).sum(-1), np.maximum(q - math.exp(epsilon) * p, 0).sum(-1)
    )


def test_a_bound_that_forgets_how_ranks_move_is_beaten():
    assert violations(LAWS["geometric"], 60, 3, 0.5, 1, bound=without_trade_off).max() > 0.01


def computed(trials, p, q, epsilon, cells):
    pairs = zip(p, q, strict=True)
    return np.array([select(discrete(a, b), trials, epsilon, reverse=discrete(b, a), cells=cells) for a, b in pairs])


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("cells", [30, 300])
def test_what_is_computed_is_never_below_what_is_attained(law, cells):
    for seed, epsilon in enumerate(EPSILONS):
        p, q = random_pairs(4, 3, 50 + seed)
        least = worst(LAWS[law], p, q, epsilon)
        bounds = [
            select(discrete(a, b), LAWS[law], epsilon, reverse=discrete(b, a), cells=cells)
            for a, b in zip(p, q, strict=True)
        ]
        assert np.all(np.array(bounds) >= least - 1e-12)


def test_what_is_computed_is_the_theorem():
    p, q = random_pairs(3, 3, 7)
    for law in LAWS.values():
        exact = theorem(law, p, q, 0.5, places=8001)
        bounds = [
            select(discrete(a, b), law, 0.5, reverse=discrete(b, a), cells=2000) for a, b in zip(p, q, strict=True)
        ]
        np.testing.assert_allclose(bounds, np.minimum(exact, 1.0), rtol=0.02, atol=1e-4)


def test_the_trade_off_of_the_wrong_order_is_beaten():
    """Of an asymmetric pair both orders are needed: with H(P‖Q) in place of H(Q‖P), brute force finds more."""
    p, q = np.array([0.0, 1.0]), np.array([0.2, 0.8])
    law = fixed(2)
    forth, back = discrete(p, q), discrete(q, p)
    least = float(worst(law, p[None], q[None], 0.1)[0])
    assert select(forth, law, 0.1, reverse=back) >= least
    assert select(forth, law, 0.1) < least


def test_a_law_that_is_never_one_has_a_constant():
    """f'(0) = 0: where G is 0 nothing of Q's is left, and a term stays that no profile value has."""
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.5, 0.5])
    least = float(worst(fixed(2), p[None], q[None], 2.0)[0])
    assert select(discrete(p, q), fixed(2), 2.0) >= least > 0.7


def test_one_trial_gives_back_its_own_profile():
    for epsilon in EPSILONS:
        assert select(gaussian(0.3), fixed(1), epsilon) == pytest.approx(float(gaussian(0.3)(epsilon)), rel=2e-9)
    nearly = Trials((0.0, 1 - 1e-7, 1e-7))
    assert select(gaussian(0.3), nearly, 1.0) == pytest.approx(float(gaussian(0.3)(1.0)), rel=0.01)


def affordable(bound, target=1e-6, most=0.24):
    """Return μ at which a bound on δ(1) meets the target."""
    return optimize.brentq(lambda mu: math.log(max(bound(mu), 1e-300) / target), 0.02, most, xtol=1e-5)


def gamma_of(mean, eta):
    """Return γ of the law without an end."""
    if eta == 1:
        return 1 / mean
    return optimize.brentq(lambda g: eta * (1 - g) / (g * (1 - g**eta)) - mean, 1e-6, 1 - 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("law", [negative_binomial(10, 1, 150), poisson(10, 60), negative_binomial(12, 2, 100)])
def test_a_bad_score_attains_it_within_one_percent_of_mu(law):
    mu = affordable(lambda mu: select(gaussian(mu), law, 1.0))
    assert attained(law, *adversarial(law, mu, 1.0), 1.0) <= 1e-6
    assert attained(law, *adversarial(law, 1.01 * mu, 1.0), 1.0) >= 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("eta", [2, 1])
@pytest.mark.parametrize("mean", [20, 5])
def test_it_is_below_the_published_profile_bound(mean, eta):
    gamma, law = gamma_of(mean, eta), negative_binomial(mean, eta, 600)
    ours = affordable(lambda mu: select(gaussian(mu), law, 1.0))
    theirs = affordable(lambda mu: profile_bound(gaussian(mu), eta, gamma, mean, 1.0))
    assert ours > 1.1 * theirs
    for epsilon in (0.3, 1.0, 2.0):
        assert select(gaussian(theirs), law, epsilon) <= profile_bound(gaussian(theirs), eta, gamma, mean, epsilon)


def test_it_is_below_the_published_profile_bound_for_poisson():
    for mu, epsilon, mean in [(0.1, 1.0, 10), (0.15, 1.0, 5), (0.1, 0.5, 20), (0.3, 2.0, 5)]:
        profile = gaussian(mu)
        moved = epsilon - mean * float(profile(0.0))
        theirs = mean * float(profile(moved)) if moved >= 0 else 1.0
        assert select(profile, poisson(mean, 200), epsilon) <= theirs * (1 + 1e-6)


@pytest.mark.parametrize(
    ("shape", "law"),
    [(1.0, negative_binomial(10, 1, 300)), (0.0, negative_binomial(10, 0, 600)), (math.inf, poisson(10, 100))],
)
def test_it_is_below_dp_accountings_repeat_and_select(shape, law):
    """A replaced record moves a sum by two thresholds: the event gets σ/2, which add/remove then measures."""
    mu = affordable(lambda mu: select(gaussian(mu), law, 1.0))
    sigma = 2 / mu  # of a query under replace-one
    event = dp_event.RepeatAndSelectDpEvent(dp_accounting.GaussianDpEvent(sigma / 2), 10, shape)
    accountant = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    theirs = accountant.compose(event).get_epsilon(1e-6)
    assert 1.0 < theirs < 2.0


def test_the_rdp_accountant_knows_no_factor_two_for_replace_one():
    """The twin with a number: what costs ε = 1.5 is told to cost a half of that."""
    mu = affordable(lambda mu: select(gaussian(mu), negative_binomial(10, 1, 300), 1.0))
    event = dp_event.RepeatAndSelectDpEvent(dp_accounting.GaussianDpEvent(2 / mu), 10, 1.0)
    accountant = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    assert accountant.compose(event).get_epsilon(1e-6) < 0.75


def test_all_trials_released_is_less_near_zero():
    law = negative_binomial(10, 1, 200)

    def together(k, epsilon):
        return float(gaussian(0.15 * math.sqrt(k))(epsilon))

    alone, with_it = (select(gaussian(0.15), law, 0.0, together=each) for each in (None, together))
    assert with_it < 0.2 < alone


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": -0.1}, "epsilon = -0.1 must be"),
        ({"epsilon": math.inf}, "epsilon = inf must be"),
        ({"cells": 0}, "cells = 0 must be"),
        ({"profile": lambda e: np.full(e.shape, np.nan)}, "profile must return"),
        ({"profile": lambda e: np.zeros(3)}, "profile must return"),
    ],
)
def test_what_is_no_selection_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        select(**{"profile": gaussian(0.1), "trials": fixed(3), "epsilon": 1.0, **change})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Trials((0.5, 0.4)), "add up to 1"),
        (lambda: Trials((-0.5, 1.5)), "at least 0"),
        (lambda: Trials((1.0,)), "P\\(K = 0\\)"),
        (lambda: Trials((1.0, 0.0)), "not all on 0"),
        (lambda: negative_binomial(1.0), "trials = 1.0 must be above 1"),
        (lambda: negative_binomial(99, 2, 100), "must be above 1 and below"),
        (lambda: negative_binomial(10, -1), "eta = -1"),
        (lambda: negative_binomial(10, 2, 0), "most = 0"),
    ],
)
def test_what_is_no_law_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_laws_have_the_mean_and_the_shape_that_they_say():
    law = negative_binomial(12, 2, 100)
    assert law.mean == pytest.approx(12)
    assert (law.most, law.chances[0]) == (100, 0.0)
    geometric = negative_binomial(4, 1, 2000)
    assert geometric.chances[3] / geometric.chances[2] == pytest.approx(0.75)
    assert law.missed(1 / 6) == pytest.approx(sum(c * (5 / 6) ** k for k, c in enumerate(law.chances)))


def test_draws_follow_the_law():
    """20,000 even numbers: each frequency is within one step of its chance."""
    law = negative_binomial(5, 2, 30)
    drawn = np.bincount([law.draw((i + 0.5) / 20_000) for i in range(20_000)], minlength=31) / 20_000
    np.testing.assert_allclose(drawn, law.chances, atol=1e-4)
    assert law.draw(0.0) == 1
    assert law.draw(1 - 2**-53) == 30


def test_the_rule_for_pure_privacy_is_wrong_with_a_delta():
    """The twin: (3ε₀, δ₀) for the best of a geometric number of (ε₀, δ₀) trials. A rare outcome that tells all, ranked
    best, is met about E K times as often.
    """
    law, rare = negative_binomial(10, 1, 200), 1e-3
    p, q = np.array([[0.0, 1 - rare, rare]]), np.array([[rare, 1 - rare, 0.0]])
    found = float(worst(law, p, q, 3 * 0.1)[0])
    assert found > 5 * rare
    assert found <= select(discrete(p[0], q[0]), law, 3 * 0.1)


@pytest.mark.deep
def test_audit_of_a_toy_selection():
    """Ten million draws a side at δ = 1e-3: the released best keeps to the bound, and with K known it does not.

    The score is as bad as possible. Both shares are below 0.02, so a standard error of δ is at most 2e-4.
    """
    law, epsilon, draws = negative_binomial(10, 1, 200), 1.0, 10_000_000
    mu = affordable(lambda mu: select(gaussian(mu), law, epsilon), target=1e-3, most=0.6)
    random = np.random.default_rng(0)

    def share(masses, telling, count):
        """Return how often a telling cell is the best of K draws: the largest of K uniform ranks decides."""
        rank = random.random(draws) ** (1 / count())
        return telling[np.searchsorted(np.cumsum(masses)[:-1], rank)].mean()

    def found(law, count):
        p, q = adversarial(law, mu, epsilon)
        telling = best_of(law, p) > math.exp(epsilon) * best_of(law, q)
        assert attained(law, p, q, epsilon) < 0.1
        return share(p, telling, count) - math.exp(epsilon) * share(q, telling, count)

    secret = found(law, lambda: random.choice(law.most + 1, p=law.chances, size=draws))
    assert 5e-4 < secret < 1e-3 + 6e-4
    assert found(fixed(40), lambda: np.full(draws, 40)) > 1e-2
