"""PrivateLogisticRegression as a member of scikit-learn's family."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

import gossamer as gs
from gossamer import datasets
from gossamer.learn import PrivateLogisticRegression


@pytest.mark.filterwarnings("ignore::gossamer.PrivacyLeakWarning", "ignore::gossamer.WeakGuaranteeWarning")
@parametrize_with_checks([PrivateLogisticRegression(random_state=0, method=gs.methods.GD(steps=20, learning_rate=4.0))])
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    return datasets.breast_cancer()


def model(**options):
    return PrivateLogisticRegression(**{"data_norm": np.sqrt(30), "classes": [0, 1], "random_state": 0, **options})


def test_it_learns_with_privacy(table):
    """Mean of 5 seeds at ε = 1 on 569 rows: far above the 0.627 of the larger class."""
    scores = [model(epsilon=1.0, random_state=seed).fit(table.X, table.y).score(table.X, table.y) for seed in range(5)]
    assert np.mean(scores) > 0.85


def test_without_noise_it_is_logistic_regression(table):
    """ε = ∞ and many steps: scikit-learn's probabilities with the same penalty, on the same scaled rows."""
    method = gs.methods.GD(steps=4000, learning_rate=4.0, clip=10.0)
    ours = model(epsilon=np.inf, l2=0.01, method=method).fit(table.X, table.y)
    scaled = table.X / table.row_norm
    theirs = LogisticRegression(C=1 / (0.01 * len(table.y)), tol=1e-8, max_iter=2000).fit(scaled, table.y)
    np.testing.assert_allclose(ours.predict_proba(table.X), theirs.predict_proba(scaled), atol=1e-3)


def test_multinomial():
    rng = np.random.default_rng(0)
    centres = np.array([[2.0, 0.0], [-2.0, 1.0], [0.0, -2.0]])
    labels = rng.integers(0, 3, 600)
    X = centres[labels] + 0.3 * rng.normal(size=(600, 2))
    names = np.array(["c", "a", "b"])[labels]
    fitted = PrivateLogisticRegression(2.0, data_norm=4.0, classes=["a", "b", "c"], random_state=0).fit(X, names)
    assert fitted.score(X, names) > 0.9
    assert fitted.coef_.shape == (3, 2)
    assert fitted.predict_proba(X).sum(1) == pytest.approx(np.ones(600))


def test_what_is_read_from_the_data_is_warned_about(table):
    with pytest.warns(gs.PrivacyLeakWarning, match=r"data_norm was not given.*Pass data_norm"):
        fitted = model(data_norm=None).fit(table.X, table.y)
    assert any(s.startswith("NOT MET: data_norm") for s in fitted.certificate_.assumptions)
    assert not any("NOT MET" in s for s in model().fit(table.X, table.y).certificate_.assumptions)
    with pytest.warns(gs.PrivacyLeakWarning, match="classes was not given"):
        model(classes=None).fit(table.X, table.y)


def test_rows_beyond_the_declared_norm_are_shortened(table):
    """Outliers cannot move the scale: a row and the same row a thousand times longer are one."""
    X = np.array([[3.0, 4.0], [0.5, 0.0]] * 20)
    longer = X * np.where(np.linalg.norm(X, axis=1, keepdims=True) > 1, 1000, 1)
    y = np.array([1, 0] * 20)
    fits = [model(data_norm=1.0).fit(rows, y) for rows in (X, longer)]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_)


def test_labels_outside_the_declared_set_are_refused(table):
    with pytest.raises(ValueError, match=r"labels outside classes = \[0, 2\]"):
        model(classes=[0, 2]).fit(table.X, table.y)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.inf, np.nan])
def test_a_bad_norm_is_refused(table, bound):
    with pytest.raises(ValueError, match=r"data_norm = .* must be a finite number above 0"):
        model(data_norm=bound).fit(table.X, table.y)


def test_delta_defaults_to_a_power_of_n(table):
    assert model().fit(table.X, table.y).certificate_.delta == pytest.approx(569**-1.1)


def test_it_composes(table):
    """Pipelines, clones and cross-validation; parameters are not changed by fit."""
    estimator = model(epsilon=5.0)
    before = estimator.get_params()
    estimator.fit(table.X, table.y)
    assert estimator.get_params() == before
    assert not hasattr(clone(estimator), "coef_")
    pipeline = make_pipeline(FunctionTransformer(lambda X: X / 2), model(epsilon=5.0))
    assert cross_val_score(pipeline, table.X, table.y, cv=3).min() > 0.8


def test_the_certificate_comes_with_the_fit(table):
    fitted = model(epsilon=0.7, neighbors="add_remove").fit(table.X, table.y)
    assert fitted.certificate_.epsilon == 0.7
    assert fitted.certificate_.neighbors == "add_remove"
    assert fitted.certificate_.verify()


def test_a_generator_as_random_state_is_used_once(table):
    first, second = (model(random_state=np.random.RandomState(3)).fit(table.X, table.y).coef_ for _ in range(2))
    np.testing.assert_array_equal(first, second)
