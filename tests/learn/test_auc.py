"""PrivateAUCClassifier: what it learns, what it buys, and that scikit-learn knows it."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from testkit.shortened import Shortened

import gossamer as gs
from gossamer.learn import PrivateAUCClassifier

QUICK = gs.methods.SGDA(steps=20, learning_rate_x=10.0, clip_x=0.5, clip_y=0.5, batch_size=8)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2000, 3))
Y = (X @ np.array([1.0, -2.0, 0.5]) + RNG.normal(size=2000) > 3.0).astype(int)
"""About one positive in ten."""


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore::gossamer.PrivacyLeakWarning", "ignore::gossamer.WeakGuaranteeWarning")
@parametrize_with_checks(
    [PrivateAUCClassifier(positive_share=0.5, columns=None, threshold="balanced", random_state=0, method=Shortened())]
)
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


def model(**options):
    """A share that is given is part of the problem, so that fits with the same one compile once."""
    given = {"positive_share": 0.1, "data_norm": 5.0, "classes": [0, 1], "threshold": "balanced", "random_state": 0}
    return PrivateAUCClassifier(**{**given, **options})


@pytest.mark.slow
@pytest.mark.parametrize("hidden", [(), pytest.param((8,), marks=pytest.mark.deep)])
def test_it_ranks_with_privacy(hidden):
    """At ε = 2, mean of 3 seeds; the true direction has 0.97, and labels drawn without it give 0.5."""
    areas = []
    for seed in range(3):
        fitted = model(epsilon=2.0, random_state=seed, hidden_layer_sizes=hidden).fit(X, Y)
        areas.append(roc_auc_score(Y, fitted.decision_function(X)))
    assert np.mean(areas) > 0.9
    shuffled = RNG.permutation(Y)
    other = model(epsilon=2.0, hidden_layer_sizes=hidden).fit(X, shuffled)
    assert roc_auc_score(Y, other.decision_function(X)) < 0.9


@pytest.mark.slow
def test_without_noise_it_is_the_best_direction():
    """With ε = ∞ and Gaussian rows the best linear ranking is along the weights that made the labels."""
    fitted = model(epsilon=np.inf, method=gs.methods.SGDA(steps=300, learning_rate_x=10.0, batch_size=2000)).fit(X, Y)
    found = fitted.layers_[0]["weights"][:, 0]
    true = np.array([1.0, -2.0, 0.5])
    assert found @ true / np.linalg.norm(found) / np.linalg.norm(true) > 0.99


@pytest.mark.deep
def test_scores_probabilities_and_labels_agree():
    fitted = model(epsilon=5.0, classes=[0, 1], hidden_layer_sizes=(4,)).fit(X, Y)
    scores, chances = fitted.decision_function(X), fitted.predict_proba(X)
    assert (np.argsort(scores) == np.argsort(chances[:, 1])).all()
    np.testing.assert_array_equal(fitted.predict(X), (scores > 0).astype(int))
    named = model(epsilon=5.0, classes=["no", "yes"], hidden_layer_sizes=(4,)).fit(X, np.array(["no", "yes"])[Y])
    assert named.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(named.decision_function(X), scores)


@pytest.mark.deep
def test_the_share_is_bought_within_the_budget():
    """The certificate has one more query, holds when it is recomputed, and its parts add up to what was promised."""
    fitted = model(positive_share=None, epsilon=1.0, delta=1e-5).fit(X, Y)
    certificate = fitted.certificate_
    assert (certificate.epsilon, certificate.delta) == (1.0, pytest.approx(1e-5))
    assert [query.name for query in certificate.schedule] == ["share of positives", "gradient"]
    outcome = certificate.verify()
    assert outcome
    assert outcome.epsilon > 0.9
    # One query at ε/20 for labels of length ½: a standard error of about 0.03 at n = 2000.
    assert fitted.positive_share_ == pytest.approx(Y.mean(), abs=0.15)
    assert fitted.positive_share_ != pytest.approx(Y.mean(), abs=1e-6)


@pytest.mark.deep
def test_a_given_share_costs_nothing():
    given, bought = (model(positive_share=share).fit(X, Y).certificate_ for share in (0.1, None))
    assert given.epsilon == bought.epsilon == 1.0
    assert [query.name for query in given.schedule] == ["gradient"]
    assert given.schedule["gradient"].noise_multiplier < bought.schedule["gradient"].noise_multiplier


@pytest.mark.deep
def test_the_share_and_the_training_have_noise_of_their_own():
    """Two seeds from one: with a shared one the noise of the share would be that of the first gradient."""
    shares = {model(positive_share=None, random_state=seed).fit(X, Y).positive_share_ for seed in (0, 1)}
    budget = gs.Budget(0.05, 0.05 * len(Y) ** -1.1)
    assert len(shares) == 2
    assert gs.objectives.positive_share(Y, budget, seed=0)[0] not in shares


def test_more_than_two_classes_are_refused():
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        model(classes=[0, 1, 2]).fit(X, Y)


@pytest.mark.slow
def test_what_is_read_from_the_data_is_named():
    with pytest.warns(gs.PrivacyLeakWarning, match="data_norm was not given"):
        fitted = model(data_norm=None).fit(X, Y)
    assert any(s.startswith("NOT MET: data_norm") for s in fitted.certificate_.assumptions)


@pytest.mark.deep
def test_clones_pipelines_and_searches():
    estimator = model(epsilon=5.0)
    fitted = estimator.fit(X, Y)
    assert not hasattr(clone(fitted), "layers_")
    pipeline = make_pipeline(FunctionTransformer(lambda rows: rows / 2), model(epsilon=5.0, data_norm=2.5)).fit(X, Y)
    np.testing.assert_allclose(pipeline.decision_function(X), fitted.decision_function(X), rtol=1e-4, atol=1e-4)
    # All records of a half in every step: samples take long to calibrate.
    whole = {"steps": 50, "clip_x": 0.5, "clip_y": 0.5, "batch_size": 1000}
    still, working = (gs.methods.SGDA(**whole, learning_rate_x=rate) for rate in (1e-6, 10.0))
    grid = {"method": [still, working]}
    search = GridSearchCV(model(epsilon=10.0), grid, cv=KFold(2), scoring="roc_auc", refit=False).fit(X, Y)
    assert search.best_params_ == {"method": working}
