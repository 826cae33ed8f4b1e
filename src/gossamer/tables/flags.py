"""Schemas from the words of a command line, for people without a schema file."""

import math
from collections.abc import Sequence
from typing import Any

from gossamer.base.messages import nearest, quoted
from gossamer.tables.drafting import draft_column, listed, range_of
from gossamer.tables.encoding import Declaration
from gossamer.tables.kinds import Amount, Category, Ignore, Number, Undeclared, identifier
from gossamer.tables.numerals import parse_numbers, whole_if_exact
from gossamer.tables.schema import Schema
from gossamer.tables.table import Table


def schema_from_flags(
    table: Table,
    target: str,
    *,
    bounds: Sequence[str] = (),
    amounts: Sequence[str] = (),
    categories: Sequence[str] = (),
    ignore: Sequence[str] = (),
    classes: str | None = None,
    target_range: str | None = None,
    number: bool = False,
    group: str | None = None,
    groups: str | None = None,
    from_data: bool = False,
    person: str | None = None,
    rows_per_person: int = 10,
) -> Schema:
    """Return a schema as flags declare it; what they do not declare, a run has to buy.

    Args:
      table: whose columns are meant.
      target: the column to predict.
      bounds: such as "age=17:90".
      amounts: such as "gain=100000".
      categories: such as "sex=Female|Male".
      ignore: names of columns to leave out.
      classes: the values of the target, such as "no|yes".
      target_range: the lowest and the highest value of a target that is a number, such as "0:100".
      number: whether the target is a number.
      group: the column that says to which group a record belongs.
      groups: the values of the group.
      from_data: whether to draft from the records what is not declared instead, which is marked so.
      person: the column of ids, if persons are to be protected and not rows.
      rows_per_person: how many rows of a person count.
    """
    columns = {}
    for flags, kind_of, form in (
        (bounds, _number, "COLUMN=LOW:HIGH"),
        (amounts, _amount, "COLUMN=HIGH"),
        (categories, _category, "COLUMN=VALUE|VALUE"),
        (tuple(f"{name}=" for name in ignore), _ignore, "COLUMN"),
    ):
        for flag in flags:
            name, text = _split(flag, table.names, form)
            if name in columns:
                raise ValueError(f"column {name!r} is declared twice, the second time by {quoted(flag)}. Keep one.")
            try:
                kind = kind_of(text)
                columns[name] = Declaration(kind, missing=not isinstance(kind, Ignore))
            except ValueError as error:
                raise ValueError(f"{quoted(flag)} is not of the form {form}: {error}") from None
    for name in table.names:
        if name not in (target, person) and name not in columns:
            open_column = Declaration(identifier(name) or Undeclared())
            columns[name] = draft_column(name, table[name], table.n) if from_data else open_column
    of_target: dict[str, Any]
    if target_range is not None or (number and from_data):
        of_target = {
            "classes": () if classes is None else _values(classes),
            "target_range": range_of(table, target) if target_range is None else _range(target_range),
            "target_range_read_from_data": target_range is None,
        }
    elif classes is not None or from_data:
        of_target = {
            "classes": listed(table, target, "target") if classes is None else _values(classes),
            "classes_read_from_data": classes is None,
        }
    else:
        range_of(table, target) if number else listed(table, target, "target")  # refuses what cannot be meant
        of_target = {"classes": (), "target_undeclared": "number" if number else "classes"}
    return Schema(
        target,
        columns={name: columns[name] for name in table.names if name in columns},
        group=group,
        groups=_values(groups) if groups is not None else listed(table, group, "group") if group is not None else (),
        groups_read_from_data=groups is None and group is not None,
        person=person,
        rows_per_person=rows_per_person,
        **of_target,
    )


def _split(flag: str, names: Sequence[str], form: str) -> tuple[str, str]:
    """Split a flag after the longest name of a column that it begins with: names and values may contain '=' too."""
    named = [name for name in names if flag.startswith(f"{name}=")]
    if not named:
        before = flag.partition("=")[0]
        raise ValueError(f"{quoted(flag)} must be {form} with a column of the table.{nearest(before, names)}")
    name = max(named, key=len)
    return name, flag[len(name) + 1 :]


def _number(text: str) -> Number:
    low, _, high = text.partition(":")
    return Number(_bound(low), _bound(high))


def _range(text: str) -> tuple[float, float]:
    try:
        declared = _number(text)
    except ValueError as error:
        raise ValueError(f"--target-range {text} is not of the form LOW:HIGH: {error}") from None
    return declared.low, declared.high


def _amount(text: str) -> Amount:
    return Amount(_bound(text))


def _category(text: str) -> Category:
    return Category(_values(text))


def _ignore(text: str) -> Ignore:
    return Ignore()


def _values(text: str) -> tuple[str, ...]:
    return tuple(value.strip() for value in text.split("|"))


def _bound(text: str) -> float:
    number = float(parse_numbers([text.strip()])[0])
    if math.isnan(number):
        raise ValueError(f"{quoted(text)} is not a number such as 12 or -1.5.")
    return whole_if_exact(number)
