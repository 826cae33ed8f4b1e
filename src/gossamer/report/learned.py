"""What a model has learned and how good it is: what its owner wants to know first.

Both are read from the pipeline, whose text may come from anywhere: what does not have the expected form is not shown.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gossamer.report.figures import Axis, Line, chart, tame
from gossamer.report.markup import Markup, element, join, number
from gossamer.report.parts import paragraphs, remark, section, table

SCORES = {
    "auc": "AUC",
    "accuracy": "Accuracy",
    "brier": "Brier score",
    "precision": "Precision",
    "recall": "Recall",
    "r2": "R²",
}
"""What each score is called, in the order in which they are told."""
_MOST_DRAWN, _MOST_LISTED, _LONGEST = 6, 12, 50


def scores(pipeline: Mapping[str, Any]) -> Markup:
    """Show scores on another table, if the owner had one; they are not private."""
    content = pipeline.get("test")
    if not isinstance(content, Mapping):
        return Markup()
    names = [name for name in SCORES if name in content]
    groups = content.get("groups")
    parts = [("all rows", content)]
    if isinstance(groups, Mapping):
        column = content.get("group", "group")
        parts += [(f"{column} = {name}", of) for name, of in groups.items() if isinstance(of, Mapping)]
    rows = [(title, number(of.get("n", "")), *(_score(of, name) for name in names)) for title, of in parts]
    positive = content.get("positive")
    of = "" if positive is None else f" Precision and recall are those of “{positive}”, where the model decides for it."
    told = (
        "Scores on another table, ± one standard error. They were computed from its rows without noise: they are NOT "
        f"private, and the promise does not cover that table.{of}"
    )
    headers = ("Rows", "Number", *(SCORES[name] for name in names))
    return section("How good it is", paragraphs(told), table("Scores", headers, rows, numeric=range(1, len(headers))))


def _score(of: Mapping[str, Any], name: str) -> str | Markup:
    errors = of.get("errors")
    value, error = of.get(name), errors.get(name) if isinstance(errors, Mapping) else None
    if not (isinstance(value, float) and isinstance(error, float)):
        return "–"
    shown = f"{value:.3f}".replace("-", "−")
    return join([shown, element("br"), element("span", f"± {error:.3f}", class_="muted")])


def learned(pipeline: Mapping[str, Any]) -> Markup:
    """Show how far each column moves the score, the one that matters most first, and functions as curves."""
    content = pipeline.get("learned")
    try:
        names = [str(name) for name in content["scores"]]  # type: ignore[index]  # what is not of this form is not shown
        effects = [_Effect(plain, len(names)) for plain in content["columns"]][:_MOST_LISTED]  # type: ignore[index]
        moves = str(content["moves"])  # type: ignore[index]
    except (TypeError, KeyError, ValueError, IndexError):
        return Markup()
    if not effects:
        return Markup()
    several = len(names) > 1
    rows = [
        (each.column, *([name] if several else []), *each.ends(place))
        for each in effects
        for place, name in enumerate(names)
    ]
    headers = ("Column", *(["Score of"] if several else []), "Lowers it most", "", "Raises it most", "")
    first = 2 if several else 1
    shown = [] if several else [each for each in effects if each.curve is not None][:_MOST_DRAWN]
    reach = np.concatenate([np.zeros(1), *(each.curve[1] for each in shown if each.curve is not None)])
    curves = [each.drawn(f"shape-{place}", reach) for place, each in enumerate(shown)]
    return section(
        "What it learned",
        paragraphs(
            f"How far the values of each column move {moves}, the column that matters most first. It is read off the "
            "released model, and costs no privacy."
        ),
        element("div", *curves, class_="curves") if curves else "",
        table("Effects of columns", headers, rows, numeric=(first + 1, first + 3)),
        remark(
            "A number is against the middle of its range, an amount against 0, and any other value against the mean "
            "over the column’s values. Small effects may be nothing but the noise that protects the records."
        ),
    )


class _Effect:
    """What is told of one column, checked."""

    def __init__(self, plain: Any, scores: int):
        self.column = str(plain["column"])
        self.values = [str(value) for value in plain["values"]]
        self.scores = _matrix(plain["effects"], scores)
        if not self.values or len(self.values) != len(self.scores):
            raise ValueError
        curve = plain.get("curve")
        self.curve = None if curve is None else (_matrix([[x] for x in curve["values"]], 1)[:, 0], curve["effects"])
        if self.curve is not None:
            self.curve = (self.curve[0], _matrix(self.curve[1], scores)[:, 0])
            if len(self.curve[0]) != len(self.curve[1]) or not np.ptp(self.curve[0]) > 0:
                raise ValueError

    def ends(self, place: int) -> tuple[str, str, str, str]:
        """Return the values that move a score down and up most, with how far."""
        moved = self.scores[:, place]
        low, high = int(moved.argmin()), int(moved.argmax())
        return self.values[low], _signed(moved[low]), self.values[high], _signed(moved[high])

    def drawn(self, key: str, reach: np.ndarray) -> Markup:
        """Return the function of a number as a curve; `reach` are the effects that the axis has room for."""
        assert self.curve is not None
        x, y = self.curve
        low, high = int(y.argmin()), int(y.argmax())
        finding = (
            f"Lowest at {number(float(x[low]), 3)} ({_signed(y[low])}), highest at {number(float(x[high]), 3)} "
            f"({_signed(y[high])})."
        )
        axes = Axis("", float(x.min()), float(x.max())), Axis.around(self.column[:_LONGEST], reach, log=False)
        ends = np.array([x.min(), x.max()])
        zero = Line("no effect", ends, np.zeros(2), "chance")
        picture = chart(key, self.column, finding, *axes, lines=[zero, Line("effect", x, y, "main")])
        return element("figure", picture, element("figcaption", finding))


def _matrix(rows: Sequence[Sequence[Any]], width: int) -> np.ndarray:
    """Return numbers that a chart can show, or refuse."""
    values = tame(np.array(rows, np.float64).reshape(len(rows), -1))
    if values.shape[1] != width or not np.isfinite(values).all():
        raise ValueError
    return values


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")
