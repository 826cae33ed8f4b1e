"""Tables from DataFrames of pandas or polars, neither of which is needed: whatever has columns that become lists."""

import datetime
import math
from typing import Any

from gossamer.tables.table import Table, TableBuilder


def is_frame(X: Any) -> bool:
    """Say whether something is a DataFrame: it has named columns with types."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "__getitem__")


def table_from_frame(frame: Any, source: str = "X") -> Table:
    """Return a DataFrame as a table of text, every value as a CSV would have it: 3, 2.5, true, 2026-01-31.

    A whole number is written alike whether its column has numbers with decimals or not, because that may depend on
    other rows. `source` is what errors call it.
    """
    names = list(frame.columns)
    table = TableBuilder(source, [str(name) for name in names])
    if len(frame):
        table.add([[_text(value) for value in frame[name].to_list()] for name in names])
    return table.table()


def _text(value: Any) -> str:
    # NaN differs from itself; pandas' NA says nothing of itself.
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else _decimal(value)
    if isinstance(value, datetime.datetime):
        return value.isoformat(timespec="seconds").removesuffix("T00:00:00")
    return str(value)


def _decimal(value: float) -> str:
    return ("1e999" if value > 0 else "-1e999") if math.isinf(value) else repr(float(value))
