"""What a linear model says: how far each value of a column moves its score, on the scale of that column.

All of it follows from the released model and the schema, so that looking at it costs no privacy.
"""

from typing import Any, NamedTuple

import numpy as np

from gossamer.runs.folder import Run
from gossamer.tables.encoding import Declaration
from gossamer.tables.kinds import Amount, Category, Kind, Number

MISSING = "missing"


class Effect(NamedTuple):
    """How far the values of one column move the scores, against the column's own reference.

    That is the middle of a number's range, an amount of 0, and the mean over the values of all others.
    """

    column: str
    values: tuple[str, ...]
    scores: np.ndarray
    """One row a value, one column a score."""

    @property
    def span(self) -> float:
        """The largest distance between two values, in a score."""
        return float(np.ptp(self.scores, axis=0).max())


def explain(run: Run) -> list[Effect]:
    """Return the effect of each column, that of the largest span first; refuse a model of which columns act together.

    With three and more classes there is a score for each.
    """
    weights, start, effects = _weights(run), 0, []
    for name, declared in run.schema.features.items():
        own = weights[start : start + declared.width]
        effects.append(_effect(name, declared, own))
        start += declared.width
    return sorted(effects, key=lambda effect: -effect.span)


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
    if len(model.layers_) > 1:
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
