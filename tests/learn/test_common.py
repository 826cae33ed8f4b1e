"""What all estimators share, tried on each of them."""

import inspect

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import has_fit_parameter

import gossamer as gs
from gossamer.learn import PrivateLinearRegression, PrivateLogisticRegression
from gossamer.learn._common import scale_rows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
SIGNAL = X @ np.array([1.0, -2.0, 0.5])
QUICK = gs.methods.GD(steps=30, clip=0.5)
ESTIMATORS = {
    "logistic": (PrivateLogisticRegression, {"classes": [0, 1]}, (SIGNAL > 0).astype(int)),
    "linear": (PrivateLinearRegression, {"target_bound": 6.0}, SIGNAL + 0.1 * RNG.normal(size=300)),
}


@pytest.fixture(params=ESTIMATORS)
def case(request):
    """Return a way to make the estimator with other parameters, and its targets."""
    kind, bounds, y = ESTIMATORS[request.param]
    options = {"epsilon": 5.0, "data_norm": 4.0, "method": QUICK, "random_state": 0, **bounds}
    return (lambda **other: kind(**{**options, **other})), y


@pytest.mark.slow
def test_it_lives_in_pipelines(case):
    """The transformer reads one row at a time, so the guarantee passes through it."""
    make, y = case
    pipeline = make_pipeline(FunctionTransformer(lambda rows: rows / 2), make(data_norm=2.0)).fit(X, y)
    np.testing.assert_array_equal(pipeline.predict(X), make(data_norm=2.0).fit(X / 2, y).predict(X / 2))
    assert pipeline[-1].certificate_.epsilon == 5.0


@pytest.mark.slow
def test_a_clone_knows_parameters_and_nothing_of_the_data(case):
    make, y = case
    estimator = make(l1=1e-3, l2=1e-2)
    before = estimator.get_params()
    estimator.fit(X, y)
    assert estimator.get_params() == before
    copy = clone(estimator)
    assert copy.get_params() == before
    assert not hasattr(copy, "coef_")
    assert not hasattr(copy, "certificate_")
    np.testing.assert_array_equal(copy.fit(X, y).coef_, estimator.coef_)


@pytest.mark.deep
def test_grid_search_finds_the_setting_that_learns(case):
    """A method that hardly moves loses; the certificate states the cost of the last fit alone, not of the search."""
    make, y = case
    grid = {"method": [gs.methods.GD(steps=1, learning_rate=1e-6), QUICK]}
    search = GridSearchCV(make(), grid, cv=KFold(2)).fit(X, y)
    assert search.best_params_ == {"method": QUICK}
    assert search.best_estimator_.certificate_.epsilon == 5.0


@pytest.mark.slow
def test_sample_weights_are_refused_with_the_reason(case):
    make, y = case
    weights = np.ones(len(y))
    with pytest.raises(TypeError, match=r"takes no sample_weight.*before clipping.*gs\.solve"):
        make().fit(X, y, sample_weight=weights)
    pipeline = make_pipeline(make())
    with pytest.raises(TypeError, match="takes no sample_weight"):
        pipeline.fit(X, y, **{f"{pipeline.steps[0][0]}__sample_weight": weights})
    assert not has_fit_parameter(make(), "sample_weight")
    make().fit(X, y, sample_weight=None)


def test_other_keywords_get_the_usual_error(case):
    make, y = case
    with pytest.raises(TypeError, match=r"fit\(\) got an unexpected keyword argument 'epochs'"):
        make().fit(X, y, epochs=3)


@pytest.mark.slow
def test_nothing_is_warned_about_when_all_bounds_are_given(case):
    """Leak warnings are errors in these tests, so that the fit itself is the test."""
    make, y = case
    assert not any("NOT MET" in sentence for sentence in make().fit(X, y).certificate_.assumptions)


def test_a_row_norm_that_is_read_from_the_data_is_warned_about(case):
    make, y = case
    with pytest.warns(gs.PrivacyLeakWarning, match=r"data_norm was not given.*Pass data_norm") as caught:
        line = inspect.currentframe().f_lineno + 1
        fitted = make(data_norm=None).fit(X, y)
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line)]
    assert any(s.startswith("NOT MET: data_norm") for s in fitted.certificate_.assumptions)
    assert fitted.certificate_ == gs.Certificate.from_json(fitted.certificate_.to_json())


@pytest.mark.slow
def test_one_row_does_not_move_the_others():
    """Scaling is a function of one row when its bound is public; read from the data, the bound ties rows together."""
    other = X.copy()
    other[0] *= 1000
    given, read = ([scale_rows(rows, bound)[0][1:] for rows in (X, other)] for bound in (4.0, None))
    np.testing.assert_array_equal(*given)
    assert (read[0] != read[1]).all()


@pytest.mark.slow
def test_rows_beyond_the_declared_norm_are_shortened(case):
    """Outliers cannot move the scale: a row and the same row a thousand times longer are one."""
    make, y = case
    longer = X * np.where(np.linalg.norm(X, axis=1, keepdims=True) > 1, 1000, 1)
    fits = [make(data_norm=1.0).fit(rows, y) for rows in (X, longer)]
    np.testing.assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-4)
    rows, _ = scale_rows(longer, 1.0)
    assert np.linalg.norm(rows, axis=1).max() == pytest.approx(1.0)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.inf, np.nan, "wide"])
def test_a_bad_bound_is_refused(case, bound):
    make, y = case
    with pytest.raises(ValueError, match=r"data_norm = .* must be a finite number above 0"):
        make(data_norm=bound).fit(X, y)
    if "target_bound" in make().get_params():
        with pytest.raises(ValueError, match=r"target_bound = .* must be a finite number above 0"):
            make(target_bound=bound).fit(X, y)


@pytest.mark.filterwarnings("ignore::gossamer.PrivacyLeakWarning")
def test_a_norm_too_large_to_read_is_refused(case):
    make, y = case
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="data_norm = inf must be a finite number above 0"):
        make(data_norm=None).fit(X * 1e300, y)


@pytest.mark.parametrize("name", ["l1", "l2"])
@pytest.mark.parametrize("strength", [-1.0, np.inf, np.nan, None])
def test_a_bad_penalty_is_refused(case, name, strength):
    make, y = case
    with pytest.raises(ValueError, match=rf"{name} = .* must be a finite number of at least 0"):
        make(**{name: strength}).fit(X, y)


def test_a_method_that_needs_a_constraint_is_refused(case):
    make, y = case
    with pytest.raises(ValueError, match=r"AccMD.* works within a constraint.*SVRG.*gs\.solve"):
        make(method=gs.methods.AccMD()).fit(X, y)
    with pytest.raises(TypeError, match="method = 'GD' must be an instance of a class"):
        make(method="GD").fit(X, y)


def test_delta_defaults_to_a_power_of_n(case):
    make, y = case
    assert make().fit(X, y).certificate_.delta == pytest.approx(300**-1.1)
    assert make(delta=1e-5).fit(X, y).certificate_.delta == 1e-5


def test_the_certificate_comes_with_the_fit(case):
    make, y = case
    fitted = make(epsilon=0.7, neighbors="add_remove").fit(X, y)
    assert fitted.certificate_.epsilon == 0.7
    assert fitted.certificate_.neighbors == "add_remove"
    assert fitted.certificate_.verify()
    assert len(fitted.history_["gradient_norm"]) == QUICK.steps


@pytest.mark.slow
def test_epsilon_is_checked_whatever_the_method(case):
    make, y = case
    for method in (None, QUICK):
        with pytest.raises(ValueError, match=r"epsilon = -1\.0 must be a number above 0"):
            make(epsilon=-1.0, method=method).fit(X, y)


@pytest.mark.slow
def test_the_seed(case):
    """A generator gives a seed, a number is one, and None takes new entropy each time."""
    make, y = case
    first, second = (make(random_state=np.random.RandomState(3)).fit(X, y).coef_ for _ in range(2))
    np.testing.assert_array_equal(first, second)
    first, second = (make(random_state=None).fit(X, y).coef_ for _ in range(2))
    assert (first != second).all()


METHODS = [
    gs.methods.SGD(steps=60, learning_rate=1.0, clip=0.5, batch_size=150),
    gs.methods.SVRG(steps=4, inner_steps=15, learning_rate=1.0, clip=0.5, smoothness=1.0, batch_size=150),
    gs.methods.SVRGpp(steps=3, inner_steps=4, learning_rate=1.0, clip=0.5, smoothness=1.0, batch_size=150),
    gs.methods.Spider(steps=60, period=5, learning_rate=1.0, clip=0.5, smoothness=1.0, batch_size=150),
]


@pytest.mark.deep
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_any_method_for_erm_trains_them(method):
    """At ε = 10 with an elastic net: three classes of equal size, and a linear signal.

    The bounds are 5 deviations of a seed below the worst method's mean over 4 seeds, 0.778 and 0.952.
    """
    options = {"epsilon": 10.0, "data_norm": 4.0, "l1": 1e-4, "l2": 1e-4, "method": method, "random_state": 0}
    largest = X.argmax(axis=1)
    multinomial = PrivateLogisticRegression(classes=[0, 1, 2], **options).fit(X, largest)
    assert multinomial.score(X, largest) > 0.7
    linear = PrivateLinearRegression(target_bound=6.0, **options).fit(X, SIGNAL)
    assert linear.score(X, SIGNAL) > 0.88
    assert linear.certificate_.method == type(method).__name__
