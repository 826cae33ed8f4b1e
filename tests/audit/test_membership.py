"""Membership inference: what it finds where the answer is known, what it must not find, and what it must."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm
from testkit.rings import deep_but
from testkit.twins import QuietOracle

import gossamer as gs
from gossamer.audit.game import draw_members
from gossamer.audit.membership import _likelihood_ratio
from gossamer.audit.roc import performance
from gossamer.methods import GD, SGD, SGDA
from gossamer.oracle import Oracle


class NoiselessOracle(Oracle):
    """Forgets the noise."""

    def noise_multiplier(self, query):
        return 0.0 * super().noise_multiplier(query)


def minus_dot(x, z):
    return -jnp.dot(x, z)


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", deep_but(["replace_one", "add_remove"], "add_remove"))
def test_one_noisy_sum_of_unit_vectors(neighbors):
    """Each record is a coordinate of its own: n·x_i is N(1, σ²) or N(0, σ²), and the loss −x_i is the best statistic.

    So AUC = Φ(1/(σ√2)), in both games, to 5 SE (an interval is 4). With coins that is the limit itself: no attack does
    better. A replaced record could move the sum by 2, here by √2, of which its own coordinate shows 1: the limit,
    Φ(2/(σ√2)), is out of reach.
    """
    budget, method, records = gs.Budget(2.0, 1e-3, neighbors), GD(steps=1), 100
    report = gs.audit.membership_inference(gs.ERM(minus_dot), jnp.eye(records), method, budget, jnp.zeros(records))
    sigma = gs.plan(method, records // 2, budget).schedule["gradient"].noise_multiplier
    auc, exact = report.attacks["loss"].auc, norm.cdf(1 / (sigma * math.sqrt(2)))
    assert abs(auc.value - exact) < 5 / 4 * (auc.high - auc.low)
    assert auc.high - auc.low < 0.06
    assert report
    if neighbors == "add_remove":
        assert report.scheduled.auc == pytest.approx(exact, abs=1e-3)
    else:
        assert auc.high < report.scheduled.auc


@pytest.mark.slow
def test_where_an_attack_reaches_the_limit_seven_tenths_of_the_noise_are_caught():
    """Φ(1/(0.7σ√2)) = 0.757 instead of 0.688, with intervals of ±0.02; the honest twin is above."""
    budget = gs.Budget(2.0, 1e-3, "add_remove")
    report = gs.audit.membership_inference(
        gs.ERM(minus_dot), jnp.eye(100), GD(steps=1), budget, jnp.zeros(100), oracle=QuietOracle
    )
    assert not report, str(report)


RNG = np.random.default_rng(0)
RECORDS, D = 80, 60
TABLE = (RNG.normal(size=(RECORDS, D)).astype(np.float32) / math.sqrt(D), RNG.integers(0, 2, RECORDS))
"""Labels by chance: what a model knows about them it has by heart."""
START = {"weights": jnp.zeros(D), "intercept": jnp.zeros(())}
LOGISTIC = gs.ERM(gs.objectives.logistic)
METHOD = SGD(steps=60, batch_size=20, learning_rate=4.0)


def confidence(params, record):
    row, label = record
    return jax.nn.sigmoid((2 * label - 1) * (row @ params["weights"] + params["intercept"]))


def attack(epsilon, neighbors="replace_one", table=TABLE, **options):
    budget = gs.Budget(epsilon, 1e-3, neighbors)
    return gs.audit.membership_inference(LOGISTIC, table, METHOD, budget, START, confidence=confidence, **options)


@pytest.mark.deep
@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_without_noise_the_attacks_succeed(neighbors):
    """And where no promise is made, none is broken."""
    report = attack(math.inf, neighbors)
    assert set(report.attacks) == {"loss", "confidence", "lira"}
    assert all(each.auc.low > 0.75 for each in report.attacks.values()), str(report)
    assert report.attacks["lira"].auc.low > report.attacks["loss"].auc.high
    assert report
    assert (report.certified.auc, report.scheduled.auc) == (1.0, 1.0)


@pytest.mark.deep
@pytest.mark.parametrize("oracle", [Oracle, NoiselessOracle])
@pytest.mark.parametrize("epsilon", deep_but([0.5, 2.0], 2.0))
def test_noise_keeps_the_promise_and_its_absence_breaks_it(epsilon, oracle):
    report = attack(epsilon, oracle=oracle)
    assert bool(report) == (oracle is Oracle), str(report)
    assert report.scheduled.auc < report.certified.auc < 0.9
    broken = [name for name, each in report.attacks.items() if each.auc.low > report.scheduled.auc]
    assert broken == ([] if oracle is Oracle else ["loss", "confidence", "lira"])


@pytest.mark.deep
def test_a_minimax_problem_and_a_score_of_ones_own():
    """x is learned, y is not; the score is the loss turned round, which finds what the loss finds, the wrong way."""
    problem = gs.Minimax(lambda x, y, z: gs.objectives.logistic(x, z) - y**2, constraint_y=gs.Box(-1.0, 1.0))
    method = SGDA(steps=60, batch_size=20, learning_rate_x=4.0)
    report = gs.audit.membership_inference(
        problem,
        TABLE,
        method,
        gs.Budget(math.inf, 1e-3),
        init=(START, jnp.zeros(())),
        models=16,
        score=lambda params, record: gs.objectives.logistic(params[0], record),
        backend="vmap",
    )
    assert set(report.attacks) == {"loss", "score", "lira"}
    assert report.attacks["loss"].auc.low > 0.75
    assert report.attacks["score"].auc.high < 0.25
    assert report.attacks["lira"].auc.low > 0.75
    assert "limit by the schedule" in str(report)


@pytest.mark.slow
def test_the_likelihood_ratio_finds_what_a_common_threshold_cannot():
    """Records with levels and effects of their own: fitted to each, the ratio is nearly optimal.

    In units of the noise the effect is e_i, so the best score has mean difference e_i² and variance e_i² for each
    record: the mixture's AUC is computed from two million draws of it. With no effect there is nothing to find.
    """
    rng = np.random.default_rng(0)
    members = draw_members(jax.random.key(1), 128, 200, gs.Budget(1.0, 1e-3))
    levels, effects = 10 * rng.normal(size=200), 2 * rng.random(200)
    noise = rng.normal(size=members.shape)
    found = {}
    for strength in (0.0, 1.0):
        values = levels + strength * effects * members + noise
        scores = _likelihood_ratio(values[:64], members[:64], values[64:])
        found[strength] = performance(scores, members[64:], seed=0).auc
    draws = rng.choice(effects, (2, 10**6))
    best = np.mean(
        draws[0] * (draws[0] / 2 + rng.normal(size=10**6)) > draws[1] * (-draws[1] / 2 + rng.normal(size=10**6))
    )
    assert best - 0.03 < found[1.0].value < best + 0.02
    assert found[0.0].low < 0.5 < found[0.0].high
    common = performance((levels + effects * members + noise)[64:], members[64:], seed=0).auc
    assert common.high < found[1.0].low


@pytest.mark.slow
def test_bad_input_is_named():
    budget = gs.Budget(1.0, 1e-3)
    with pytest.raises(ValueError, match="models = 10 must be a multiple of 4 of at least 16"):
        gs.audit.membership_inference(LOGISTIC, TABLE, METHOD, budget, START, models=10)
    with pytest.raises(ValueError, match="data has 2 records"):
        few = jax.tree.map(lambda leaf: leaf[:2], TABLE)
        gs.audit.membership_inference(LOGISTIC, few, METHOD, budget, START)
    with pytest.raises(ValueError, match=r"score\(params, record\) must return one number; it has shape \(60,\)"):
        attack(math.inf, score=lambda params, record: record[0])
    with pytest.raises(ValueError, match=r"loss\(params, record\) is not finite for some records in 64 of 64 models"):
        attack(math.inf, loss=lambda params, record: jnp.log(-1.0))
