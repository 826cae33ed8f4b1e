"""StoSpider and AdaSpider: replay, sensitivity and audit; the textbook method without noise; refreshes and escapes."""

import dataclasses
import math

import jax.numpy as jnp
import numpy as np
import pytest
from testkit import textbook
from testkit.tables import OPPOSITE, START, TABLE, bent_loss, linear_params, logistic_table

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.engine.opening import open_run
from gossamer.methods import AdaSpider, StoSpider

BUDGET = gs.Budget(2.0, 1e-2)
PROBLEM = gs.ERM(bent_loss)
# Noise decides which steps refresh, escape and end.
SHORT = dict(steps=4, period=2, learning_rate=0.5, batch_size=2, drift=0.3, tolerance=0.6, escape_steps=2)
CASES = {"StoSpider": StoSpider(**SHORT), "AdaSpider": AdaSpider(**SHORT, distance=0.4)}


@pytest.fixture(params=CASES, scope="module")
def method(request):
    return CASES[request.param]


@pytest.mark.deep
def test_replay(method):
    report = gs.audit.replay(PROBLEM, TABLE, 3.0 - TABLE, method, BUDGET, init=START, backend="vmap")
    assert report, report.differing


@pytest.mark.deep
@pytest.mark.hostile
def test_sensitivity(method):
    for record in (OPPOSITE, jnp.array([1e30, 1e30]), jnp.array([jnp.nan, 0.0]), None):
        assert gs.audit.sensitivity(PROBLEM, TABLE, 0, record, method, BUDGET, init=START, backend="vmap")


@pytest.mark.deep
def test_audit(method):
    """The strongest attacker does not beat the certificate, and comes near enough to it to be worth fearing."""
    audit = gs.audit.empirical_epsilon(
        PROBLEM, TABLE, 0, OPPOSITE, method, BUDGET, init=START, runs=16_384, backend="vmap"
    )
    assert audit, audit
    assert audit.lower_bound > 0.4 * BUDGET.epsilon


@pytest.mark.slow
def test_without_noise_it_is_the_textbook_method(method):
    """σ = 0, every record sampled, thresholds out of the way: equal to a NumPy loop in float64."""
    X, y = logistic_table()
    free = dataclasses.replace(method, clip=1e3, smoothness=1e3, batch_size=len(X), tolerance=1e-6)
    problem, start = gs.ERM(gs.objectives.logistic, regularizer=gs.L2(0.1)), linear_params()
    ours = gs.solve(problem, (X, y), free, gs.Budget(np.inf, 1e-5), init=start, seed=0, progress=False).params
    expected = textbook.spider(X, y, 0.1, None, free)
    np.testing.assert_allclose(np.append(ours["weights"], ours["intercept"]), expected, atol=1e-5)


def _run(method, loss, start, rows):
    """Run without noise; return the carry and how often each query was asked."""
    method = dataclasses.replace(method, clip=1e3, smoothness=1e3, batch_size=len(rows))
    planned = gs.plan(method, len(rows), gs.Budget(np.inf, 1e-5))
    carry = open_run(planned, gs.ERM(loss), rows, init=start, key=new_key(0), backend="vmap").finish()
    return carry, {name: int(count) for name, count in carry.ledger.counts.items()}


def _slope(x, z):
    return x[0] * z


def _saddle(x, z):
    return z * (x[1] ** 2 / 2 - x[0] ** 2 / 2 + x[0] ** 4 / 4)


def _bowl(x, z):
    return z * jnp.sum(x**2) / 2


@pytest.mark.deep
@pytest.mark.parametrize(("drift", "refreshes"), [(1e3, 1), (0.7, 4), (1e-3, 5)])
def test_drift_decides_when_to_refresh(drift, refreshes):
    """A step of length 0.5 is a drift of 0.25: 0.7 is reached in three steps; five refreshes are allowed in ten."""
    method = StoSpider(steps=10, period=2, learning_rate=0.5, drift=drift, tolerance=1e-3)
    _, asked = _run(method, _slope, jnp.zeros(1), jnp.ones(8))
    assert asked == {"gradient": refreshes, "difference": 10 - refreshes}


@pytest.mark.deep
@pytest.mark.parametrize("method", [StoSpider(), AdaSpider()], ids=["StoSpider", "AdaSpider"])
def test_it_leaves_a_strict_saddle_and_stays_at_a_minimum(method):
    """Without noise, and with steps to spare; a perturbation of 0.1 grows by 1.3 in a step."""
    method = dataclasses.replace(method, steps=100, learning_rate=0.3, tolerance=0.05, radius=0.1, escape_steps=30)
    carry, _ = _run(method, _saddle, jnp.zeros(2), jnp.ones(8))
    assert abs(abs(float(carry.choice.params[0])) - 1) < 0.15
    carry, asked = _run(method, _bowl, jnp.zeros(2), jnp.ones(8))
    assert float(jnp.linalg.norm(carry.choice.params)) < 0.11
    ended = np.isnan(carry.history["gradient_norm"])
    if isinstance(method, AdaSpider):
        assert np.all(carry.choice.params == 0)
        assert asked["gradient"] + asked["difference"] == 31  # one step begins the escape, thirty end it
        assert ended.sum() == 69
    else:
        assert not ended.any()


@pytest.mark.slow
def test_bad_settings():
    for kind, options, message in (
        (StoSpider, {"drift": -1.0}, r"drift = -1\.0 must be a finite number above 0"),
        (AdaSpider, {"distance": math.inf}, "distance = inf must be"),
        (AdaSpider, {"escape_steps": 0}, "escape_steps = 0 must be a whole number"),
    ):
        with pytest.raises(ValueError, match=message):
            kind(**options)
    (only,) = StoSpider(steps=1).schedule(300)
    assert (only.name, only.count) == ("gradient", 1)
