"""Scores on another table: what they are, their standard errors, and groups."""

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, precision_score, r2_score, recall_score, roc_auc_score

from gossamer.learn import PrivateLinearRegression, PrivateLogisticRegression
from gossamer.report.learned import SCORES
from gossamer.runs.recipe import Recipe
from gossamer.runs.scoring import score_lines, score_table
from gossamer.tables import Declaration, Number, Schema, parse_csv

COLUMNS = {"x": Declaration(Number(-1, 1))}
CLASSES = Schema("y", ("no", "yes"), COLUMNS, "ward", ("A", "B", "C"))
NUMBER = Schema("y", (), COLUMNS, target_range=(-9, 9))


def classifier(schema, slope=4.0, threshold=0.3):
    model = PrivateLogisticRegression()
    model.n_features_in_, model.coef_, model.intercept_ = 1, np.array([[slope]]), np.zeros(1)
    model.classes_, model.threshold_ = np.array(schema.classes), threshold
    return model


def regressor():
    model = PrivateLinearRegression()
    model.n_features_in_, model.coef_, model.intercept_ = 1, np.array([2.0]), 0.5
    return model


def table(x, y, ward):
    lines = [f"{a!r},{b},{c}" for a, b, c in zip(x.tolist(), y.tolist(), ward, strict=True)]
    return parse_csv("\n".join(["x,y,ward", *lines]), "a table")


def draw(n, rng):
    x = rng.uniform(-1, 1, n)
    y = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * x)), "yes", "no")
    return table(x, y, rng.choice(["A", "B"], n)), x, y


def test_scores_of_classes_are_those_of_scikit_learn():
    records, x, y = draw(300, np.random.default_rng(0))
    model = classifier(CLASSES)
    found = score_table(model, Recipe("logistic"), CLASSES, records)
    x = np.float32(x)[:, None]
    called, scores, is_yes = model.predict(x), model.decision_function(x), y == "yes"
    expected = {
        "auc": roc_auc_score(is_yes, scores),
        "accuracy": np.mean(called == y),
        "brier": brier_score_loss(is_yes, model.predict_proba(x)[:, 1]),
        "precision": precision_score(is_yes, called == "yes"),
        "recall": recall_score(is_yes, called == "yes"),
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    assert (found["private"], found["n"], found["positive"]) == (False, 300, "yes")
    assert found["errors"].keys() == expected.keys()
    assert set(found["groups"]) == {"A", "B"}, "a group without rows has no scores"
    assert sum(of["n"] for of in found["groups"].values()) == 300
    shown = score_lines(found)
    assert shown[0].endswith("these figures are NOT private. Precision and recall are those of 'yes'.")
    assert shown[1].split() == ["rows", "AUC", "Accuracy", "Brier", "score", "Precision", "Recall"]
    assert [line.split("  ")[0] for line in shown[2:]] == ["all", "ward = A", "ward = B"]


@pytest.mark.slow
def test_standard_errors_are_the_spread_over_tables():
    """Over 200 tables; a deviation that is estimated from so many is off by 5 %, and 20 % is four times that."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(200):
        x = rng.uniform(-1, 1, 100)
        drawn = table(x, 2 * x + rng.standard_t(8, 100), ["A"] * 100)
        numbers = score_table(regressor(), Recipe("linear"), NUMBER, drawn)
        classes = score_table(classifier(CLASSES), Recipe("logistic"), CLASSES, draw(100, rng)[0])
        found.append({**numbers, **classes, "errors": {**numbers["errors"], **classes["errors"]}})
    for score in SCORES:
        spread = np.std([each[score] for each in found], ddof=1)
        assert np.mean([each["errors"][score] for each in found]) == pytest.approx(spread, rel=0.2), score


def test_what_a_table_does_not_show_is_not_told():
    x = np.array([0.5, -0.5, 0.2])
    found = score_table(classifier(CLASSES), Recipe("auc"), CLASSES, table(x, np.array(["no"] * 3), "ABC"))
    assert found["auc"] is None and found["recall"] is None and found["precision"] == 0
    assert "brier" not in found, "what it says is no probability"
    assert "-" in score_lines(found)[2].split()
    same = score_table(regressor(), Recipe("linear"), NUMBER, table(x, np.ones(3), "ABC"))
    assert same["r2"] is None
    y = np.array([1.0, -1.0, 0.3])
    numbers = score_table(regressor(), Recipe("linear"), NUMBER, table(x, y, "ABC"))
    assert numbers["r2"] == pytest.approx(r2_score(y, 2 * x + 0.5))


def test_several_classes_have_accuracy_and_brier_score():
    schema = Schema("y", ("a", "b", "c"), COLUMNS)
    model = classifier(schema, threshold=0.0)
    model.coef_, model.intercept_ = np.array([[1.0], [0.0], [-1.0]]), np.zeros(3)
    found = score_table(model, Recipe("logistic"), schema, table(np.array([0.5, -0.5]), np.array(["a", "b"]), "AB"))
    assert found["accuracy"] == 0.5
    p = model.predict_proba(np.array([[0.5], [-0.5]]))
    assert found["brier"] == pytest.approx(np.square(p - [[1, 0, 0], [0, 1, 0]]).sum(axis=1).mean())
    assert "auc" not in found and "positive" not in found
