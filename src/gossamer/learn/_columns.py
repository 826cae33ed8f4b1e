"""The columns of a table that an additive model is given: what each is, by public declaration, and their names."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils.validation import check_consistent_length, column_or_1d, validate_data

from gossamer.base.messages import quoted, shown
from gossamer.learn._shapes import Kind
from gossamer.tables.encoding import Coded
from gossamer.tables.kinds import Amount, Category, Number

READ = {"bounds": "the range of each number", "categories": "the values of each column of text"}
"""What is read from the records where it was not declared, by parameter."""


def of(X: Any) -> list[np.ndarray] | None:
    """Return the columns of a DataFrame; None for what is no DataFrame."""
    if not (hasattr(X, "columns") and hasattr(X, "shape") and hasattr(X, "__getitem__")):
        return None
    return [np.asarray(X[name]) for name in X.columns]


def with_targets(estimator: Any, X: Any, y: Any, numeric: bool = False) -> tuple[Any, np.ndarray]:
    """Return a table and its targets, checked as scikit-learn does; a DataFrame stays one."""
    if of(X) is None and not isinstance(X, Coded):
        return validate_data(estimator, X, y, dtype=np.float64, y_numeric=numeric, ensure_min_samples=2)
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    return X, y.astype(np.float64) if numeric else y


def check_names(estimator: Any, X: Any, reset: bool) -> None:
    """Keep the names of a DataFrame's columns in `fit`, and refuse others later."""
    names = np.array(list(X.columns), dtype=object)
    if reset:
        estimator.feature_names_in_, estimator.n_features_in_ = names, len(names)
    elif list(names) != list(getattr(estimator, "feature_names_in_", [])):
        raise ValueError(
            f"X has the columns {list(names)}, but fit was given {list(getattr(estimator, 'feature_names_in_', []))}. "
            "Pass the same columns in the same order."
        )


def number(name: str, bounds: Any) -> Number:
    """Return what a pair (low, high) declares."""
    try:
        low, high = bounds
        return Number(float(low), float(high))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} = {quoted(bounds)} must be (low, high), two finite numbers: {error}") from None


def kinds(
    columns: list[np.ndarray], names: list[Any], bounds: Any, categories: Any
) -> tuple[tuple[Kind, ...], set[str]]:
    """Return what each column is, and what had to be read from the records to know it."""
    listed = _by_column("categories", {} if categories is None else categories, names)
    everywhere = None if bounds is None or isinstance(bounds, Mapping) else bounds
    ranges = _by_column("bounds", bounds, names) if isinstance(bounds, Mapping) else {}
    read: set[str] = set()
    found: list[Kind] = []
    for name, values in zip(names, columns, strict=True):
        if name in listed:
            found.append(Category(tuple(np.asarray(listed[name]).tolist())))
        elif values.dtype.kind not in "biuf":
            if categories is not None:
                raise ValueError(f"column {name!r} holds text and is not in categories: declare its list of values.")
            read.add("categories")
            found.append(Category(tuple(sorted(set(values.tolist())))))
        elif name in ranges or everywhere is not None:
            given = ranges.get(name, everywhere)
            found.append(given if isinstance(given, Amount | Number) else number(f"bounds[{name!r}]", given))
        elif bounds is not None:
            raise ValueError(f"column {name!r} is neither in bounds nor in categories: declare its range (low, high).")
        else:
            read.add("bounds")
            low, high = float(np.min(values)), float(np.max(values))
            found.append(Number(low, high if high > low else math.nextafter(low, math.inf) + 1.0))
        if not isinstance(found[-1], Category) and not np.isfinite(values.astype(float)).all():
            raise ValueError(f"column {name!r} has NaN or infinite values. Fill them, or declare it by its categories.")
    return tuple(found), read


def drawn(shapes: Mapping[Any, tuple[np.ndarray, np.ndarray]]) -> Any:
    """Draw functions, a small picture each."""
    import matplotlib.pyplot as plt  # heavy, and needed here alone

    across = min(4, len(shapes))
    rows = -(-len(shapes) // across)
    figure, places = plt.subplots(rows, across, figsize=(3.2 * across, 2.4 * rows), squeeze=False, sharey=True)
    for place in places.flat[len(shapes) :]:
        place.set_visible(False)
    for place, (name, (points, values)) in zip(places.flat, shapes.items(), strict=False):
        if points.dtype == object:
            shown_values = values[1:] if values.ndim == 1 else values[1:].T
            place.plot(np.arange(len(points) - 1), np.atleast_2d(shown_values).T, "o")
            place.set_xticks(np.arange(len(points) - 1), [str(point) for point in points[1:]], rotation=90, fontsize=7)
        else:
            place.plot(points, values)
        place.set_title(str(name), fontsize=9)
        place.axhline(0, color="grey", linewidth=0.5)
    figure.tight_layout()
    return figure


def _by_column(parameter: str, given: Any, names: list[Any]) -> dict[Any, Any]:
    """Return what was declared by column, or refuse columns that there are not."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{parameter} = {shown(given)} must be a dict from columns to what is public about them.")
    unknown = [column for column in given if column not in names]
    if unknown:
        raise ValueError(f"{parameter} has the column {unknown[0]!r}, but the table has {names}.")
    return dict(given)
