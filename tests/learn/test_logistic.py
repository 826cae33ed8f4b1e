"""PrivateLogisticRegression: what it learns, and that without noise it is logistic regression."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import gossamer as gs
from gossamer import datasets
from gossamer.learn import PrivateLogisticRegression


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gossamer.PrivacyLeakWarning", "ignore::gossamer.WeakGuaranteeWarning")
@parametrize_with_checks(
    [PrivateLogisticRegression(columns=None, random_state=0, method=gs.methods.GD(steps=20, learning_rate=4.0))]
)
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def table():
    return datasets.breast_cancer()


def model(**options):
    return PrivateLogisticRegression(**{"data_norm": np.sqrt(30), "classes": [0, 1], "random_state": 0, **options})


@pytest.mark.slow
def test_it_learns_with_privacy(table):
    """Mean of 5 seeds at ε = 1 on 569 rows: far above the 0.627 of the larger class."""
    scores = [model(epsilon=1.0, random_state=seed).fit(table.X, table.y).score(table.X, table.y) for seed in range(5)]
    assert np.mean(scores) > 0.85


@pytest.mark.slow
@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.01), (0.01, 0.0), (0.005, 0.01)])
def test_without_noise_it_is_logistic_regression(l1, l2):
    """ε = ∞ and many steps: scikit-learn's coefficients with the same penalty, on the same scaled rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(300, 4))
    y = rng.uniform(size=300) < 1 / (1 + np.exp(1 - 3 * X[:, 0] + 2 * X[:, 1]))
    method = gs.methods.GD(steps=4000, learning_rate=4.0, clip=10.0)
    ours = model(epsilon=np.inf, data_norm=2.0, l1=l1, l2=l2, method=method).fit(X, y)
    theirs = LogisticRegression(
        C=1 / ((l1 + l2) * len(y)), l1_ratio=l1 / (l1 + l2), solver="saga", tol=1e-7, max_iter=5000, random_state=0
    ).fit(X / 2.0, y)
    np.testing.assert_allclose(2.0 * ours.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)
    assert (ours.coef_ == 0).any() == (l1 > 0)


@pytest.mark.slow
def test_the_intercept_is_not_penalised(table):
    """Penalties that leave no coefficient leave the log-odds of the larger class."""
    method = gs.methods.GD(steps=300, learning_rate=2.0, clip=10.0)
    fitted = model(epsilon=np.inf, l1=10.0, l2=10.0, method=method).fit(table.X, table.y)
    assert (fitted.coef_ == 0).all()
    share = table.y.mean()
    assert fitted.intercept_ == pytest.approx(np.log(share / (1 - share)), rel=1e-4)


@pytest.mark.slow
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


def test_labels_outside_the_declared_set_are_refused(table):
    with pytest.raises(ValueError, match=r"labels outside classes = \[0, 2\]"):
        model(classes=[0, 2]).fit(table.X, table.y)


def test_the_set_of_labels_leaks_when_it_is_read(table):
    with pytest.warns(gs.PrivacyLeakWarning, match="classes was not given"):
        fitted = model(classes=None).fit(table.X, table.y)
    assert any(s.startswith("NOT MET: classes") for s in fitted.certificate_.assumptions)
