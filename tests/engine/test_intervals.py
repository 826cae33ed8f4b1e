"""Intervals of coefficients: what is asked, what comes out without noise, what is refused, and how often they cover."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from testkit.shortened import Shortened

import gossamer as gs
from gossamer.engine.intervals import INTERVALS, RESOLVED, OneStep, corrected, estimate, unseen
from gossamer.experiments import intervals as study
from gossamer.learn import PrivateLinearRegression, PrivateLogisticRegression, PrivateSearch
from gossamer.oracle import Oracle
from gossamer.oracle.queries import triangle, weighted
from gossamer.privacy.stages import TRAINING

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(400, 2))
SCORES = X @ [1.0, -0.5] + 0.3
LABELS = (RNG.uniform(size=400) < 1 / (1 + np.exp(-SCORES))).astype(int)
TARGETS = SCORES + RNG.uniform(-1, 1, 400) * (0.2 + np.abs(X[:, 0]))
PUBLIC = {"data_norm": math.sqrt(2), "intervals": True, "random_state": 0}


def answered(H, M, g, u=(0.0, 0.0), noise=(0.0, 0.0)):
    """Return what a stage would have found of a model without an intercept."""
    products = jnp.stack([triangle(weighted(jnp.asarray(square, jnp.float32))) for square in (H, M)])
    return {
        "weights": jnp.asarray(u),
        "cut": jnp.float32(1),
        "products": products,
        "gradient": jnp.asarray(g),
        "noise": jnp.asarray(noise),
    }


def sandwich(rows, slopes, curvatures):
    """Return the deviations of coefficients, the slow and obvious way."""
    H = sum(w * np.outer(x, x) for x, w in zip(rows, curvatures, strict=True))
    M = sum(e**2 * np.outer(x, x) for x, e in zip(rows, slopes, strict=True))
    return np.sqrt(np.diag(np.linalg.inv(H) @ M @ np.linalg.inv(H)))


def ends(middle, deviations):
    return np.stack([middle - 1.959964 * deviations, middle + 1.959964 * deviations], axis=-1)


H = np.array([[0.2, 0.05], [0.05, 0.1]])
M = np.array([[0.3, 0.1], [0.1, 0.2]])


def test_the_step_and_its_variance():
    """Newton's step; noise, sampling and the noise of the curvature each add what the formula says."""
    u, g, tau, sigma, n = np.array([1.0, 2.0]), np.array([0.01, -0.02]), 0.003, 0.004, 100
    found = estimate(answered(H, M, g, u, (tau, sigma)), n)
    inverse, step = np.linalg.inv(H), np.linalg.solve(H, g)
    rng = np.random.default_rng(0)
    E = rng.normal(size=(200_000, 2, 2)) * tau / math.sqrt(2)
    E = np.triu(E, 1) + np.triu(E, 1).transpose(0, 2, 1) + math.sqrt(2) * E * np.eye(2)
    moved = np.cov((E @ step).T)  # its relative standard error is 0.003
    V = inverse @ (sigma**2 * np.eye(2) + M / n + moved) @ inverse
    np.testing.assert_allclose(found.params["weights"], u - step, rtol=1e-5)
    np.testing.assert_allclose(found.deviations["weights"], np.sqrt(np.diag(V)), rtol=1e-3)
    quiet = estimate(answered(H, M, g, u), n)
    assert (found.deviations["weights"] > quiet.deviations["weights"]).all()


def test_a_variance_that_noise_made_negative_is_none():
    """An interval is no narrower than the noise of the gradient alone would make it."""
    noise = (1e-6, 0.004)
    found = estimate(answered(H, -M, np.zeros(2), noise=noise), 100)
    np.testing.assert_allclose(found.deviations["weights"], 0.004 * np.sqrt(np.diag(np.linalg.inv(H @ H))), rtol=1e-4)


@pytest.mark.parametrize("within", [False, True])
def test_a_curvature_that_may_be_noise_is_refused(within):
    """Just below and just above the smallest eigenvalue that counts."""
    least = np.linalg.eigvalsh(H)[0]
    tau = least / (RESOLVED * math.sqrt(2 * 2)) * (0.99 if within else 1.01)
    seen = answered(H, M, np.full(2, 0.01), noise=(tau, 1e-3))
    assert (estimate(seen, 100) is not None) == within
    trained = {"weights": np.array([7.0, 8.0])}
    params, deviations = corrected({TRAINING: trained, INTERVALS: seen}, 100)
    assert (params is trained) == (deviations is None) == (not within)


@pytest.mark.parametrize("flat", [np.diag([0.1, 0.0]), np.diag([0.1, -0.1]), np.full((2, 2), np.nan)])
def test_without_noise_too_a_flat_direction_has_no_interval(flat):
    assert estimate(answered(flat, M, np.zeros(2)), 100) is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"l2": 0.1}, "needs a model without penalties"),
        ({"l1": 0.1}, "needs a model without penalties"),
        ({"classes": [0, 1, 2]}, "is for two classes, and there are 3"),
    ],
)
def test_what_intervals_would_not_cover_is_refused(options, said):
    with pytest.raises(ValueError, match=said):
        PrivateLogisticRegression(**{"classes": [0, 1], **PUBLIC, **options}).pose(X, LABELS)


def test_persons_and_searches_have_no_intervals():
    model = PrivateLogisticRegression(classes=[0, 1], **PUBLIC)
    with pytest.raises(ValueError, match="one row per person"):
        model.pose(X, LABELS, person=np.arange(400) // 2)
    with pytest.raises(ValueError, match="does not go with a search"):
        PrivateSearch(model, {"fit_intercept": [False]}).rehearse(X, LABELS)


def test_half_of_the_budget_is_for_them():
    model = PrivateLinearRegression(1.0, target_bound=3.0, **PUBLIC)
    shares = {stage.name: stage.share for stage in model.pose(X, TARGETS).stages()}
    assert shares == {TRAINING: 0.5, INTERVALS: 0.5}
    asked = [query.name for query in OneStep(bounded=False).schedule(400)]
    assert asked == ["spread", "products", "gradient"]
    assert [query.name for query in OneStep().schedule(400)] == asked[1:]


@pytest.mark.slow
def test_without_noise_it_is_logistic_regression_and_its_sandwich():
    """ε = ∞: Newton's method in NumPy, and the robust variance of its result."""
    method = gs.methods.GD(steps=1000, learning_rate=4.0, clip=10.0)
    model = PrivateLogisticRegression(np.inf, classes=[0, 1], threshold=0.5, method=method, **PUBLIC).fit(X, LABELS)
    rows, theta = np.column_stack([X, np.ones(400)]), np.zeros(3)
    for _ in range(20):
        p = 1 / (1 + np.exp(-rows @ theta))
        theta -= np.linalg.solve((rows * (p * (1 - p))[:, None]).T @ rows, rows.T @ (p - LABELS))
    expected = ends(theta, sandwich(rows, p - LABELS, p * (1 - p)))
    np.testing.assert_allclose(model.coef_[0], theta[:2], atol=2e-4)
    np.testing.assert_allclose(model.coef_interval_, expected[:2], atol=1e-3)
    np.testing.assert_allclose(model.intercept_interval_, expected[2], atol=1e-3)


@pytest.mark.slow(each=True)
@pytest.mark.parametrize("converged", [True, False])
def test_without_noise_it_is_least_squares_and_its_sandwich(converged):
    """ε = ∞: White's variance, in the table's own units. The last step makes up for what the training left undone.

    Where the training ended early errors are larger, and on this table intervals are wider.
    """
    method = gs.methods.GD(steps=400, learning_rate=0.9, clip=10.0) if converged else Shortened(1)
    model = PrivateLinearRegression(np.inf, target_bound=3.0, fit_intercept=converged, method=method, **PUBLIC)
    model.fit(X, TARGETS)
    rows = np.column_stack([X, np.ones(400)]) if converged else X
    theta = np.linalg.lstsq(rows, TARGETS, rcond=None)[0]
    expected = ends(theta, sandwich(rows, rows @ theta - TARGETS, np.ones(400)))
    np.testing.assert_allclose(model.coef_, theta[:2], atol=1e-3)
    if converged:
        np.testing.assert_allclose(model.coef_interval_, expected[:2], atol=1e-3)
        np.testing.assert_allclose(model.intercept_interval_, expected[2], atol=1e-3)
    else:
        assert (np.diff(model.coef_interval_) > np.diff(expected)).all()
        assert (model.intercept_interval_ == 0).all()


@pytest.mark.deep
def test_a_table_that_is_too_small_keeps_its_model_and_has_no_intervals():
    def fitted(**options):
        method = Shortened(3)
        return PrivateLogisticRegression(0.2, 1e-3, classes=[0, 1], threshold=0.5, method=method, **options)

    with pytest.warns(RuntimeWarning, match="cannot be told from noise"):
        model = fitted(**PUBLIC).fit(X, LABELS)
    assert np.isnan(model.coef_interval_).all()
    assert np.isnan(model.intercept_interval_).all()
    assert np.isfinite(model.coef_).all()
    model.set_params(intervals=False).fit(X, LABELS)
    assert model.coef_interval_ is None


ROWS = jnp.array([[0.6, 0.0], [0.0, 0.8], [0.6, 0.8], [-0.3, 0.1]])
YES = jnp.array([0.0, 1.0, 1.0, 0.0])
BUDGET = gs.Budget(2.0, 1e-3)
TRAINED = {"weights": jnp.array([2.0, -1.0]), "intercept": jnp.float32(-1.0)}


@pytest.mark.slow
@pytest.mark.parametrize("loss", [gs.objectives.logistic, gs.objectives.squared], ids=["logistic", "squared"])
@pytest.mark.parametrize("record", [(np.array([0.0, 1.0]), 1.0), (np.array([1e30, 1.0]), 1e30)], ids=["far", "huge"])
def test_what_is_asked_moves_by_what_is_charged(loss, record):
    """Two thresholds of a record that is replaced; of an acute query √2 times √2 (its noise is √2 times as large)."""
    method, start = OneStep(bounded=loss.lipschitz is not None), unseen(TRAINED)
    record = (jnp.asarray(record[0], jnp.float32), jnp.float32(record[1]))
    options = {"init": start}
    assert gs.audit.sensitivity(gs.ERM(loss), (ROWS, YES), 0, record, method, BUDGET, **options)
    other = (ROWS.at[0].set(record[0]), YES.at[0].set(record[1]))
    assert gs.audit.replay(gs.ERM(loss), (ROWS, YES), other, method, BUDGET, **options)


class HalfNoise(Oracle):
    """Adds half of the calibrated noise."""

    def noise_multiplier(self, query):
        return 0.5 * super().noise_multiplier(query)


@pytest.mark.deep
@pytest.mark.parametrize("oracle", [Oracle, HalfNoise])
def test_they_are_audited(oracle):
    """A record that turns its gradient around, at a model that is sure of the other label: nearly two thresholds.

    The honest bound is a 95 % Clopper-Pearson bound on ε = 2, of which the gradient has about 1.5; the twin has twice
    that.
    """
    sure = {"weights": jnp.zeros(2), "intercept": jnp.float32(20.0)}
    audit = gs.audit.empirical_epsilon(
        gs.ERM(gs.objectives.logistic),
        (ROWS.at[0].set(jnp.array([1.0, 0.0])), YES),
        0,
        (jnp.array([-1.0, 0.0]), jnp.float32(0)),
        OneStep(),
        BUDGET,
        init=unseen(sure),
        runs=65_536,
        oracle=oracle,
    )
    assert bool(audit) == (oracle is Oracle), audit


@pytest.mark.deep
def test_intervals_cover():
    """100 tables: .95 of 400 coefficients, standard error at most .022 if those of a table went together; 3 of them.

    Intervals without the noise are the control, which must fail by as much.
    """
    lines = [study.measured(study.Cell("logistic", 3, 3000, 100), first) for first in range(0, 100, study.AT_ONCE)]
    resolved = sum(line["resolved"] for line in lines)
    coverage, without = (sum(np.mean(line[name]) for line in lines) / resolved for name in ("covered", "without"))
    assert resolved > 70
    assert abs(coverage - 0.95) < 0.066
    assert without < 0.95 - 0.066
