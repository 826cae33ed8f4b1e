"""A first schema for a table, guessed from its records. Everything in it is marked as read from them.

    column                                            drafted as
    nothing but missing values, or one value only     ignore
    numbers, mostly zero and otherwise large          amount
    other numbers                                     number, between rounded bounds
    whole numbers, all different, that count rows     ignore: an identifier
    a column with a name such as id or patient_id     ignore: an identifier
    texts, few different ones                         category
    texts, many different ones                        ignore: an identifier, a date, free text

Bounds are rounded outwards to one digit of their distance, so that they seldom are one person's value; they depend on
the records all the same, and so does the choice of a kind.
"""

import math
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

import numpy as np

from gossamer.tables.encoding import Declaration
from gossamer.tables.kinds import Amount, Category, Ignore, Kind, Number, identifier
from gossamer.tables.numerals import MARKS, advice_on_marks, other_mark, parse_numbers, whole_if_exact
from gossamer.tables.schema import Schema
from gossamer.tables.table import Column, Table

_MOST_CATEGORIES = 50
_FEWEST_IDENTIFIERS = 20
"""So many whole numbers are not all different and dense by chance."""
_LARGE_AMOUNT = 1000
_NO = {"no", "n", "non", "nein", "nee", "nej", "ne", "nem", "нет", "false", "control"}
"""Answers that come first although the alphabet may put them last: scores are for the last of two classes."""


def draft(table: Table, target: str, group: str | None = None) -> Schema:
    """Return a schema in which everything is marked as read from the data, for a person to check and confirm."""
    classes = () if _is_number(table[target]) else listed(table, target, "target")
    groups = () if group is None else listed(table, group, "group")
    columns = {name: draft_column(name, table[name], table.n) for name in table.names if name != target}
    return Schema(
        target,
        classes,
        columns,
        group,
        groups,
        classes_read_from_data=bool(classes),
        target_range=None if classes else range_of(table, target),
        target_range_read_from_data=not classes,
        groups_read_from_data=group is not None,
    )


def draft_column(name: str, column: Column, n: int) -> Declaration:
    """Return a declaration that is marked as read from the data."""
    kind = _kind(column, n)
    if not isinstance(kind, Ignore):
        kind = identifier(name) or kind
    return Declaration(kind, missing=not isinstance(kind, Ignore), read_from_data=True)


def listed(table: Table, name: str, role: str) -> tuple[str, ...]:
    """Return the values of a column of classes or groups in order: numbers by size, texts by alphabet, "no" first."""
    column = table[name]
    if not 2 <= len(column.values) <= _MOST_CATEGORIES:
        many = f"more than {_MOST_CATEGORIES}" if len(column.values) > 2 else "fewer than two"
        number = "; or predict the number itself: --objective linear" if role == "target" and _is_number(column) else ""
        raise ValueError(
            f"{table.source}: column {name!r} has {many} different values, so it cannot be the {role}. Name a column "
            f"of classes, or make classes of it first (such as 'low' and 'high'){number}."
        )
    return in_order(column.values, column.decimal)


def in_order(values: Sequence[str], decimal: str = ".") -> tuple[str, ...]:
    """Return classes in order: numbers by size, texts by alphabet, "no" first."""
    return tuple(sorted(_in_order(values, decimal), key=lambda value: value.casefold() not in _NO))


def range_of(table: Table, name: str) -> tuple[float, float]:
    """Return rounded bounds of a column of numbers, for a target."""
    column = table[name]
    numbers = column.numbers()
    if np.isnan(numbers).any():
        raise ValueError(
            f"{table.source}: column {name!r} has values that are not numbers, so it cannot be predicted as a number. "
            "Name another column, or predict classes: --objective logistic."
        )
    if len(numbers) < 2 or not numbers.min() < numbers.max():
        raise ValueError(f"{table.source}: column {name!r} has fewer than two different numbers; name another target.")
    low, high = _rounded(float(numbers.min()), float(numbers.max()))
    return low, high


def _is_number(column: Column) -> bool:
    """Return whether a column has so many different numbers that they are no classes."""
    return len(column.values) > _MOST_CATEGORIES and not np.isnan(column.numbers()).any()


def _in_order(values: Sequence[str], decimal: str) -> tuple[str, ...]:
    numbers = parse_numbers(values, decimal)
    by_size = not np.isnan(numbers).any()
    return tuple(value for _, value in sorted(zip(numbers if by_size else values, values, strict=True)))


def _kind(column: Column, n: int) -> Kind:
    if not column.values:
        return Ignore("all values are missing")
    if len(column.values) == 1:
        return Category(column.values) if (column.codes < 0).any() else Ignore("all values are the same")
    numbers = column.numbers()
    strange = np.isnan(numbers)
    if not strange.any():
        return _kind_of_numbers(numbers, column, n)
    other = other_mark(column.decimal)
    if not (strange & np.isnan(parse_numbers(column.values, other))).any():
        return Ignore(f"numbers with a {MARKS[other]}: {advice_on_marks(column.decimal)}")
    if len(column.values) <= _MOST_CATEGORIES:
        return Category(_in_order(column.values, column.decimal))
    return Ignore(f"text with more than {_MOST_CATEGORIES} different values: an identifier, a date or free text?")


def _kind_of_numbers(numbers: np.ndarray, column: Column, n: int) -> Kind:
    low, high = float(numbers.min()), float(numbers.max())
    if low == high:
        return Ignore("all values are the same")
    bounds = _rounded(low, high)
    if not math.isfinite(bounds[1] - bounds[0]):
        return Ignore("numbers that are too large to compute with")
    if len(numbers) == n >= _FEWEST_IDENTIFIERS and high - low < 2 * n and (numbers == np.floor(numbers)).all():
        return Ignore("whole numbers, all different: an identifier?")
    zeros = np.append(numbers == 0, False)[column.codes]
    if low == 0 and high >= _LARGE_AMOUNT and zeros.mean() > 0.5:
        return Amount(bounds[1])
    return Number(*bounds)


def _rounded(low: float, high: float) -> tuple[float, ...]:
    """Round bounds outwards to a multiple of the leading power of ten of their distance."""
    below, above = Decimal(repr(low)), Decimal(repr(high))
    step = Decimal(10) ** (above - below).adjusted()
    return tuple(
        whole_if_exact(float((value / step).to_integral_value(rounding) * step))
        for value, rounding in ((below, ROUND_FLOOR), (above, ROUND_CEILING))
    )
