"""PrivateDROClassifier: what it learns, what it does for the worst case, and that scikit-learn knows it."""

import dataclasses

import jax
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from testkit.shortened import Shortened

import gossamer as gs
from gossamer.experiments.sweep import sweep
from gossamer.learn import PrivateDROClassifier, PrivateLogisticRegression

QUICK = gs.methods.DoubleSpider(steps=20, period=1, learning_rate=4.0, clip=0.5, batch_size=1)
QUICK_GROUPS = gs.methods.SGDA(steps=2, batch_size=6000)
PAIR = ["many", "few"]


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore::gossamer.PrivacyLeakWarning", "ignore::gossamer.WeakGuaranteeWarning")
@parametrize_with_checks([PrivateDROClassifier(columns=None, random_state=0, method=Shortened())])
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


def disagreement(n=6000, share=0.1):
    """A sharp column follows the label among the many and its opposite among the few; a blunt one follows it in both.

    Whoever looks at the average takes the sharp column, and is wrong about the few.
    """
    rng = np.random.default_rng(0)
    few = rng.uniform(size=n) < share
    y = rng.integers(0, 2, n)
    sign = 2.0 * y - 1
    sharp = np.where(few, -sign, sign) + 0.3 * rng.normal(size=n)
    blunt = sign + rng.normal(size=n)
    return np.column_stack([sharp, blunt]), y, np.where(few, "few", "many")


X, Y, GROUPS = disagreement()


def model(**options):
    return PrivateDROClassifier(**{"epsilon": 4.0, "data_norm": 4.0, "classes": [0, 1], "random_state": 0, **options})


def grouped(**options):
    return model(**{"groups": PAIR, "group_shares": (0.9, 0.1), **options})


@pytest.fixture(scope="module")
def fitted():
    """One fit of each kind."""
    return model().fit(X, Y), grouped().fit(X, Y, groups=GROUPS)


@pytest.mark.deep
@pytest.mark.parametrize("options", [{}, {"radius": 0.2}, {"hidden_layer_sizes": (8,)}])
def test_several_classes_of_flowers(options):
    """At ε = 50 on 150 rows, mean of 3 seeds; chance is a third, and labels drawn without the rows stay there."""
    flowers, kinds = load_iris(return_X_y=True)
    flowers = (flowers - 4.0) / 4.0
    rng = np.random.default_rng(0)

    def score(labels, seed):
        estimator = PrivateDROClassifier(
            50.0, data_norm=1.5, classes=["a", "b", "c"], random_state=seed, delta=1e-3, **options
        )
        return estimator.fit(flowers, labels).score(flowers, names)

    names = np.array(["c", "a", "b"])[kinds]
    assert np.mean([score(names, seed) for seed in range(3)]) > 0.8
    assert score(rng.permutation(names), 0) < 0.6


def flipped(seed, n=10_000, d=10):
    """Rows of norm 1 whose labels are the side of a plane, but for 5 % of them."""
    rng = np.random.default_rng(seed)
    rows, normal = rng.normal(size=(n, d)), rng.normal(size=d)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows, ((rows @ normal > 0) == (rng.uniform(size=n) >= 0.05)).astype(int)


@pytest.mark.deep
@pytest.mark.parametrize(
    "options",
    [{"divergence": d} for d in (gs.ChiSquare(), gs.KL(), gs.KLCVaR(0.1), gs.CressieRead(3.0))] + [{"radius": 0.1}],
    ids=["chi-square", "kl", "kl-cvar", "cressie-read", "ball"],
)
def test_the_defaults_beat_the_zero_model_in_their_own_objective(options):
    """ε = 1, five seeds, each by itself, on a table that no setting was chosen on."""
    rows, labels = flipped(0)
    estimator = model(epsilon=1.0, data_norm=1.0, **options)
    task = estimator.pose(rows, labels)
    budget = estimator.budget(len(labels))
    found = sweep(task.problem, task.data, task.method, budget, init=task.init, seed=0, runs=5)
    zero = float(task.problem.objective(task.init, task.data))
    values = jax.lax.map(lambda params: task.problem.objective(params, task.data), found)
    assert float(np.max(values)) < 0.97 * zero
    # The control: the clip that the defaults once had cuts the weight of hard records.
    if options.get("divergence") == gs.ChiSquare():
        old = dataclasses.replace(task.method, steps=200, clip=1.0, learning_rate=8.0)
        found = sweep(task.problem, task.data, old, budget, init=task.init, seed=0, runs=1)
        former = float(task.problem.objective(jax.tree.map(lambda leaf: leaf[0], found), task.data))
        assert former > 1.3 * float(np.max(values))


@pytest.mark.deep
def test_groups_raise_the_worst_accuracy(fitted):
    """The blunt column alone is right with probability Φ(1) = 0.84 in both groups, and nothing is better in the worse.

    The control is training for the average, and for hard records without knowing the groups.
    """
    plain, with_groups = fitted
    average = PrivateLogisticRegression(4.0, data_norm=4.0, classes=[0, 1], random_state=0).fit(X, Y)
    few = GROUPS == "few"
    assert average.score(X[few], Y[few]) < 0.6
    assert plain.worst_group_score(X, Y, GROUPS) < 0.6
    assert with_groups.worst_group_score(X, Y, GROUPS) > 0.74
    assert with_groups.score(X, Y) < plain.score(X, Y)
    assert with_groups.groups_.tolist() == PAIR
    assert with_groups.group_weights_[1] > with_groups.group_weights_[0]
    assert with_groups.group_weights_.sum() == pytest.approx(1.0)


@pytest.mark.slow
def test_the_worst_group_score_is_the_lowest_accuracy(fitted):
    plain, _ = fitted
    by_hand = [plain.score(X[name == GROUPS], Y[name == GROUPS]) for name in PAIR]
    assert by_hand[0] > by_hand[1]
    assert plain.worst_group_score(X, Y, GROUPS) == by_hand[1]


@pytest.mark.deep
def test_each_is_best_at_what_it_is_trained_for():
    """Without noise and without clipping: the mean of the losses, and their exact worst case for χ²."""
    full = {"steps": 200, "clip": 10.0}
    robust = gs.methods.DoubleSpider(
        **full, period=1, learning_rate=5.0, learning_rate_dual=0.25, clip_dual=10.0, initial_dual=0.7, batch_size=6000
    )
    exact = {"epsilon": np.inf, "data_norm": 4.0, "classes": [0, 1], "random_state": 0}
    average = PrivateLogisticRegression(**exact, method=gs.methods.GD(**full, learning_rate=8.0)).fit(X, Y)
    worst = PrivateDROClassifier(**exact, penalty=0.5, method=robust).fit(X, Y)
    losses = [-np.log(fitted.predict_proba(X)[np.arange(len(Y)), Y]) for fitted in (average, worst)]
    cases = [gs.ChiSquare().worst_case(each, 0.5).value for each in losses]
    assert losses[0].mean() < 0.97 * losses[1].mean()
    assert cases[1] < 0.97 * cases[0]


@pytest.mark.slow
def test_certificates_hold_when_they_are_recomputed(fitted):
    plain, with_groups = fitted
    for certificate, names in (
        (plain.certificate_, ["dual", "gradient"]),
        (with_groups.certificate_, ["gradient"]),
    ):
        assert (certificate.epsilon, certificate.delta) == (4.0, pytest.approx(len(Y) ** -1.1))
        assert [query.name for query in certificate.schedule] == names
        assert certificate.verify()
        assert not any("NOT MET" in sentence for sentence in certificate.assumptions)


@pytest.mark.slow
def test_scores_probabilities_and_labels_agree(fitted):
    plain, _ = fitted
    scores, chances = plain.decision_function(X), plain.predict_proba(X)
    np.testing.assert_allclose(chances[:, 1], 1 / (1 + np.exp(-scores)), rtol=1e-12)
    np.testing.assert_array_equal(plain.predict(X), (scores > 0).astype(int))
    assert plain.history_["gradient_norm"].shape == (100,)


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["data_norm", "classes", "groups"])
def test_what_is_read_from_the_data_is_named(missing):
    with pytest.warns(gs.PrivacyLeakWarning, match=f"{missing} was not given") as caught:
        read = grouped(method=QUICK_GROUPS, **{missing: None}).fit(X, Y, groups=GROUPS)
    assert len(caught) == 1
    assert [(leak.name, leak.where) for leak in read.certificate_.leaks] == [(missing, "argument")]


@pytest.mark.slow
def test_nothing_leaks_about_groups_without_groups():
    """Leak warnings are errors in these tests, so that the fit itself is the test."""
    model(method=QUICK).fit(X, Y)


@pytest.mark.deep
def test_the_order_of_the_names_is_that_of_the_shares():
    turned = grouped(groups=PAIR[::-1], group_shares=(0.1, 0.9), method=QUICK_GROUPS, epsilon=np.inf)
    straight = grouped(method=QUICK_GROUPS, epsilon=np.inf)
    weights = [estimator.fit(X, Y, groups=GROUPS).group_weights_ for estimator in (straight, turned)]
    np.testing.assert_allclose(weights[0], weights[1][::-1], rtol=1e-5)


@pytest.mark.deep
def test_it_lives_in_pipelines_and_knows_nothing_when_cloned():
    pipeline = make_pipeline(FunctionTransformer(lambda rows: rows / 2), grouped(method=QUICK_GROUPS, data_norm=2.0))
    pipeline.fit(X, Y, privatedroclassifier__groups=GROUPS)
    direct = grouped(method=QUICK_GROUPS).fit(X, Y, groups=GROUPS)
    np.testing.assert_allclose(pipeline.decision_function(X), direct.decision_function(X), rtol=1e-4, atol=1e-5)
    assert not hasattr(clone(direct), "layers_")


@pytest.mark.parametrize(
    ("options", "groups", "message"),
    [
        ({"group_shares": None}, None, "groups was given, but fit was not told"),
        ({"groups": None}, None, "group_shares was given, but fit was not told"),
        ({"penalty": 2.0}, GROUPS, r"penalty = 2.0 does not go with groups"),
        ({"groups": ["many", "none"]}, GROUPS, r"groups outside groups = \['many', 'none'\]"),
        ({"groups": ["many", "many"]}, GROUPS, "must be a list of two or more different names"),
        ({"groups": "many"}, GROUPS, "must be a list of two or more different names"),
        ({"group_shares": (0.5, 0.6)}, GROUPS, r"group_shares = \(0.5, 0.6\) must be 2 numbers"),
        ({"group_shares": (1.0,)}, GROUPS, r"group_shares = \(1.0,\) must be 2 numbers"),
        ({}, GROUPS[:-1], "inconsistent numbers of samples"),
        ({"epsilon": 0.0}, GROUPS, "epsilon = 0.0"),
    ],
)
def test_what_does_not_fit_together_is_refused(options, groups, message):
    with pytest.raises(ValueError, match=message):
        grouped(**options).fit(X, Y, groups=groups)


def test_settings_of_the_problem_are_checked():
    with pytest.raises(ValueError, match=r"radius = 0.5 needs divergence = gs\.KL\(\)"):
        model(divergence=gs.ChiSquare(), radius=0.5).fit(X, Y)
    with pytest.raises(ValueError, match="give one of them"):
        model(penalty=1.0, radius=0.5).fit(X, Y)
    with pytest.raises(TypeError, match="SGDA cannot solve a problem of type DRO"):
        model(method=gs.methods.SGDA()).fit(X, Y)
    with pytest.raises(TypeError, match="takes no sample_weight"):
        model().fit(X, Y, sample_weight=np.ones(len(Y)))


@pytest.mark.deep
def test_a_second_fit_forgets_the_groups_of_the_first():
    rng = np.random.default_rng(0)
    X, y, groups = rng.normal(size=(60, 2)), np.arange(60) % 2, np.arange(60) % 3
    public = {"data_norm": 3.0, "classes": [0, 1], "groups": [0, 1, 2], "group_shares": [1 / 3] * 3}
    model = PrivateDROClassifier(epsilon=1.0, delta=1e-2, progress=False, **public)
    assert len(model.fit(X, y, groups=groups).group_weights_) == 3
    model.set_params(groups=None, group_shares=None).fit(X, y)
    assert not hasattr(model, "group_weights_")
