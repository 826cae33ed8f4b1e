"""How the columns of a table become rows of numbers of a bounded norm, by what is declared of them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from gossamer.tables.kinds import ABSENT, Amount, Category, Hashed, Ignore, Kind, Number, Undeclared
from gossamer.tables.numerals import MARKS, advice_on_marks, other_mark, parse_numbers
from gossamer.tables.table import Column, Table

LARGEST = np.finfo(np.float64).max


@dataclass(frozen=True)
class Declaration:
    """What is declared of one column.

    A missing value is all zero, and so is one that is not a number where a number is declared. With `missing` there is
    one more column, 1 for a missing value and else 0; the bound on the norm stays what it is, because where that column
    is 1 the others are 0.
    """

    kind: Kind
    missing: bool = False
    read_from_data: bool = False
    """Whether the declaration was drafted by looking at the records, and nobody has confirmed that it is public."""
    absent: tuple[str, ...] = ()
    """Values that stand for a missing one in this column, besides those that always do: codes such as -999."""

    def __post_init__(self) -> None:
        if self.missing and isinstance(self.kind, Ignore):
            raise ValueError("missing = True says how to encode a column, but this one is ignored; leave it out.")

    @property
    def is_left_out(self) -> bool:
        """Whether a model does not see the column."""
        return isinstance(self.kind, Ignore)

    @property
    def width(self) -> int:
        """The number of columns of the encoding."""
        return self.kind.width + self.missing

    def known(self, column: Column) -> np.ndarray:
        """Return which of a column's values are none of the codes for a missing one; numbers are compared as such."""
        codes, numbers = set(self.absent), parse_numbers(self.absent)
        same = np.isin(column.numbers(), numbers[~np.isnan(numbers)])
        return np.array([value not in codes for value in column.values], bool) & ~same

    def features(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns of the encoding."""
        return (*self.kind.features(name), *([f"{name} is missing"] if self.missing else []))


@dataclass(frozen=True)
class Coded:
    """The columns of a table as one number each, by the `code` of its kind; ABSENT for a missing value."""

    columns: Mapping[str, Declaration]
    values: np.ndarray
    """Shape (n, number of columns)."""

    def __len__(self) -> int:
        return len(self.values)


def coded_kinds(columns: Mapping[str, Declaration]) -> tuple[Number | Amount | Category, ...]:
    """Return what codes are of: a text that is hashed is one of its buckets."""
    kinds = [
        Category(declared.kind.features(name)) if isinstance(declared.kind, Hashed) else declared.kind
        for name, declared in columns.items()
    ]
    return tuple(kind for kind in kinds if isinstance(kind, Number | Amount | Category))


class Encoding:
    """What a model sees of a table; a subclass is a frozen dataclass with `columns`."""

    columns: Mapping[str, Declaration]

    @cached_property
    def features(self) -> dict[str, Declaration]:
        """The columns that a model sees."""
        return {name: declared for name, declared in self.columns.items() if not declared.is_left_out}

    @property
    def undeclared(self) -> tuple[str, ...]:
        """The columns of which a run has to buy what they are."""
        return tuple(name for name, declared in self.columns.items() if isinstance(declared.kind, Undeclared))

    def completed(self, kinds: Mapping[str, Kind]) -> Self:
        """Return the same with kinds for the columns that had none."""
        columns = {
            name: declared
            if name not in kinds
            else replace(declared, kind=kinds[name], missing=not isinstance(kinds[name], Ignore))
            for name, declared in self.columns.items()
        }
        return replace(self, columns=columns)  # type: ignore[type-var]  # subclasses are dataclasses

    def with_absent(self, codes: Sequence[str]) -> Self:
        """Return the same with codes that stand for a missing value in every column, such as -999."""
        columns = {
            name: declared if declared.is_left_out else replace(declared, absent=(*declared.absent, *codes))
            for name, declared in self.columns.items()
        }
        return replace(self, columns=columns)  # type: ignore[type-var]  # subclasses are dataclasses

    @property
    def width(self) -> int:
        """The number of columns of the encoding."""
        return sum(declared.width for declared in self.columns.values())

    @property
    def row_norm(self) -> float:
        """The bound on the norm of an encoded row, which follows from the kinds alone."""
        return math.sqrt(sum(declared.kind.squared_norm for declared in self.columns.values()))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What each column of the encoding says."""
        return tuple(feature for name, declared in self.columns.items() for feature in declared.features(name))

    def check(self, table: Table) -> None:
        """Refuse, for the owner of a table and before anything is spent, columns that cannot be meant as declared."""
        self._require_columns(table)
        for name, declared in self.features.items():
            if isinstance(declared.kind, Number | Amount):
                require_numbers(name, table[name], table, declared.known(table[name]))

    def _require_columns(self, table: Table) -> None:
        absent = [name for name in self.features if name not in table]
        if absent:
            raise ValueError(
                f"{table.source} has no column {', '.join(map(repr, absent))}, which the schema declares."
                f'{table.hint(absent[0])} Add it, or train with a schema where it has kind = "ignore".'
            )

    def encode(self, table: Table) -> np.ndarray:
        """Return the rows, shape (n, width), each of norm at most `row_norm`; the table needs no target.

        Whatever stands in a cell, nothing is refused here: it may be called after answers were bought.
        """
        self._require_declared(table)
        X = np.zeros((table.n, self.width), np.float32)
        start = 0
        for name, declared in self.features.items():
            column = table[name]
            # A row for each distinct value and a last one for a missing value, whose code is −1.
            rows = np.zeros((len(column.values) + 1, declared.width), np.float32)
            known, values = _distinct(declared, column)
            filled = np.zeros((len(values), declared.kind.width), np.float32)
            declared.kind.fill(filled, values)
            rows[:-1, : declared.kind.width][known] = filled
            rows[np.append(~known, True), declared.kind.width :] = 1
            X[:, start : start + declared.width] = rows[column.codes]
            start += declared.width
        return X

    def coded(self, table: Table) -> Coded:
        """Return each column as one number; the table needs no target, and nothing is refused, as in `encode`."""
        self._require_declared(table)
        codes = np.empty((table.n, len(self.features)), np.float32)
        for place, (name, declared) in enumerate(self.features.items()):
            column = table[name]
            of = np.full(len(column.values) + 1, ABSENT, np.float32)  # the last is that of a missing value
            known, values = _distinct(declared, column)
            of[:-1][known] = declared.kind.code(values)  # type: ignore[union-attr]  # of features, which have codes
            codes[:, place] = of[column.codes]
        return Coded(self.features, codes)

    def _require_declared(self, table: Table) -> None:
        self._require_columns(table)
        if self.undeclared:
            raise ValueError(
                f"nothing is declared of column {', '.join(map(repr, self.undeclared))}: a run has to buy what it is."
            )

    def cells(self, table: Table, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers in some columns, NaN where there is none, and whether anything is there: shapes (n, c)."""
        numbers, there = np.full((table.n, len(names)), math.nan), np.zeros((table.n, len(names)), bool)
        for place, name in enumerate(names):
            column = table[name]
            known = self.columns[name].known(column)
            numbers[:, place] = np.append(np.where(known, column.cells(), math.nan), math.nan)[column.codes]
            there[:, place] = np.append(known, False)[column.codes]
        return numbers, there


@dataclass(frozen=True)
class Columns(Encoding):
    """Declared columns alone, without a target."""

    columns: Mapping[str, Declaration]


def _distinct(declared: Declaration, column: Column) -> tuple[np.ndarray, np.ndarray]:
    """Return which of a column's distinct values are no missing ones, and those, as its kind takes them."""
    known, values = declared.known(column), np.array(column.values, object)
    if isinstance(declared.kind, Number | Amount):
        values = np.clip(column.cells(), -LARGEST, LARGEST)
        known &= ~np.isnan(values)
    return known, values[known]


def require_numbers(name: str, column: Column, table: Table, known: np.ndarray) -> None:
    """Refuse a column of numbers in which none of the known values is a number."""
    if known.any() and np.isnan(column.cells()[known]).all():
        where = f"{table.source}, {table.place(first_row(known, column))}: column {name!r} is declared as a number"
        raise ValueError(f"{where} and has none; {_advice(column, known)}")


def _advice(column: Column, strange: np.ndarray) -> str:
    """Return what to do about values that are no numbers."""
    decimal, other = column.decimal, other_mark(column.decimal)
    values = [column.values[place] for place in np.flatnonzero(strange)]
    if not np.isnan(parse_numbers(values, other)).all():
        return f"there are numbers with a {MARKS[other]}: {advice_on_marks(decimal)}."
    return (
        f"write numbers as 12 or -1{decimal}5 or 2e6, with a decimal {MARKS[decimal]} and nothing between thousands; "
        'or declare the column as kind = "category".'
    )


def remarks_on(name: str, declared: Declaration, table: Table) -> Iterator[str]:
    """Yield what the owner of a table should know of one of its columns."""
    column = table[name]
    known = declared.known(column)
    if isinstance(declared.kind, Number | Amount):
        strange = known & np.isnan(column.cells())
        if strange.any():
            yield (
                f"{_places(strange, column, table)}: column {name!r} is declared as a number, and something else "
                f"stands there. It counts as missing; to mend it, {_advice(column, strange)}"
            )
    if isinstance(declared.kind, Category):
        strange = known & ~np.isin(np.array(column.values, object), declared.kind.values)
        if column.values and strange.all():
            yield f"no value of column {name!r} is in its declared list, so it says nothing; compare spellings."
        elif strange.any():
            yield (
                f"{_places(strange, column, table)}: column {name!r} has a value there that is not in its declared "
                "list. It counts as none of them; compare spellings."
            )


def _places(strange: np.ndarray, column: Column, table: Table) -> str:
    """Say where the first row with a strange value is, and how many more there are."""
    rows = np.flatnonzero(np.append(strange, False)[column.codes])
    more = len(rows) - 1
    return table.place(int(rows[0])) + (f" and {more} more" if more else "")


def first_row(strange: np.ndarray, column: Column) -> int:
    """Return the first row whose value is marked as strange."""
    return int(np.argmax(np.append(strange, False)[column.codes]))
