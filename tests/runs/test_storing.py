"""Models as files: the same predictions to the last bit, and a clear refusal of everything else."""

import hashlib
import io
import itertools
import json
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.learn import (
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateAUCClassifier,
    PrivateDROClassifier,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMLPClassifier,
)
from gossamer.learn._objectives import OBJECTIVES
from gossamer.learn._shapes import Expansion, Warps
from gossamer.runs.storing import largest_size, pack, unpack
from gossamer.tables import Amount, Category, Declaration, Number
from gossamer.tables.encoding import Coded, coded_kinds

RNG = np.random.default_rng(0)
D = 7
X = 3 * RNG.normal(size=(50, D))


def fitted(kind, classes, **attributes):
    """Return an estimator as `fit` leaves it, with made-up numbers."""
    model = kind()
    model.n_features_in_ = D
    if classes is not None:
        model.classes_ = np.array(classes)
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


def layers(*widths):
    return [{"weights": RNG.normal(size=(m, k)), "bias": RNG.normal(size=k)} for m, k in itertools.pairwise(widths)]


COLUMNS = {
    "age": Declaration(Number(0.0, 10.0), missing=True),
    "job": Declaration(Category(("a", "b", "c"))),
    "gain": Declaration(Amount(100.0)),
}
CODES = RNG.choice([-2, -1, 0, 1, 0.3], (50, 3)) * np.array([1, 0, 1]) + RNG.integers(-2, 3, (50, 3)) * [0, 1, 0]


def functions(outputs):
    """Return what an additive model of these columns has learned."""
    kinds = coded_kinds(COLUMNS)
    expansion, warps = Expansion(kinds, 3, gaps=(0,)), Warps.of(RNG.dirichlet(np.ones(8), 2), 0.01)
    shapes = expansion.functions(RNG.normal(size=(expansion.width, outputs)), warps)
    names = np.array(list(COLUMNS), object)
    return {"shapes_": dict(zip(COLUMNS, shapes, strict=True)), "n_features_in_": 3, "feature_names_in_": names}


MODELS = {
    "logistic": fitted(
        PrivateLogisticRegression,
        ["no", "yes"],
        coef_=RNG.normal(size=(1, D)),
        intercept_=RNG.normal(size=1),
        threshold_=-1.5,
    ),
    "softmax": fitted(
        # Kept in the other order in memory, as `fit` leaves it: sums then round differently.
        PrivateLogisticRegression,
        [1, 2, 30],
        coef_=RNG.normal(size=(D, 3)).T,
        intercept_=RNG.normal(size=3),
        threshold_=0.0,
    ),
    "auc": fitted(
        PrivateAUCClassifier, ["a", "b"], layers_=layers(D, 5, 1), data_norm_=2.5, threshold_=0.1, positive_share_=0.3
    ),
    "network": fitted(PrivateMLPClassifier, ["a", "b"], layers_=layers(D, 4, 1), data_norm_=2.5, threshold_=0.5),
    "dro": fitted(PrivateDROClassifier, ["a", "b", "c"], layers_=layers(D, 4, 3, 3), data_norm_=2.5),
    "linear": fitted(PrivateLinearRegression, None, coef_=RNG.normal(size=D), intercept_=float(RNG.normal())),
    "additive": fitted(
        PrivateAdditiveClassifier, ["a", "b", "c"], **functions(3), intercept_=RNG.normal(size=3), threshold_=0.0
    ),
    "additive-regression": fitted(PrivateAdditiveRegressor, None, **functions(1), intercept_=RNG.normal(size=1)),
    "worst-group": fitted(
        PrivateDROClassifier,
        ["a", "b"],
        layers_=layers(D, 1),
        data_norm_=2.5,
        groups_=np.array(["u", "v"]),
        group_weights_=np.array([0.2, 0.8]),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_stored_model_predicts_the_same(name):
    model, objective = MODELS[name], OBJECTIVES.get(name, OBJECTIVES["logistic"])
    content, description = pack(model, objective)
    assert len(content) <= largest_size(description, objective)
    loaded = unpack(content, json.loads(json.dumps(description)), objective, COLUMNS)
    assert type(loaded) is type(model)
    rows = Coded(COLUMNS, CODES) if objective.additive else X
    for function in ("predict", "predict_proba", "decision_function")[: 1 if objective.target == "number" else 3]:
        np.testing.assert_array_equal(getattr(loaded, function)(rows), getattr(model, function)(rows))
    public = {key for key in vars(model) if key.endswith("_")}
    assert {key for key in vars(loaded) if key.endswith("_")} == public
    assert pack(loaded, objective) == (content, description)


@pytest.mark.parametrize(
    ("change", "columns", "match"),
    [
        ({"points": [0, 4, 9]}, COLUMNS, "points must be whole numbers"),
        ({"points": [10, 4]}, COLUMNS, "a number for each column"),
        ({}, dict(list(COLUMNS.items())[:2]), "functions of 3 columns, and 2 are declared"),
        ({}, {**COLUMNS, "job": Declaration(Category(("a", "b", "c", "d")))}, "the function of column 'job' is not"),
        ({}, {**COLUMNS, "gain": Declaration(Number(0, 1))}, "the function of column 'gain' is not"),
    ],
)
def test_functions_of_other_columns_are_refused(change, columns, match):
    content, description = pack(MODELS["additive"], OBJECTIVES["additive"])
    with pytest.raises(ValueError, match=match):
        unpack(content, {**description, **change}, OBJECTIVES["additive"], columns)


def test_a_model_from_before_thresholds_decides_at_one_half():
    objective = OBJECTIVES["logistic"]
    content, description = pack(MODELS["logistic"], objective)
    loaded = unpack(content, {**description, "numbers": {}}, objective)
    assert loaded.threshold_ == 0.0
    np.testing.assert_array_equal(loaded.predict(X) == "yes", loaded.predict_proba(X)[:, 1] > 0.5)
    np.testing.assert_array_equal(loaded.predict_proba(X), MODELS["logistic"].predict_proba(X))


def test_every_objective_is_stored():
    assert {*MODELS} == {*OBJECTIVES, "softmax"}


AUC = OBJECTIVES["auc"]
CONTENT, DESCRIPTION = pack(MODELS["auc"], AUC)


def saved(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def sha(content):
    return hashlib.sha256(content).hexdigest()


def archive(arrays, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as file:
        for name, array in arrays.items():
            file.writestr(f"{name}.npy", array if isinstance(array, bytes) else saved(array))
    return buffer.getvalue()


ARRAYS = dict(np.load(io.BytesIO(CONTENT)))
WEIGHTS = ARRAYS["layers_.0.weights"]
HUGE = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000, 10000000), }".ljust(
    118
)
BROKEN = {
    "nothing": b"",
    "no archive": b"PK\x03\x04 and so on",
    "cut off": CONTENT[:-200],
    "a pickle": pickle.dumps(MODELS["auc"]),
    "a pickled member": archive({**ARRAYS, "layers_.0.weights": np.array([{}], object)}),
    "compressed": archive(ARRAYS, zipfile.ZIP_DEFLATED),
    "one array too many": archive({**ARRAYS, "extra": np.zeros(3)}),
    "one array too few": archive({name: a for name, a in ARRAYS.items() if name != "layers_.0.bias"}),
    "another shape": archive({**ARRAYS, "layers_.0.weights": WEIGHTS.T}),
    "another type": archive({**ARRAYS, "layers_.0.weights": WEIGHTS.astype(np.float32)}),
    "NaN": archive({**ARRAYS, "layers_.0.weights": WEIGHTS * np.nan}),
    "a header that promises terabytes": archive({**ARRAYS, "layers_.0.weights": HUGE}),
    "other numbers": archive({**ARRAYS, "layers_.0.weights": 2 * WEIGHTS}),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_refused(name):
    whole = archive(ARRAYS)
    unpack(whole, {**DESCRIPTION, "sha256": sha(whole)}, AUC)  # it is not how the files are made here
    with pytest.raises(ValueError, match=r"not the model of a run|do not belong together") as error:
        description = DESCRIPTION if name == "other numbers" else {**DESCRIPTION, "sha256": sha(BROKEN[name])}
        unpack(BROKEN[name], description, AUC)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        {"estimator": "os.system"},
        {"estimator": ["PrivateAUCClassifier"]},
        {"estimator": "PrivateDROClassifier"},
        {"features": 10**18},
        {"features": True},
        {"features": 7.0},
        {"classes": ["a"]},
        {"classes": ["a", "a"]},
        {"classes": ["a", None]},
        {"classes": "ab"},
        {"hidden": [0]},
        {"hidden": 5},
        {"hidden": [5, 5]},
        {"numbers": {}},
        {"numbers": {"data_norm_": float("nan"), "threshold_": 0.1, "positive_share_": 0.3}},
        {"groups": ["u", "v"]},
        {"extra": 1},
        {"sha256": "0"},
    ],
    ids=str,
)
def test_a_wrong_description_is_refused(change):
    with pytest.raises(ValueError, match=r"model|estimator|numbers"):
        unpack(CONTENT, {**DESCRIPTION, **change}, AUC)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, len(CONTENT) - 1), st.integers(1, 255), st.randoms())
def test_no_damage_goes_unnoticed(place, flip, random):
    """One byte is another, or the file ends there: a ValueError, by whichever check meets it first."""
    damaged = bytearray(CONTENT)
    damaged[place] ^= flip
    with pytest.raises(ValueError):
        unpack(bytes(damaged) if random.random() < 0.5 else CONTENT[:place], DESCRIPTION, AUC)
