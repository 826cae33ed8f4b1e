"""Whitened: what it asks, what it refuses, and that without noise it finds the minimiser."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.linear_model import LogisticRegression
from testkit.rings import deep_but

import gossamer as gs
from gossamer.learn import PrivateAdditiveClassifier, PrivateAdditiveRegressor, PrivateLogisticRegression
from gossamer.methods import Whitened, whitened
from gossamer.methods.whitened import pace
from gossamer.oracle.clipping.linear import LinearLoss

LOSS = gs.objectives.logistic


def test_settings_follow_from_public_numbers():
    """More records, a larger ε or a weaker relation: more steps, from 5 to 24."""
    few = Whitened.suited(LOSS, 100, 20, budget=gs.Budget(0.1, 1e-4)).steps
    some = Whitened.suited(LOSS, 3000, 20, budget=gs.Budget(1.0, 1e-5)).steps
    weaker = Whitened.suited(LOSS, 3000, 20, budget=gs.Budget(1.0, 1e-5, "add_remove")).steps
    many = Whitened.suited(LOSS, 10**7, 20, budget=gs.Budget(8.0, 1e-8)).steps
    assert 5 == few < some < weaker < many == 24


def test_the_less_noise_the_further_gradients_reach():
    paces = [pace(np.float32(energy), bends=True) for energy in (10.0, 1.0, 0.1, 0.01, 1e-4)]
    clips, momenta = [float(p.clip) for p in paces], [float(p.momentum) for p in paces]
    assert clips == sorted(clips) and momenta == sorted(momenta)
    assert float(pace(np.float32(0), bends=True).clip) == 1e3, "without noise nothing is cut"


def test_the_first_query_is_acute_and_has_about_a_quarter_of_the_budget():
    schedule = gs.plan(Whitened(steps=12), 1000, gs.Budget(1.0, 1e-4, "add_remove")).schedule
    costs = {query.name: query.count / query.noise_multiplier**2 for query in schedule}
    assert costs["moments"] / sum(costs.values()) == pytest.approx(0.25)
    assert schedule["moments"].acute and not schedule["gradient"].acute


def test_columns_beyond_a_thousand_are_not_multiplied():
    assert Whitened().sized({"weights": np.zeros(1000)}).diagonal
    assert not Whitened().sized({"weights": np.zeros(999)}).diagonal


@pytest.mark.parametrize(
    ("loss", "error", "match"),
    [
        (lambda w, z: 0.0, TypeError, r"must be a LinearLoss such as gs\.objectives\.logistic"),
        (LinearLoss(lambda s, t: abs(s - t), lipschitz=1.0), ValueError, "the loss has no curvature"),
    ],
)
def test_other_losses_are_refused(loss, error, match):
    data, init = (np.ones((9, 2), np.float32), np.ones(9, np.float32)), {"weights": np.zeros(2, np.float32)}
    with pytest.raises(error, match=match):
        gs.solve(gs.ERM(loss), data, Whitened(), gs.Budget(1.0, 1e-2), init=init)


@pytest.mark.slow
@pytest.mark.parametrize(("l1", "l2"), [(0.005, 0.01), (0.0, 0.0), (0.0, 0.01), (0.01, 0.0)])
def test_without_noise_it_is_logistic_regression(l1, l2):
    """ε = ∞ at the estimator's defaults: scikit-learn's coefficients with the same penalty, on the same scaled rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 4)) @ np.array([[1, 0.5, 0, 0], [0, 1, 0, 0], [0, 0, 0.3, 0], [0, 0, 0, 1]])
    y = rng.uniform(size=300) < 1 / (1 + np.exp(1 - 3 * X[:, 0] + 2 * X[:, 1]))
    ours = PrivateLogisticRegression(np.inf, data_norm=2.0, classes=[0, 1], l1=l1, l2=l2).fit(X, y)
    penalty = {"C": 1 / ((l1 + l2) * len(y)), "l1_ratio": l1 / (l1 + l2)} if l1 + l2 else {"C": np.inf}
    theirs = LogisticRegression(**penalty, solver="saga", tol=1e-7, max_iter=5000, random_state=0).fit(X / 2.0, y)
    np.testing.assert_allclose(2.0 * ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    assert (ours.coef_ == 0).any() == (l1 > 0)


STRAIGHT = LinearLoss(lambda score, target: -target * score, lipschitz=1.0, curvature=1.0)
"""A record decides its own gradient."""
TABLE = (np.eye(8, dtype=np.float32), np.ones(8, np.float32))
INIT = {"weights": np.zeros(8, np.float32), "intercept": np.zeros((), np.float32)}


@pytest.mark.deep
@pytest.mark.parametrize("diagonal", [False, True])
def test_it_conforms(diagonal):
    method = Whitened(steps=2, diagonal=diagonal)
    kinds = ("settings", "asks", "repeats", "replay", "sensitivity", *([] if diagonal else ["audit"]))
    report = gs.audit.conformance(method, gs.ERM(STRAIGHT), TABLE, init=INIT, only=kinds)
    assert report.passed, str(report)


@pytest.mark.slow
def test_no_record_is_seen_but_through_answers():
    other = (-TABLE[0], 1 - TABLE[1])
    assert gs.audit.replay(gs.ERM(STRAIGHT), TABLE, other, Whitened(steps=2), gs.Budget(2.0, 1e-2), init=INIT)


def rises(scores):
    """Whether each of the means is above the one before."""
    return bool((np.diff(np.mean(scores, axis=1)) > 0).all())


@pytest.mark.deep
@pytest.mark.parametrize("name", deep_but(["breast", "diabetes", "wine"], "breast"))
def test_the_score_rises_with_epsilon(name):
    """Means over five seeds at ε = 0.1, 0.5, 4 on the training rows; a rule that ignores ε does not pass."""
    X, y = {"breast": load_breast_cancer, "diabetes": load_diabetes, "wine": load_wine}[name](return_X_y=True)
    bounds = {column: (low, high) for column, (low, high) in enumerate(zip(X.min(0), X.max(0), strict=True))}
    kind = PrivateAdditiveRegressor if name == "diabetes" else PrivateAdditiveClassifier
    target = {"target_bounds": (0, 350)} if name == "diabetes" else {"classes": sorted(set(y.tolist()))}

    def score(epsilon, seed):
        return kind(epsilon, bounds=bounds, random_state=seed, **target).fit(X, y).score(X, y)

    assert rises([[score(epsilon, seed) for seed in range(5)] for epsilon in (0.1, 0.5, 4.0)])
    assert not rises([[score(0.5, seed) for seed in range(5)] for _ in range(3)])


@pytest.mark.slow
def test_rows_of_different_lengths_do_not_make_it_overshoot(monkeypatch):
    """Few columns that often are near 0: steps that heed no answer end elsewhere, those that do at the minimiser."""
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (2000, 2))
    labels = (rows @ [1.4, -1.0] + rng.logistic(size=2000) > 0).astype(int)
    best = LogisticRegression(C=np.inf).fit(rows, labels).coef_
    model = PrivateLogisticRegression(np.inf, 1e-4, data_norm=2**0.5, classes=[0, 1], threshold=0.5, random_state=0)
    np.testing.assert_allclose(model.fit(rows, labels).coef_, best, atol=3e-3)
    monkeypatch.setattr(whitened, "_TOO_MUCH", 1e9)
    twin = model.set_params(method=Whitened(steps=399))  # another number, so that it is compiled anew
    assert np.abs(twin.fit(rows, labels).coef_ - best).max() > 0.01
