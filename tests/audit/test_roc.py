"""Limits against closed forms, estimates against obvious ones."""

import math

import numpy as np
import pytest
from scipy import integrate
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

import gossamer as gs
from gossamer.audit.roc import (
    FALSE_POSITIVE_RATE,
    _AreaUnderCurve,
    _jackknife,
    certified_limits,
    performance,
    scheduled_limits,
)
from gossamer.methods import GD, SGD


def missed(epsilon, delta, alpha):
    """The trade-off function of (ε, δ), as it is printed."""
    return max(0.0, 1 - delta - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - delta - alpha))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (0.5, 1e-3), (2.0, 0.1), (8.0, 1e-5)])
def test_certified_limits_are_those_of_the_trade_off_function(epsilon, delta):
    limits = certified_limits(gs.Budget(epsilon, delta))
    kink = (1 - delta) / (1 + math.exp(epsilon))
    area, _ = integrate.quad(lambda alpha: missed(epsilon, delta, alpha), 0, 1, points=[kink, 1 - delta])
    assert limits.auc == pytest.approx(1 - area, abs=1e-7)
    assert limits.tpr == pytest.approx(1 - missed(epsilon, delta, FALSE_POSITIVE_RATE), abs=1e-12)


def test_without_privacy_there_is_no_limit():
    assert certified_limits(gs.Budget(math.inf, 1e-3)).auc == 1.0
    planned = gs.plan(GD(steps=1), 10, gs.Budget(math.inf, 1e-3))
    assert (scheduled_limits(planned).auc, scheduled_limits(planned).tpr) == (1.0, 1.0)


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
@pytest.mark.parametrize(("epsilon", "delta", "steps"), [(0.5, 1e-3, 1), (4.0, 1e-5, 5)])
def test_scheduled_limits_of_full_passes_are_those_of_one_gaussian(epsilon, delta, steps, neighbors):
    """N(0, 1) against N(μ, 1), μ = √T·Δ/σ: AUC Φ(μ/√2), found members Φ(Φ⁻¹(α) + μ). Never below, and 1 % above."""
    planned = gs.plan(GD(steps=steps), 500, gs.Budget(epsilon, delta, neighbors))
    distance = {"replace_one": 2.0, "add_remove": 1.0}[neighbors]
    mu = math.sqrt(steps) * distance / planned.schedule["gradient"].noise_multiplier
    limits = scheduled_limits(planned)
    auc, tpr = norm.cdf(mu / math.sqrt(2)), norm.cdf(norm.ppf(FALSE_POSITIVE_RATE) + mu)
    assert 0 <= limits.auc - auc < 1e-2 * (auc - 0.5)
    assert 0 <= limits.tpr - tpr < 1e-2 * tpr


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_the_schedule_never_promises_less_than_its_budget(neighbors):
    budget = gs.Budget(2.0, 1e-3, neighbors)
    scheduled, certified = (
        scheduled_limits(gs.plan(SGD(steps=50, batch_size=20), 100, budget)),
        certified_limits(budget),
    )
    assert 0.5 < scheduled.auc < certified.auc
    assert FALSE_POSITIVE_RATE < scheduled.tpr <= certified.tpr


def game(models=24, records=200, shift=1.0, per_model=0.0, uneven=0.0, seed=0):
    """Normal scores, higher by `shift` for members, with a level and a shift of its own for each model."""
    rng = np.random.default_rng(seed)
    members = rng.permuted(np.tile(np.arange(records) < records // 2, (models, 1)), axis=1)
    shifts, levels = shift + uneven * rng.normal(size=(models, 1)), per_model * rng.normal(size=(models, 1))
    return shifts * members + levels + rng.normal(size=members.shape), members


def test_the_area_is_the_share_of_pairs_from_different_models():
    """Ties included; and with records of one model against each other it would be another number."""
    scores, members = game(models=5, records=10, per_model=3.0)
    scores = np.round(scores)
    wins = [
        float(scores[a, i] > scores[b, k]) + 0.5 * float(scores[a, i] == scores[b, k])
        for a in range(5)
        for b in range(5)
        for i in np.flatnonzero(members[a])
        for k in np.flatnonzero(~members[b])
        if a != b
    ]
    auc = performance(scores, members, seed=0).auc.value
    assert auc == pytest.approx(np.mean(wins), abs=1e-12)
    assert abs(auc - roc_auc_score(members.ravel(), scores.ravel())) > 1e-3


def test_found_members_are_those_above_the_threshold():
    """With 2400 non-members two may be accused. Ten members are above the third of them, five are tied with it."""
    members = np.zeros((24, 200), bool)
    members[:, :100] = True
    scores = np.tile(np.linspace(0.0, 1.0, 200), (24, 1))
    scores[0, 100:102] = 5.0
    scores[1, 100] = 4.0
    scores[2, :10] = 6.0
    scores[3, :5] = 4.0
    assert performance(scores, members, seed=0).tpr.value == pytest.approx(10 / 2400)


def test_estimates_follow_the_normal_law():
    """Against Φ(shift/√2), at 5 SE: half an interval is two of them. And intervals shrink by about √8."""
    widths = []
    for models in (16, 128):
        scores, members = game(models, per_model=0.5)
        auc = performance(scores, members, seed=0).auc
        widths.append(auc.high - auc.low)
        assert abs(auc.value - norm.cdf(1 / math.sqrt(2 * 1.25))) < 2.5 * widths[-1] / 2
    assert 1.8 < widths[0] / widths[1] < 4.5


@pytest.mark.slow
def test_the_interval_holds_as_often_as_it_says():
    """In 95 of 100 games: 300 of them tell it to 1.3 points. DeLong's interval for independent scores does not."""
    truth = norm.cdf(0.7 / math.sqrt(3))
    held = np.zeros((300, 2), bool)
    for seed in range(len(held)):
        scores, members = game(models=16, records=20, shift=0.7, uneven=1.0, seed=seed)
        auc = _jackknife(_AreaUnderCurve(scores, members))
        above = scores[members][:, None] > scores[~members][None, :]
        naive = math.sqrt(sum(np.var(above.mean(axis=axis)) / above.shape[1 - axis] for axis in (0, 1)))
        held[seed] = auc.low <= truth <= auc.high, abs(above.mean() - truth) < 1.96 * naive
    assert held[:, 0].mean() > 0.95 - 3 * 0.013
    assert held[:, 1].mean() < 0.9


def test_ranks_are_all_that_counts_and_turned_round_they_are_worth_the_rest():
    scores, members = game()
    plain, curved = (performance(s, members, seed=0) for s in (scores, np.exp(scores)))
    assert plain == curved
    turned = performance(-scores, members, seed=0).auc
    assert turned.value == pytest.approx(1 - plain.auc.value)
    assert turned.low == pytest.approx(1 - plain.auc.high)


def test_with_the_truth_shuffled_nothing_is_found():
    scores, members = game(shift=3.0)
    shuffled = performance(scores, np.random.default_rng(1).permuted(members, axis=1), seed=0)
    assert shuffled.auc.low < 0.5 < shuffled.auc.high
    assert performance(scores, members, seed=0).auc.low > 0.95
