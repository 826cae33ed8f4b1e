"""How well a model predicts a table that it was not trained on, with standard errors. None of it is private."""

from typing import Any

import numpy as np
from scipy import stats

from gossamer.report.learned import SCORES
from gossamer.runs.recipe import Recipe
from gossamer.tables.schema import Schema
from gossamer.tables.table import Table

_Scores = dict[str, tuple[float, float]]
"""Each score and its standard error, over tables of as many rows like this one."""


def score_table(model: Any, recipe: Recipe, schema: Schema, table: Table) -> dict[str, Any]:
    """Return scores on a table and, if its schema declares groups, on each of them: plain values. NOT PRIVATE.

    A score that says nothing there (the AUC where all rows are of one class) is None. Precision and recall are those of
    the last of two classes, where the model decides for it.
    """
    X, targets = recipe.rows(schema, table), schema.targets(table)
    if recipe.record.target == "number":
        columns = {"predicted": model.predict(X)}
    else:
        columns = {"label": model.predict(X), "score": model.decision_function(X)}
        if recipe.record.calibrated:
            columns["probability"] = model.predict_proba(X)

    def told(rows: np.ndarray) -> dict[str, Any]:
        own = {name: values[rows] for name, values in columns.items()}
        if recipe.record.target == "number":
            scores = _of_numbers(targets[rows], own["predicted"])
        else:
            scores = _of_classes(targets[rows], model.classes_, own)
        possible = ["r2"] if recipe.record.target == "number" else _possible(model.classes_, own)
        values = {name: scores[name][0] if name in scores else None for name in possible}
        return {"n": int(rows.sum()), **values, "errors": {name: error for name, (_, error) in scores.items()}}

    content = {"private": False, **told(np.ones(table.n, bool))}
    if len(schema.classes) == 2:
        content["positive"] = schema.classes[1]
    if schema.group is not None and schema.group in table:
        of = schema.group_of(table)
        content["group"] = schema.group
        content["groups"] = {name: told(of == name) for name in schema.groups if (of == name).any()}
    return content


def score_lines(content: dict[str, Any]) -> list[str]:
    """Return scores as a table for people."""
    names = [name for name in SCORES if name in content]
    parts = {"all": content} | {f"{content['group']} = {name}": of for name, of in content.get("groups", {}).items()}
    cells = [["", "rows", *(SCORES[name] for name in names)]]
    cells += [[title, str(of["n"]), *(_shown(of, name) for name in names)] for title, of in parts.items()]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    table = [
        "  ".join(cell.ljust(width) if place == 0 else cell.rjust(width) for place, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in cells)
    ]
    of = f" Precision and recall are those of {content['positive']!r}." if "positive" in content else ""
    return [f"On another table, ± one standard error; these figures are NOT private.{of}", *table]


def _shown(of: dict[str, Any], name: str) -> str:
    return "-" if of[name] is None else f"{of[name]:.3f} ± {of['errors'][name]:.3f}"


def _possible(classes: np.ndarray, own: dict[str, np.ndarray]) -> list[str]:
    two = len(classes) == 2
    has = {"auc": two, "accuracy": True, "brier": "probability" in own, "precision": two, "recall": two}
    return [name for name, is_there in has.items() if is_there]


def _of_numbers(y: np.ndarray, predicted: np.ndarray) -> _Scores:
    """R² = 1 − Σe²/Σ(y − ȳ)²; its error by the delta method."""
    spread = np.square(y - y.mean())
    if not spread.any():
        return {}
    errors = np.square(y - predicted)
    left = errors.mean() / spread.mean()
    return {"r2": (float(1 - left), _error((errors - left * spread) / spread.mean()))}


def _of_classes(y: np.ndarray, classes: np.ndarray, own: dict[str, np.ndarray]) -> _Scores:
    right = own["label"] == y
    scores = {"accuracy": (float(right.mean()), _error(right))}
    if "probability" in own:
        distances = np.square(own["probability"] - (y[:, None] == classes))
        # Of two classes that of one of them: the other's is the same.
        each = distances[:, 1] if len(classes) == 2 else distances.sum(axis=1)
        scores["brier"] = (float(each.mean()), _error(each))
    if len(classes) != 2:
        return scores
    positive, called = y == classes[1], own["label"] == classes[1]
    for name, among in (("precision", called), ("recall", positive)):
        if among.any():
            hits = (positive & called)[among]
            scores[name] = (float(hits.mean()), _error(hits))
    if positive.any() and not positive.all():
        scores["auc"] = _auc(own["score"][positive], own["score"][~positive])
    return scores


def _auc(positive: np.ndarray, negative: np.ndarray) -> tuple[float, float]:
    """Return the area under the ROC curve, and DeLong's standard error (Biometrics 44, 1988).

    A row's share of pairs that it is in and that are in order is (its rank among all − its rank among its own)/others.
    """
    ranks = stats.rankdata(np.concatenate([positive, negative]))
    above = (ranks[: len(positive)] - stats.rankdata(positive)) / len(negative)
    below = 1 - (ranks[len(positive) :] - stats.rankdata(negative)) / len(positive)
    return float(above.mean()), float(np.hypot(_error(above), _error(below)))


def _error(values: np.ndarray) -> float:
    """Return the standard error of a mean; 0 of one value, which shows none."""
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0
