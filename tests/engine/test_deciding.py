"""The threshold of decisions: what is asked after the training, what a record moves, and what comes out."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit.shortened import Shortened
from testkit.twins import NearlySilentOracle

import gossamer as gs
from gossamer.engine.deciding import THRESHOLD, Bisection, helps_f1, says_yes, with_scores
from gossamer.learn import PrivateAUCClassifier, PrivateLogisticRegression, PrivateMLPClassifier
from gossamer.objectives.erm import ERM
from gossamer.oracle import Oracle
from gossamer.oracle.people import by_person

RNG = np.random.default_rng(0)
N = 20_000
X = RNG.normal(size=(N, 2))
Y = (RNG.uniform(size=N) < 1 / (1 + np.exp(5.5 - 2 * X[:, 0]))).astype(int)
"""About 2 % of them are positive."""
PUBLIC = {"epsilon": 1.0, "data_norm": 4.0, "classes": [0, 1], "random_state": 0}


@dataclasses.dataclass
class Exact:
    """Answers without noise; it keeps what each record adds."""

    scores: np.ndarray
    labels: np.ndarray
    asked: list

    def __call__(self, name, query, clip):
        loss, (_, middle, about_labels) = query.loss, query.at
        yes = self.labels > 0.5 if about_labels > 0.5 else self.scores > float(middle)
        added = np.where(yes, 0.5, -0.5)
        one = loss.__call__((jnp.float32(1), middle, about_labels), (self.scores[0], self.labels[0]))
        assert float(one) == added[0]
        self.asked.append((name, clip, np.abs(added).max()))
        return (added.mean(), 0.0, 0.0)


def test_bisection_finds_as_many_as_are_positive():
    """Without noise, within one part in 2^10 of the interval; every record adds half a unit, whatever it holds."""
    scores, labels = RNG.normal(-2, 1.5, 1000).astype(np.float32), (np.arange(1000) < 50).astype(np.float32)
    scores[:2], labels[2] = [np.inf, np.nan], 7.0
    method, ask = Bisection(), Exact(scores, labels, [])
    state = method.init(ERM(says_yes), None)
    for t in range(method.steps):
        state, _ = method.step(ERM(says_yes), ask, state, jnp.int32(t))
    found = float(method.params(state)[1])
    assert (scores > found + 0.016).sum() <= 50 <= (scores > found - 0.016).sum()
    assert ask.asked == [("shares", 0.5, 0.5)] * 11
    (query,) = method.schedule(1000)
    assert (query.count, query.clip, query.acute) == (11, "0.5", False)


def test_scores_of_persons_stay_with_their_labels():
    rows, labels = np.arange(6.0)[:, None], np.array([0, 1, 0, 1, 1, 0], np.float32)
    people = by_person((rows, labels), [2, 1, 2, 1, 3, 3], 2)
    scored = with_scores(people, people.rows[0][:, 0] * 10)
    assert dict(zip(*map(np.ndarray.tolist, scored.rows), strict=True)) == dict(
        zip(10 * np.arange(6.0), labels, strict=True)
    )
    assert (scored.n, scored.unit) == (people.n, people.unit)


class ReadsScores(PrivateLogisticRegression):
    """Unsound: it takes the exact threshold."""

    def spend(self, task, leaks=()):
        super().spend(task, leaks)
        scores = task.score({"weights": self.coef_[0] * self.data_norm_, "intercept": self.intercept_[0]}, task.data[0])
        self.threshold_ = float(np.quantile(scores, 1 - task.data[1].mean()))
        return self


@pytest.mark.slow
def test_rare_positives_are_predicted_about_as_often_as_they_are():
    """At ε = 1 and 2 %: a deviation of the count is 53 of 400 rows. By 0.5 nobody is."""
    fitted = PrivateLogisticRegression(**PUBLIC, threshold="prevalence").fit(X, Y)
    assert 0.5 < fitted.predict(X).mean() / Y.mean() < 2
    np.testing.assert_array_equal(fitted.predict(X), (fitted.decision_function(X) > 0).astype(int))
    certificate = fitted.certificate_
    assert [query.name for query in certificate.schedule][-1] == THRESHOLD
    (bought,) = certificate.purchases
    assert (bought.name, bought.share, bought.after) == (THRESHOLD, 0.05, True)
    assert certificate.verify()
    cheaper = dataclasses.replace(certificate, purchases=(dataclasses.replace(bought, share=0.04),))
    assert not cheaper.verify()
    # Probabilities do not depend on the threshold, and the threshold is not that of the records.
    chances = fitted.predict_proba(X)[:, 1]
    assert chances.mean() == pytest.approx(Y.mean(), rel=0.3)
    assert 128 * fitted.threshold_ % 1 == 0  # one of the middles that were asked about
    assert (chances > 0.5).mean() < 0.5 * Y.mean()
    read = ReadsScores(**PUBLIC, threshold="prevalence").fit(X, Y)
    assert 128 * read.threshold_ % 1 != 0


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kind", "options"),
    [(PrivateAUCClassifier, {}), (PrivateMLPClassifier, {"threshold": "prevalence", "hidden_layer_sizes": (4,)})],
)
def test_other_classifiers_decide_likewise(kind, options):
    """However well they are trained."""
    fitted = kind(**{**PUBLIC, "epsilon": 2.0}, method=Shortened(), **options).fit(X, Y)
    assert 0.5 < fitted.predict(X).mean() / Y.mean() < 2
    assert fitted.certificate_.verify()


@pytest.mark.deep
def test_thresholds_of_persons_are_bought_once(tmp_path):
    """A person counts by its rows' mean, so that the share is that of persons; a finished run is not paid for again."""
    options = {**PUBLIC, "random_state": None, "threshold": "prevalence", "rows_per_person": 2}
    ids = np.arange(N) // 2
    model = PrivateLogisticRegression(**options, checkpoints=gs.Checkpoints(tmp_path / "run", resume=True))
    first = model.fit(X, Y, person=ids).threshold_
    assert 0.5 < model.predict(X).mean() / Y.mean() < 2
    assert (model.certificate_.unit.name, model.certificate_.n) == ("person", N // 2)
    assert model.certificate_.verify()
    assert model.fit(X, Y, person=ids).threshold_ == first


@pytest.mark.deep
def test_the_search_knows_records_by_their_own_scores_alone():
    """Another record's row changes nothing about what the others are, before the first query of the stage."""
    other = X.copy()
    other[0] = 3.0
    estimators = [PrivateLogisticRegression(**PUBLIC, threshold="prevalence") for _ in range(2)]
    tasks = [e.pose(rows, Y) for e, rows in zip(estimators, (X, other), strict=True)]
    params = {"weights": np.ones(2), "intercept": np.zeros(())}
    posed = []
    for task in tasks:
        *_, training, after = task.stages()
        training.pose({})
        posed.append(after.pose({"training": params}))
    assert (posed[0].problem, posed[0].method) == (posed[1].problem, posed[1].method)
    differ = posed[0].data[0] != posed[1].data[0]
    assert differ[0]
    assert not differ[1:].any()


@pytest.mark.parametrize("rule", ["often", 0.0, 1.0, np.nan, None])
def test_another_rule_is_refused(rule):
    with pytest.raises(ValueError, match=r"must be a probability between 0 and 1.*or 'prevalence'"):
        PrivateLogisticRegression(**PUBLIC, threshold=rule).pose(X, Y)


def test_rules_are_about_two_classes():
    three = PrivateLogisticRegression(**{**PUBLIC, "classes": [0, 1, 2]}, threshold="prevalence")
    with pytest.raises(ValueError, match="is about two classes, and there are 3"):
        three.pose(X, Y)
    with pytest.raises(ValueError, match="must be 'prevalence' or 'balanced'"):
        PrivateAUCClassifier(**PUBLIC, threshold=0.3).pose(X, Y)


def test_by_default_several_classes_buy_nothing():
    three = PrivateLogisticRegression(**{**PUBLIC, "classes": [0, 1, 2]})
    assert [stage.name for stage in three.pose(X, Y).stages()] == ["training"]


@pytest.mark.deep
def test_a_search_buys_the_threshold_in_each_trial():
    search = gs.learn.PrivateSearch(
        PrivateLogisticRegression(**PUBLIC), {"l2": [1e-3]}, epsilon=2.0, trials=2, random_state=0
    ).fit(X, Y)
    assert 0.5 < search.predict(X).mean() / Y.mean() < 2
    assert search.certificate_.verify()


class Told:
    """Answers that are given, and a deviation."""

    def __init__(self, share, deviation):
        self.share, self.spread = share, deviation

    def __call__(self, name, query, clip):
        return (self.share - 0.5, 0.0, 0.0)

    def deviation(self, name):
        return self.spread


@pytest.mark.parametrize(
    ("share", "deviation", "moves"),
    [(0.02, 0.01, True), (0.98, 0.01, True), (0.24, 0.01, False), (0.15, 0.1, False), (0.85, 0.1, False)],
)
def test_auto_leaves_one_half_unless_a_class_is_clearly_rare(share, deviation, moves):
    """Unclear is what may be a fifth, two deviations up or down; a deviation is in thresholds of one half."""
    method, ask = Bisection(rule="auto"), Told(share, jnp.float32(deviation))
    state = method.init(ERM(says_yes), None)
    for t in range(method.steps):
        state, _ = method.step(ERM(says_yes), ask, state, jnp.int32(t))
    assert (float(method.params(state)[1]) != 0) == moves


def test_f1_finds_the_best_threshold_of_right_probabilities():
    """Without noise; every record adds half a unit at most, at every score that is asked about."""
    rng = np.random.default_rng(1)
    scores = rng.normal(-3, 1.5, 40_000)
    labels = rng.uniform(size=40_000) < 1 / (1 + np.exp(-scores))
    hostile = [(np.inf, 1.0), (-np.inf, 7.0), (np.nan, 1.0), (np.inf, 0.0), (-np.inf, np.nan), (0.0, -3.0)]

    class Mean:
        def __call__(self, name, query, clip):
            one = jax.vmap(lambda s, y: jax.grad(query.loss)(query.at, (s, y))[0])
            added = np.asarray(one(jnp.float32(scores), jnp.float32(labels)))
            worst = np.asarray(one(*jnp.float32(hostile).T))
            assert np.abs(np.concatenate([added, worst])).max() <= clip == 0.5
            return (float(added.mean(dtype=np.float64)), 0.0, 0.0)

    method = Bisection(rule="f1")
    state = method.init(ERM(helps_f1), None)
    for t in range(method.steps):
        state, _ = method.step(ERM(helps_f1), Mean(), state, jnp.int32(t))
    found = float(method.params(state)[1])

    def f1(threshold):
        above = scores > threshold
        return 2 * (above & labels).sum() / (above.sum() + labels.sum())

    assert f1(found) > max(f1(t) for t in np.linspace(-4, 1, 201)) - 0.01
    assert f1(found) > f1(0.0) + 0.05  # one half is not the threshold of the best F1


@pytest.mark.deep
@pytest.mark.parametrize("oracle", [Oracle, NearlySilentOracle])
@pytest.mark.parametrize(("rule", "loss", "farthest"), [("auto", says_yes, 2.0), ("f1", helps_f1, 1.0)])
def test_questions_are_audited(oracle, rule, loss, farthest):
    """A record that says yes wherever it said no moves each answer by two thresholds, and an attacker by no more.

    For F1 a true positive in place of a true negative moves most; (4 − 4p)/2 of a threshold in place of a mistake.

    The attack sees what the search ends with and not each answer, so that the twin has a tenth of the noise.
    """
    scores, labels = np.float32([-9.0, 1.0, -1.0, 3.0]), np.float32([0.0, 1.0, 0.0, 1.0])
    problem, record = ERM(loss), (jnp.float32(jnp.inf), jnp.float32(1.0))
    budget, init = gs.Budget(2.0, 1e-3), (jnp.float32(0),) * 3
    moved = gs.audit.sensitivity(problem, (scores, labels), 0, record, Bisection(3, rule), budget, init=init)
    assert moved
    assert farthest < moved.worst["shares"] <= 2.0 * 1.002 or rule == "auto"
    assert rule == "f1" or moved.worst["shares"] == pytest.approx(2.0, rel=1e-3)
    assert gs.audit.replay(problem, (scores, labels), (scores[::-1], labels), Bisection(3, rule), budget, init=init)
    audit = gs.audit.empirical_epsilon(
        problem, (scores, labels), 0, record, Bisection(3, rule), budget, init=init, runs=16_384, oracle=oracle
    )
    assert bool(audit) == (oracle is Oracle)
    assert audit.lower_bound > 0.6 * budget.epsilon
