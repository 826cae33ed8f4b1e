"""What a linear or additive model says: how far each value of a column moves its score, on the scale of that column.

All of it follows from the released model and the schema, so that looking at it costs no privacy.
"""

from typing import Any, NamedTuple

import numpy as np

from gossamer.runs.folder import Run
from gossamer.tables.encoding import Declaration
from gossamer.tables.kinds import ABSENT, Amount, Category, Kind, Number

MISSING = "missing"
MOST_SHOWN = 12
"""How many columns are drawn, and shown in reports."""
_FIVE = np.linspace(0.0, 1.0, 5)
_FINE = np.linspace(0.0, 1.0, 65)
"""Shares of the way at which a function is printed, and drawn."""


class Effect(NamedTuple):
    """How far the values of one column move the scores, against the column's own reference.

    That is the middle of a number's range, an amount of 0, and the mean over the values of all others.
    """

    column: str
    values: tuple[str, ...]
    scores: np.ndarray
    """One row a value, one column a score."""
    curve: tuple[np.ndarray, np.ndarray] | None = None
    """The function of a number, if it is not a line: values of the column and scores, as above."""

    @property
    def span(self) -> float:
        """The largest distance between two values, in a score."""
        all_scores = self.scores if self.curve is None else np.vstack([self.scores, self.curve[1]])
        return float(np.ptp(all_scores, axis=0).max())


def explain(run: Run) -> list[Effect]:
    """Return the effect of each column, that of the largest span first; refuse a model of which columns act together.

    With three and more classes there is a score for each.
    """
    features, effects = run.schema.features, []
    if run.recipe.record.additive:
        effects = [_shaped(name, declared, run.model.shapes_[name]) for name, declared in features.items()]
        return sorted(effects, key=lambda effect: -effect.span)
    weights, start = _weights(run), 0
    for name, declared in features.items():
        own = weights[start : start + declared.width]
        effects.append(_effect(name, declared, own))
        start += declared.width
    return sorted(effects, key=lambda effect: -effect.span)


def is_readable(run: Run) -> bool:
    """Whether each column has an effect of its own on the scores of a model."""
    return run.recipe.record.additive or hasattr(run.model, "coef_") or len(getattr(run.model, "layers_", ())) == 1


def told(run: Run, most: int | None = None) -> dict[str, Any]:
    """Return the effects as plain values; of the columns that matter most, if there are more."""
    columns = []
    for each in explain(run)[:most]:
        plain = {"column": each.column, "values": list(each.values), "effects": each.scores.tolist()}
        if each.curve is not None:
            plain["curve"] = {"values": each.curve[0].tolist(), "effects": each.curve[1].tolist()}
        columns.append(plain)
    return {"moves": meaning(run), "scores": scores_of(run), "columns": columns}


def meaning(run: Run) -> str:
    """Return what is moved."""
    if run.recipe.record.target == "number":
        return f"the predicted {run.schema.target!r}"
    what = "log-odds" if run.recipe.record.calibrated else "score"
    classes = run.model.classes_.tolist()
    return f"the {what} of {classes[1]!r}" if len(classes) == 2 else "the score of each class"


def scores_of(run: Run) -> list[str]:
    """Return what each score is about: the target, the second of two classes, or each of more."""
    if run.recipe.record.target == "number":
        return [run.schema.target]
    classes = [str(label) for label in run.model.classes_]
    return classes[1:] if len(classes) == 2 else classes


def _weights(run: Run) -> np.ndarray:
    """Return what one unit of an encoded column adds to each score."""
    model = run.model
    if hasattr(model, "coef_"):
        return np.atleast_2d(model.coef_).T
    if not is_readable(run):
        raise ValueError(
            "this model is a network with hidden layers, in which columns act together: no column has an effect of its "
            "own. Train without --hidden for a model that can be read."
        )
    return model.layers_[0]["weights"] / model.data_norm_


def _effect(name: str, declared: Declaration, weights: np.ndarray) -> Effect:
    kind = declared.kind
    values, rows = _examples(name, kind)
    scores = rows @ weights[: kind.width]
    reference = 0.0 if isinstance(kind, Number | Amount) else scores.mean(axis=0)
    if declared.missing:
        values, scores = (*values, MISSING), np.vstack([scores, weights[-1:]])
    return Effect(name, values, scores - reference)


def _shaped(name: str, declared: Declaration, shape: Any) -> Effect:
    """Return the effect of a column by its function."""
    kind = shape.kind
    if isinstance(kind, Category):
        codes, reference = np.arange(len(kind.values)), shape.values[1:].mean(axis=0)
        values, curve = kind.values, None
    else:
        zero = [-1.0] if isinstance(kind, Amount) else []
        codes, fine = (np.array([*zero, *shares[len(zero) :]]) for shares in (_FIVE, _FINE))
        reference = shape(np.array([-1.0 if zero else 0.5]))[0]
        values = tuple(f"{value:.4g}" for value in shape.units(codes))
        curve = (shape.units(fine), shape(fine) - reference)
    scores = shape(np.asarray(codes)) - reference
    if declared.missing:
        values, scores = (*values, MISSING), np.vstack([scores, shape(np.array([ABSENT])) - reference])
    return Effect(name, values, scores, curve)


def _examples(name: str, kind: Kind) -> tuple[tuple[str, ...], np.ndarray]:
    """Return values of a kind, and how they are encoded."""
    given: Any
    if isinstance(kind, Number | Amount):
        given = np.array([kind.low, kind.high] if isinstance(kind, Number) else [0.0, min(1.0, kind.high), kind.high])
        values = tuple(f"{value:.12g}" for value in given)
    elif isinstance(kind, Category):
        given = values = kind.values
    else:  # buckets of texts, which have no values to name
        return kind.features(name), np.eye(kind.width)
    rows = np.zeros((len(values), kind.width), np.float32)
    kind.fill(rows, given)
    return values, rows
