"""Estimators that protect persons: their default method, what they buy, and what their certificates say."""

import dataclasses

import numpy as np
import pytest

from gossamer.engine.checkpoints import Checkpoints
from gossamer.learn import PrivateAUCClassifier, PrivateLinearRegression, PrivateLogisticRegression
from gossamer.methods import Whitened
from gossamer.oracle.people import People

RNG = np.random.default_rng(0)
COUNTS = 1 + np.arange(400) % 3
IDS = np.repeat(np.arange(400), COUNTS)
X = RNG.normal(size=(len(IDS), 2))
Y = (X[:, 0] + 0.5 * RNG.normal(size=len(IDS)) > 1.2 - 0.6 * COUNTS[IDS]).astype(int)
"""Positive the more often, the more rows a person has."""
PUBLIC = {"data_norm": 4.0, "random_state": 0, "rows_per_person": 3}


def test_the_default_is_made_of_the_number_of_persons():
    """Twice the rows of everybody change neither method nor budget; as rows they would."""

    def posed(times, person):
        model = PrivateLogisticRegression(1.0, classes=[0, 1], **PUBLIC)
        ids = np.repeat(IDS, times) if person else None
        task = model.pose(np.repeat(X, times, axis=0), np.repeat(Y, times), ids)
        n = task.data.n if isinstance(task.data, People) else len(task.data[0])
        return task.method, model.budget(n)

    assert posed(1, person=True) == posed(4, person=True) != posed(1, person=False) != posed(4, person=False)
    assert isinstance(posed(1, person=True)[0], Whitened)


@pytest.mark.slow
def test_linear_models_of_persons_learn_in_whitened_coordinates():
    """At ε = 20 the noise is small: accuracy on the rows is that of a fit without noise, to within a few rows."""
    model = PrivateLogisticRegression(20.0, 1e-4, classes=[0, 1], **PUBLIC).fit(X, Y, person=IDS)
    certificate = model.certificate_
    assert (certificate.method, certificate.n) == ("Whitened", 400)
    assert (certificate.unit.name, certificate.unit.rows) == ("person", 3)
    assert certificate.schedule["moments"].acute
    assert certificate.verify()
    exact = PrivateLogisticRegression(np.inf, 1e-4, classes=[0, 1], **PUBLIC).fit(X, Y, person=IDS)
    assert model.score(X, Y) > exact.score(X, Y) - 0.02
    assert exact.score(X, Y) > max(Y.mean(), 1 - Y.mean()) + 0.1


@pytest.mark.deep
def test_regression_of_persons_is_weighted_least_squares():
    """Without noise, and with a threshold that nothing reaches, it is least squares with weights 1/(own rows)."""
    target = X @ [0.3, -0.2] + 0.1 * RNG.normal(size=len(IDS)) + 0.05 * COUNTS[IDS]
    model = PrivateLinearRegression(np.inf, 1e-4, target_bound=4.0, **PUBLIC).fit(X, target, person=IDS)
    design = np.column_stack([X, np.ones(len(IDS))])

    def least_squares(weights):
        root = np.sqrt(weights)[:, None]
        return np.linalg.lstsq(root * design, root[:, 0] * target, rcond=None)[0]

    found = [*model.coef_, model.intercept_]
    by_persons, by_rows = least_squares(1 / COUNTS[IDS]), least_squares(np.ones(len(IDS)))
    np.testing.assert_allclose(found, by_persons, atol=2e-3)
    assert np.abs(by_persons - by_rows).max() > 5e-3


@pytest.mark.deep
def test_the_share_of_positives_of_persons_is_bought_once(tmp_path):
    """It is the mean of own shares, and not that of rows; a run that goes on does not buy it again.

    The answer's deviation is about 0.003.
    """
    model = PrivateAUCClassifier(
        20.0,
        1e-4,
        classes=[0, 1],
        threshold="balanced",
        method=lambda default: dataclasses.replace(default, steps=2),
        checkpoints=Checkpoints(tmp_path / "run", resume=True),
        **PUBLIC,
    ).fit(X, Y, person=IDS)
    own = np.bincount(IDS, Y) / COUNTS
    assert own.mean() < Y.mean() - 0.04
    assert model.positive_share_ == pytest.approx(own.mean(), abs=0.015)
    certificate = model.certificate_
    assert next(query.name for query in certificate.schedule) == "share of positives"
    assert (certificate.n, certificate.unit.name) == (400, "person")
    assert certificate.verify()
    again = model.set_params(random_state=1).fit(X, Y, person=IDS)
    assert again.positive_share_ == model.positive_share_
