"""Predictions with several classes, and scores of labels."""

import numpy as np
import pytest

from gossamer.learn import PrivateLinearRegression, PrivateLogisticRegression
from gossamer.runs.folder import Run
from gossamer.runs.predicting import csv_text, predict_table
from gossamer.runs.recipe import Recipe
from gossamer.tables.encoding import Declaration
from gossamer.tables.kinds import Number
from gossamer.tables.reading import parse_csv
from gossamer.tables.schema import Schema


def classifier(classes, coefficients):
    model = PrivateLogisticRegression()
    model.classes_, model.n_features_in_ = np.array(classes), 1
    model.coef_, model.intercept_ = np.array(coefficients, float), np.zeros(len(coefficients))
    return model


def test_several_classes_have_a_column_each():
    schema = Schema("y", ("a", "b", "c"), {"x": Declaration(Number(0, 10))})
    run = Run(classifier(["a", "b", "c"], [[-1], [0], [1]]), schema, Recipe())
    columns = predict_table(run, parse_csv("x\n7.5\n5\n", "a table"), proba=False)
    assert columns == {
        "row": [1, 2],
        "label": ["c", "a"],
        "score of a": [-0.5, 0.0],
        "score of b": [0.0, 0.0],
        "score of c": [0.5, 0.0],
    }
    chances = predict_table(run, parse_csv("x\n7.5\n5\n", "a table"), proba=True)
    assert [chances[f"probability of {label}"][1] for label in "abc"] == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(("name", "header"), [("visit", "visit"), ("label", "id label"), ("row", "id row")])
def test_ids_are_repeated(name, header):
    """As text, whatever they look like and however the column is called; a missing one is empty."""
    schema = Schema("y", ("a", "b"), {"x": Declaration(Number(0, 10))}, id=name)
    run = Run(classifier(["a", "b"], [[1]]), schema, Recipe())
    columns = predict_table(run, parse_csv(f"{name},x\n007,7.5\n=1+1,5\n,1\n", "a table"), proba=False)
    assert list(columns) == ["row", header, "label", "score of b"]
    assert columns[header] == ["007", "=1+1", ""]
    assert columns["label"] == ["b", "a", "a"]
    assert csv_text(columns).splitlines()[2].startswith("""2,"'=1+1","a",""")
    with pytest.raises(ValueError, match=f"has no column '{name}'"):
        predict_table(run, parse_csv("x\n7.5\n", "a table"), proba=False)


def test_what_is_no_probability_is_not_called_one():
    schema = Schema("y", ("a", "b"), {"x": Declaration(Number(0, 10))})
    model = classifier(["a", "b"], [[1]])
    for objective in ("auc", "dro", "worst-group"):
        with pytest.raises(ValueError, match=f"--proba: a model for objective = '{objective}' ranks rows"):
            predict_table(Run(model, schema, Recipe(objective)), parse_csv("x\n7.5\n", "a table"), proba=True)


def regressor():
    model = PrivateLinearRegression()
    model.n_features_in_, model.coef_, model.intercept_ = 1, np.array([2.0]), 5.0
    return model


def test_numbers_are_predicted():
    run = Run(regressor(), Schema("y", (), {"x": Declaration(Number(0, 10))}, target_range=(0, 9)), Recipe("linear"))
    table = parse_csv("x\n7.5\n5\n", "a table")
    assert predict_table(run, table, proba=False) == {"row": [1, 2], "predicted y": [6.0, 5.0]}
    with pytest.raises(ValueError, match="--proba is about classes"):
        predict_table(run, table, proba=True)
