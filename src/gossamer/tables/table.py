"""A table as text: what was read from a file, before anybody said what its columns mean."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from gossamer.base.messages import nearest
from gossamer.tables.numerals import parse_cells, parse_numbers

MISSING = ("", "na", "n/a", "nan", "nat", "null", "?", ".", "#n/a", "<na>", "#null!", "#div/0!", "#value!")
"""What stands for a missing value, in any case and with any spaces around it."""

_BETWEEN = "\0"
"""Joins the fields of a column. No table may contain it."""


def is_missing(text: str) -> bool:
    """Say whether a text without spaces around it stands for a missing value."""
    return text.casefold() in MISSING


@dataclass(frozen=True, eq=False)
class Column:
    """A column by its distinct values, so that a value is looked at once however often it occurs."""

    values: tuple[str, ...]
    """The distinct values without spaces around them; missing ones are left out."""
    codes: np.ndarray
    """The index of each row's value, or −1 for a missing one."""
    decimal: str
    """What stands before the decimals of a number."""

    def numbers(self) -> np.ndarray:
        """Return the number that each of the values says, NaN where it says none."""
        return parse_numbers(self.values, self.decimal)

    def cells(self) -> np.ndarray:
        """Return the number that each of the values stands for, dates and truth values too, NaN where for none."""
        return parse_cells(self.values, self.decimal)


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of text with distinct names.

    A column is kept as one string, about as large as its part of the file: as separate strings, twenty million fields
    would take more than a gigabyte.
    """

    source: str
    """What errors call it: the path of its file."""
    names: tuple[str, ...]
    n: int
    """The number of rows."""
    _texts: tuple[str, ...] = field(repr=False)
    _lines: np.ndarray | None = field(repr=False, default=None)
    decimal: str = "."
    """What stands before the decimals of its numbers."""
    sha256: str | None = field(repr=False, default=None)
    """The digest of the file that it was read from. It is as secret as the file: it confirms a guess of the whole."""

    def __getitem__(self, name: str) -> Column:
        """Return a column; one that the table does not have is a ValueError that names it."""
        if name not in self._places:
            raise ValueError(f"{self.source} has no column {name!r}.{self.hint(name)}")
        codes = _Codes()
        fields = self._texts[self._places[name]].split(_BETWEEN)
        of_rows = np.fromiter(map(codes.__getitem__, fields), np.int32, self.n)
        return Column(tuple(codes.distinct), of_rows, self.decimal)

    def hint(self, name: str) -> str:
        """Say what may be meant by the name of a column that is not there."""
        nameless = " Its first line has numbers; it must hold the names of the columns: write them at its top."
        return nearest(name, self.names) + ("" if np.isnan(parse_numbers(self.names)).all() else nameless)

    def __contains__(self, name: str) -> bool:
        """Say whether there is a column of this name."""
        return name in self._places

    @cached_property
    def _places(self) -> dict[str, int]:
        """Where each column is: looked up, since a search for each of many columns takes the square of their number."""
        return {name: place for place, name in enumerate(self.names)}

    def place(self, row: int) -> str:
        """Say where a row is, for the owner of the file."""
        return f"row {row + 1}" if self._lines is None else f"line {self._lines[row]}"


class TableBuilder:
    """Makes a table from pieces of its columns, so that only one piece at a time is a list of strings."""

    def __init__(self, source: str, header: Sequence[str]):
        self.source = source
        self.names = _names(source, header)
        self._pieces: list[list[str]] = [[] for _ in self.names]
        self._n = 0

    def add(self, columns: Iterable[Sequence[str]]) -> None:
        """Add rows, given as the next fields of each column."""
        for pieces, fields in zip(self._pieces, columns, strict=True):
            pieces.append(_BETWEEN.join(fields))
        self._n += len(fields)

    def table(self, lines: Sequence[int] | None = None) -> Table:
        """Return the table; `lines` says where each row ends in its file, if it is a file of lines."""
        if not self._n:
            raise ValueError(f"{self.source} has a header but no rows.")
        texts = tuple(map(_BETWEEN.join, self._pieces))
        if sum(text.count(_BETWEEN) for text in texts) != len(texts) * (self._n - 1):
            raise ValueError(f"{self.source} has NUL characters in its text. Export the table again without them.")
        return Table(self.source, self.names, self._n, texts, None if lines is None else np.array(lines, np.int64))


class _Codes(dict[str, int]):
    """The code of each text; a text that is met for the first time gets one."""

    def __init__(self) -> None:
        super().__init__()
        self.distinct: dict[str, int] = {}

    def __missing__(self, text: str) -> int:
        value = text.strip()
        code = -1 if is_missing(value) else self.distinct.setdefault(value, len(self.distinct))
        self[text] = code
        return code


def _names(source: str, header: Sequence[str]) -> tuple[str, ...]:
    names = tuple(name.strip() for name in header)
    if not names:
        raise ValueError(f"{source} has no columns.")
    nameless = [str(position) for position, name in enumerate(names, 1) if not name]
    if nameless:
        raise ValueError(
            f"{source} has no name for column {', '.join(nameless)}. Name every column in the first line (a first "
            "column of row numbers is left out by pandas' to_csv(index=False))."
        )
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise ValueError(
            f"{source} has more than one column called {', '.join(map(repr, repeated))}. Rename all but one, and check "
            "that the first line holds the names of the columns."
        )
    return names
