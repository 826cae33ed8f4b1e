"""Estimators that protect persons: their default method, what they buy, and what their certificates say."""

import dataclasses
import inspect

import jax.numpy as jnp
import numpy as np
import pytest
from testkit.frames import Frame

from gossamer import learn
from gossamer.engine.bounds import BOUNDS
from gossamer.engine.checkpoints import Checkpoints
from gossamer.engine.deciding import THRESHOLD
from gossamer.learn import (
    PrivateAdditiveClassifier,
    PrivateAUCClassifier,
    PrivateLinearRegression,
    PrivateLogisticRegression,
)
from gossamer.learn._buying import CLASSES, STAND_IN
from gossamer.methods import Whitened
from gossamer.oracle.people import People
from gossamer.tables.kinds import Ignore

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


def test_a_threshold_of_persons_is_bought_for_the_scores_of_their_own_rows():
    """Rows of persons stand in another order than those of the table, and some of them do not count."""
    mixed = np.random.default_rng(1).permutation(len(IDS))
    rows, labels, ids = X[mixed], Y[mixed], IDS[mixed]
    model = PrivateAdditiveClassifier(3.0, 1e-4, bounds=(-4, 4), classes=[0, 1], rows_per_person=2)
    task = model.pose(rows, labels, person=ids)
    rng = np.random.default_rng(2)
    params = {name: jnp.asarray(rng.normal(size=leaf.shape)) for name, leaf in task.init.items()}
    found = task.score(params, task.data.rows[0])
    kept = People.grouping(ids, 2).rows
    np.testing.assert_allclose(found, model.decision_function(rows)[kept], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(labels[kept], task.data.rows[1])


def test_every_estimator_takes_persons():
    """All of them have `person` and `rows_per_person`, and count persons where they count records."""
    for name in learn.__all__:
        estimator = getattr(learn, name)
        if name in (
            "PrivateSearch",
            "TableEncoder",
        ):  # the first hands it on to its estimator, the second trains nothing
            continue
        public = {"epsilon": 1.0, "rows_per_person": 3, "delta": 1e-4}
        public |= {"bounds": (-4, 4)} if "Additive" in name else {"data_norm": 4.0}
        for given, value in {"classes": [0, 1], "target_bounds": (0, 1), "target_bound": 1.0}.items():
            public |= {given: value} if given in inspect.signature(estimator).parameters else {}
        task = estimator(**public).pose(X, Y, person=IDS)
        assert isinstance(task.data, People) and (task.data.n, task.data.cap) == (400, 3)


def test_additive_models_are_made_of_the_number_of_persons():
    def posed(times):
        model = PrivateAdditiveClassifier(3.0, 1e-4, bounds=(-4, 4), classes=[0, 1], rows_per_person=3)
        task = model.pose(np.repeat(X, times, axis=0), np.repeat(Y, times), np.repeat(IDS, times))
        return task.method, model._expansion, [(each.name, each.share) for each in task.bought]

    assert posed(1) == posed(4)


@pytest.mark.deep
def test_additive_models_of_persons_learn_and_buy_histograms_by_persons():
    public = {"bounds": (-4, 4), "classes": [0, 1], "rows_per_person": 3, "random_state": 0}
    model = PrivateAdditiveClassifier(20.0, 1e-4, **public).fit(X, Y, person=IDS)
    certificate = model.certificate_
    assert (certificate.n, certificate.unit.name, certificate.unit.rows) == (400, "person", 3)
    assert [each.name for each in certificate.purchases] == ["histograms of columns", THRESHOLD]
    assert certificate.verify() and certificate.leaks == ()
    assert model.score(X, Y) > max(Y.mean(), 1 - Y.mean()) + 0.1


def frame(rows=slice(None)):
    return Frame({"a": X[rows, 0].tolist(), "b": X[rows, 1].tolist()})


@pytest.mark.slow
def test_what_is_not_declared_of_a_table_of_persons_is_bought_by_persons():
    """One certificate about 400 persons. A person with an extreme value in each of its rows counts once."""
    model = PrivateLogisticRegression(40.0, 1e-4, rows_per_person=3, random_state=0)
    labels = np.where(Y == 1, "ill", "well")
    model.fit(frame(), labels, person=IDS)
    certificate = model.certificate_
    assert (certificate.n, certificate.unit.name, certificate.leaks) == (400, "person", ())
    assert [each.name for each in certificate.purchases] == [CLASSES, BOUNDS, THRESHOLD]
    assert certificate.verify()
    assert model.classes_.tolist() == ["ill", "well"]
    kinds = [declared.kind for declared in model.encoder_.columns_.columns.values()]
    assert all((kind.low, kind.high) == pytest.approx((-2.3, 2.3), abs=1.0) for kind in kinds)
    assert model.score(frame(), labels) > 0.6


def test_the_plan_of_a_table_of_persons_knows_neither_rows_nor_how_many_there_are():
    def posed(rows, labels):
        model = PrivateLogisticRegression(40.0, 1e-4, rows_per_person=3)
        task = model.pose(frame(rows), labels[rows], person=IDS[rows])
        return task.problem, task.method, task.data.n, str([(each.name, each.share) for each in task.bought])

    first_rows = np.unique(IDS, return_index=True)[1]
    assert posed(np.arange(len(IDS)), Y) == posed(first_rows, Y) == posed(first_rows, 1 - Y)


def test_a_column_that_says_whose_row_it_is_becomes_no_feature():
    pandas = pytest.importorskip("pandas")
    visits = pandas.DataFrame({"who": IDS, "a": X[:, 0], "b": X[:, 1]})
    model = PrivateLogisticRegression(40.0, 1e-4, classes=[0, 1], rows_per_person=3, random_state=0)
    model.pose(visits, Y, person=visits["who"])
    assert model.encoder_.columns_.columns["who"].kind == Ignore("it says whose row it is")
    model.pose(visits, Y, person=visits["who"].to_numpy())
    assert model.encoder_.columns_.columns["who"].kind == STAND_IN


def test_a_class_of_a_person_is_that_of_its_first_row():
    """So all rows of one person change one value of what is counted, whatever they are."""
    people = People.grouping(IDS, 3)
    labels = np.array([f"class {i % 2}" for i in IDS], object)
    changed = np.where(IDS == 5, "unheard of", labels)
    assert (people.first_of(labels) != people.first_of(changed)).sum() == 1
    assert len(people.first_of(labels)) == 400
