"""What a stored model says about the rows of a table, as columns and as files."""

import csv
import io
from pathlib import Path
from typing import Any

from gossamer.base import atomic
from gossamer.runs.folder import Run
from gossamer.tables.table import Table

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a cell begins with that some spreadsheet takes for a formula."""


def predict_table(run: Run, table: Table, proba: bool) -> dict[str, list[Any]]:
    """Return the number of each row, from 1, its id if the schema names one, and what the model predicts.

    The target may be absent. Of classes that is the label, and the score or the probability of each. Of two classes,
    the score is that of the last: above 0 where that is predicted.
    """
    run.schema.check(table)
    X = run.recipe.rows(run.schema, table)
    predicted = _predicted(run, X, proba)
    columns: dict[str, list[Any]] = {"row": list(range(1, table.n + 1))}
    if run.schema.id is not None:
        taken = run.schema.id in (*columns, *predicted)
        columns[f"id {run.schema.id}" if taken else run.schema.id] = run.schema.ids_of(table)
    return columns | predicted


def _predicted(run: Run, X: Any, proba: bool) -> dict[str, list[Any]]:
    if run.recipe.record.target == "number":
        if proba:
            raise ValueError(f"--proba is about classes, and this model predicts {run.schema.target!r}, a number.")
        return {f"predicted {run.schema.target}": run.model.predict(X).tolist()}
    if proba and not run.recipe.record.calibrated:
        raise ValueError(
            f"--proba: a model for objective = {run.recipe.objective!r} ranks rows; what it says is no probability. "
            "Leave --proba out to get scores, or train for another objective, such as 'logistic'."
        )
    columns: dict[str, list[Any]] = {"label": run.model.predict(X).tolist()}
    if proba:
        named = zip(run.model.classes_, run.model.predict_proba(X).T, strict=True)
        return columns | {f"probability of {label}": values.tolist() for label, values in named}
    scores = run.model.decision_function(X)
    if scores.ndim == 1:
        return columns | {f"score of {run.model.classes_[1]}": scores.tolist()}
    return columns | {f"score of {c}": s.tolist() for c, s in zip(run.model.classes_, scores.T, strict=True)}


def write_predictions(path: Path, columns: dict[str, list[Any]]) -> None:
    """Write predictions to a file .csv or .parquet."""
    if path.suffix == ".csv":
        atomic.write_text(path, csv_text(columns))
    elif path.suffix == ".parquet":
        atomic.write_bytes(path, _parquet(columns))
    else:
        raise ValueError(f"--out {path} must end in .csv or .parquet.")


def csv_text(columns: dict[str, list[Any]]) -> str:
    """Return columns as CSV in which no cell is a formula: a text that a spreadsheet would run begins with a '."""
    text = io.StringIO()
    # Texts in quotes: what comes after a return in one of them is not a cell of its own.
    writer = csv.writer(text, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(map(_harmless, columns))
    writer.writerows(map(_harmless, row) for row in zip(*columns.values(), strict=True))
    return text.getvalue()


def _harmless(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def _parquet(columns: dict[str, list[Any]]) -> bytes:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ImportError("to write .parquet, pip install 'gossamer[parquet]'; or write .csv.") from None
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), buffer)
    return buffer.getvalue()
