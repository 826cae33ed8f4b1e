"""Additive models: their functions, their declarations, and that without noise they are the best of their class."""

import copy

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

import gossamer as gs
from gossamer.experiments.sources import Columns
from gossamer.learn import PrivateAdditiveClassifier, PrivateAdditiveRegressor
from gossamer.learn._shapes import Expansion, Warps
from gossamer.tables import Amount, Category, Number

KINDS = (Number(0.0, 10.0), Category(("a", "b", "c")), Amount(100.0))
EXPANSION = Expansion(KINDS, 4)
BOUNDS = {"age": (0, 10), "gain": Amount(100.0)}
CATEGORIES = {"job": ["a", "b", "c"]}


def people(n=400, seed=0):
    """A table with a hump in age, a jump at any gain and an effect of the job."""
    rng = np.random.default_rng(seed)
    age, job = rng.uniform(0, 10, n), rng.choice(np.array(["a", "b", "c"], object), n)
    gain = np.where(rng.uniform(size=n) < 0.3, rng.uniform(1, 100, n), 0.0)
    score = 2 * np.sin(age / 10 * np.pi) - 1 + (job == "b") + 1.5 * (gain > 0)
    return (
        Columns({"age": age, "job": job, "gain": gain}),
        score,
        (rng.uniform(size=n) < 1 / (1 + np.exp(-score))).astype(int),
    )


def model(**options):
    declared = {"bounds": BOUNDS, "categories": CATEGORIES, "classes": [0, 1], "random_state": 0}
    return PrivateAdditiveClassifier(**{**declared, **options})


@pytest.fixture(scope="module")
def fitted():
    X, _, y = people()
    return model(epsilon=4.0, monotone={"gain": 1}).fit(X, y)


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore::gossamer.PrivacyLeakWarning", "ignore::gossamer.WeakGuaranteeWarning")
@parametrize_with_checks([PrivateAdditiveClassifier(random_state=0), PrivateAdditiveRegressor(random_state=0)])
def test_scikit_learn_compatible(estimator, check):
    check(estimator)


def test_rows_are_short_and_functions_are_their_parts():
    """A row's norm is √2 at most, and its score is the sum of what the shapes say, straightened or not."""
    rng = np.random.default_rng(0)
    columns = [
        rng.uniform(-3, 14, 200),
        rng.choice(np.array(["a", "c", "z"], object), 200),
        rng.choice([0.0, 3.0, 90.0, 500.0], 200),
    ]
    x = EXPANSION.encode(columns)
    for warps in (Warps.none(2), Warps.of(rng.dirichlet(np.ones(16), 2), 0.01)):
        straight = warps(x, EXPANSION.smooth)
        rows = np.stack([np.asarray(EXPANSION(row)) for row in straight[:40]])
        assert np.linalg.norm(rows, axis=1).max() <= np.sqrt(2) + 1e-6
        weights = rng.normal(size=(EXPANSION.width, 2))
        shapes = EXPANSION.functions(weights, warps)
        total = sum(shape(x[:40, place]) for place, shape in enumerate(shapes))
        np.testing.assert_allclose(total, rows @ weights, atol=5e-3)  # between points of the grid: lines


def test_a_missing_value_is_a_part_of_its_own_or_nothing():
    """Where its flag is 1 the rest of its column is 0, so that no row becomes longer."""
    whole = Expansion(KINDS, 4, gaps=(0, 1))
    rng = np.random.default_rng(0)
    x = np.array([[-2, -2, -2], [0.5, -2, 0.25], [-2, 1, -1], [0, 0, 0]], np.float32)
    rows = np.stack([np.asarray(whole(row)) for row in x])
    assert whole.width == EXPANSION.width + 2
    np.testing.assert_allclose(rows[:, -2:] * np.sqrt(3), [[1, 1], [0, 1], [1, 0], [0, 0]])
    assert not rows[0, :-2].any()
    norms = np.linalg.norm(rows, axis=1) * np.sqrt(3)
    assert norms.argmax() == 3 and norms[3] == pytest.approx(2), "the code 0 is the longest that a column can be"
    weights = rng.normal(size=(whole.width, 2))
    total = sum(shape(x[:, place]) for place, shape in enumerate(whole.functions(weights, Warps.none(2))))
    np.testing.assert_allclose(total, rows @ weights, atol=1e-6)


def test_crowded_columns_are_straightened():
    """Nine tenths of the records in the first bin take about half of the way; bins below the noise count as empty."""
    shares = np.array([[0.9, 0.1, 0.004, -0.3]])
    (warp,) = Warps.of(shares, deviation=0.01).at_knots
    np.testing.assert_allclose(warp, 0.5 * (np.linspace(0, 1, 5) + np.array([0, 0.9, 1, 1, 1])), atol=1e-6)


@pytest.mark.deep
def test_without_noise_it_is_the_best_additive_model():
    """ε = ∞: the scores of scikit-learn's logistic regression on the same functions of the columns."""
    X, _, y = people()
    ours = model(epsilon=np.inf, terms=3).fit(X, y)
    x = ours._warps(ours._expansion.encode([X[name] for name in X.columns]), ours._expansion.smooth)
    rows = np.stack([np.asarray(ours._expansion(row)) for row in x])
    theirs = LogisticRegression(C=np.inf, tol=1e-8, max_iter=10_000).fit(rows, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(rows), atol=2e-2)


@pytest.mark.slow
def test_it_learns_the_functions(fitted):
    X, score, _ = people(2000, seed=1)
    assert np.corrcoef(fitted.decision_function(X), score)[0, 1] > 0.7
    values, adds = fitted.shape("job")
    assert list(values) == ["(other)", "a", "b", "c"] and adds[0] == 0
    values, adds = fitted.shape("gain")
    assert values[0] == 0 and values[-1] == pytest.approx(100) and (np.diff(adds) >= 0).all()
    assert fitted.certificate_.verify() and not fitted.certificate_.leaks


@pytest.mark.slow
def test_a_function_can_be_edited(fitted):
    """Post-processing: only what was edited changes, and the certificate does not."""
    X, _, _ = people(50, seed=2)
    edited = copy.deepcopy(fitted)
    edited.edit("age", lambda age, adds: np.zeros_like(adds))
    _, adds = edited.shape("age")
    assert not adds.any()
    moved = fitted.decision_function(X) - edited.decision_function(X)
    np.testing.assert_allclose(moved, np.interp(X["age"], *fitted.shape("age")), atol=1e-6)
    with pytest.raises(ValueError, match="must return finite numbers of shape"):
        edited.edit("age", lambda age, adds: adds[:3])
    with pytest.raises(ValueError, match="column = 'size' must be one of"):
        edited.shape("size")
    with pytest.raises(ValueError, match="Pass the same columns in the same order"):
        edited.predict(Columns({"age": X["age"]}))
    assert len(fitted.plot().axes) == 3


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"bounds": {"age": (0, 10)}}, "column 'gain' is neither in bounds nor in categories"),
        ({"categories": {}}, "column 'job' holds text and is not in categories"),
        ({"bounds": {**BOUNDS, "size": (0, 1)}}, "bounds has the column 'size'"),
        ({"bounds": {**BOUNDS, "age": (10, 0)}}, r"bounds\['age'\] = \(10, 0\) must be \(low, high\)"),
        ({"terms": 0}, "terms = 0 must be a whole number of at least 1"),
    ],
)
def test_declarations_are_checked(options, match):
    X, _, y = people(20)
    with pytest.raises(ValueError, match=match):
        model(**options).pose(X, y)


def test_what_was_not_declared_is_read_and_named():
    X, _, y = people(50)
    task = model(bounds=None, categories=None)
    task.pose(X, y)
    with pytest.warns(gs.PrivacyLeakWarning) as warned:
        leaks = task._leaks()
    assert {leak.name for leak in leaks} == {"bounds", "categories"} and len(warned) == 2


def test_histograms_are_bought_only_where_they_are_resolved():
    """By public numbers: 400 records at ε = 0.1 are too few, 40 000 are not."""
    few, many = (model(epsilon=0.1).pose(*people(n)[::2]) for n in (400, 40_000))
    assert not few.bought and [stage.share for stage in many.bought] == [0.05]


@pytest.mark.deep
def test_a_regression_is_in_the_units_of_its_target():
    X, score, _ = people(800)
    y = 100 + 10 * score
    ours = PrivateAdditiveRegressor(4.0, bounds=BOUNDS, categories=CATEGORIES, target_bounds=(50, 150), random_state=0)
    assert ours.fit(X, y).score(X, y) > 0.6
    assert 80 < ours.predict(X).mean() < 120
