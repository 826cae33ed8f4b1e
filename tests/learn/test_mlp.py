"""PrivateMLPClassifier: what it learns, for rows and for persons, and that scikit-learn knows it."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks
from testkit.shortened import Shortened

import gossamer as gs
from gossamer.engine.bounds import BOUNDS
from gossamer.engine.deciding import THRESHOLD
from gossamer.learn import PrivateMLPClassifier
from gossamer.learn._buying import CLASSES
from gossamer.learn.mlp import default_method

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(2048, 2))
Y = (X[:, 0] * X[:, 1] > 0).astype(int)
"""Opposite quarters of a square are alike: no linear score, and no sum of functions of a column, tells them apart."""


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore::gossamer.PrivacyLeakWarning", "ignore::gossamer.WeakGuaranteeWarning")
@parametrize_with_checks(
    [PrivateMLPClassifier(hidden_layer_sizes=(4,), columns=None, random_state=0, method=Shortened())]
)
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


def model(**options):
    given = {"epsilon": 8.0, "hidden_layer_sizes": (16,), "data_norm": 2**0.5, "classes": [0, 1], "random_state": 0}
    return PrivateMLPClassifier(**{**given, **options})


@pytest.mark.deep
def test_it_learns_what_no_linear_model_can():
    """By its defaults; the control, the best linear score, guesses: 0.5, with a standard error of 0.011."""
    fitted = model().fit(X, Y)
    assert fitted.score(X, Y) > 0.95
    assert fitted.certificate_.verify()
    chances = fitted.predict_proba(X)
    np.testing.assert_array_equal(fitted.predict(X), chances.argmax(axis=1))
    assert -np.log(chances[np.arange(len(Y)), Y]).mean() < 0.25
    assert LogisticRegression().fit(X, Y).score(X, Y) < 0.6


@pytest.mark.deep
def test_several_classes():
    kinds = 2 * (X[:, 0] > 0) + (X[:, 1] > 0)
    fitted = model(classes=[0, 1, 2, 3]).fit(X, kinds)
    assert fitted.decision_function(X).shape == (2048, 4)
    assert fitted.score(X, kinds) > 0.85


@pytest.mark.deep
def test_persons_and_frames():
    person = np.arange(2048) // 2
    fitted = model(rows_per_person=2, method=Shortened()).fit(X, Y, person=person)
    assert (fitted.certificate_.unit.name, fitted.certificate_.n) == ("person", 1024)
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    bought = model(data_norm=None, classes=None, epsilon=8.0, method=Shortened()).fit(frame, Y)
    assert [each.name for each in bought.certificate_.purchases] == [CLASSES, BOUNDS, THRESHOLD]
    assert bought.predict(frame).shape == (2048,)


def test_the_network_that_is_kept_is_that_of_the_training():
    """Rows are longer in training by a public factor, which the first layer takes over."""
    estimator = model(method=gs.methods.SGD(steps=1, batch_size=2048))
    task = estimator.pose(X, Y)
    lengths = np.linalg.norm(task.data[0], axis=1)
    assert lengths.max() <= 2**0.5 + 1e-6  # √d for the longest row
    estimator._keep(task.init)
    first = np.asarray(task.init[0]["weights"], np.float64)
    np.testing.assert_allclose(
        (X / 2**0.5) @ estimator.layers_[0]["weights"], task.data[0] @ first, rtol=1e-4, atol=1e-6
    )


def test_the_defaults_are_made_of_public_numbers():
    """They do not change with the records; a batch never exceeds the table; a larger budget buys more steps."""
    one, other = (model().pose(rows, labels).method for rows, labels in ((X, Y), (-3 * X, 1 - Y)))
    assert one == other
    for n in (10, 1000, 10**6):
        methods = [default_method(n, gs.Budget(epsilon, 1e-6)) for epsilon in (0.1, 1.0, 8.0, np.inf)]
        assert [m.steps for m in methods] == sorted(m.steps for m in methods)
        assert all(m.batch_size <= n for m in methods)
    assert dataclasses.replace(one, steps=3) == model(method=Shortened(3)).pose(X, Y).method
