"""From lines of text to rows with a public bound on their norm: every scale and every category is known beforehand.

    field of a line   becomes                                               ‖·‖² at most
    Number            (x − low)/(high − low), clipped to [0, 1]             1
    Amount            log(1 + x)/log(1 + high), clipped to [0, 1]; [x > 0]  2
    Category          one-hot; a value that is not in the list is all zero  1

Nothing is estimated from the records, so the encoding of one record does not depend on any other.
"""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import ClassVar

import numpy as np

from gossamer.datasets.tables import Table

_PIECE = 512
"""Lines encoded at a time: their fields should stay in the cache of the processor."""


@dataclass(frozen=True)
class Number:
    """A number with public bounds."""

    low: float
    high: float
    width: ClassVar[int] = 1
    squared_norm: ClassVar[float] = 1.0

    def fill(self, out: np.ndarray, values: Sequence[str]) -> None:
        """Encode values into the columns `out`."""
        out[:, 0] = np.clip((_numbers(values) - self.low) / (self.high - self.low), 0, 1)


@dataclass(frozen=True)
class Amount:
    """An amount of money: mostly zero, else of any order of magnitude up to a public bound."""

    high: float
    width: ClassVar[int] = 2
    squared_norm: ClassVar[float] = 2.0

    def fill(self, out: np.ndarray, values: Sequence[str]) -> None:
        """Encode values into the columns `out`."""
        amount = np.clip(_numbers(values), 0, self.high)
        out[:, 0] = np.log1p(amount) / math.log1p(self.high)
        out[:, 1] = amount > 0


@dataclass(frozen=True)
class Category:
    """One of a public list of values."""

    values: tuple[str, ...]
    squared_norm: ClassVar[float] = 1.0

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.values)

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {value: code for code, value in enumerate(self.values)}

    def fill(self, out: np.ndarray, values: Sequence[str]) -> None:
        """Encode values into the columns `out`, which are zero."""
        codes = np.fromiter(map(self._codes.get, values, itertools.repeat(-1)), np.intp, len(values))
        known = np.flatnonzero(codes >= 0)
        out[known, codes[known]] = 1


def _numbers(values: Sequence[str]) -> np.ndarray:
    numbers = np.array(values, np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("NaN or infinite")
    return numbers


Block = Number | Amount | Category


@dataclass(frozen=True)
class Encoding:
    """How lines of fields separated by comma and space become a table; the last field is the label."""

    names: tuple[str, ...]
    """The names of all fields but the label."""
    blocks: Mapping[str, Block]
    """What becomes of each field; fields without a block are dropped."""
    labels: Mapping[str, int]
    """The two labels as they are written."""

    @cached_property
    def columns(self) -> dict[str, slice]:
        """Where each field is in a row."""
        found, start = {}, 0
        for name, block in self.blocks.items():
            found[name] = slice(start, start + block.width)
            start += block.width
        return found

    @property
    def width(self) -> int:
        """The number of columns."""
        return sum(block.width for block in self.blocks.values())

    @property
    def row_norm(self) -> float:
        """The bound on the norm of a row that follows from the blocks alone."""
        return math.sqrt(sum(block.squared_norm for block in self.blocks.values()))

    def table(self, lines: Sequence[str], source: str) -> Table:
        """Encode lines; `source` says in errors where they are from."""
        if not lines:
            raise ValueError(f"{source} has no rows. Delete it and get it again.")
        X = np.zeros((len(lines), self.width), np.float32)
        y = np.empty(len(lines), np.int64)
        for start in range(0, len(lines), _PIECE):
            piece = slice(start, start + _PIECE)
            fields = self._fields(lines[piece], start, source)
            for name, block in self.blocks.items():
                try:
                    block.fill(X[piece, self.columns[name]], fields[self.names.index(name)])
                except ValueError as error:
                    raise ValueError(
                        f"{source}: {name!r} has a value that is not a finite number ({error})."
                    ) from error
            try:
                y[piece] = [self.labels[label] for label in fields[-1]]
            except KeyError as error:
                raise ValueError(f"{source}: a label is {error}, not one of {list(self.labels)}.") from None
        return Table(X, y, self.row_norm, tuple(sorted(self.labels.values())))

    def _fields(self, lines: Sequence[str], start: int, source: str) -> list[tuple[str, ...]]:
        rows = [line.split(", ") for line in lines]
        expected = len(self.names) + 1
        for number, row in enumerate(rows, start + 1):
            if len(row) != expected:
                raise ValueError(
                    f"{source}: row {number} has {len(row)} fields, expected {expected}. Is it another data set, or "
                    "was it cut off?"
                )
        return list(zip(*rows, strict=True))


def codebook(file_name: str, omit: Sequence[str] = ()) -> dict[str, Category]:
    """Return the lists of categories in a JSON file of this package, by the name of the field, without `omit`."""
    text = resources.files("gossamer.datasets").joinpath(file_name).read_text(encoding="utf-8")
    book = json.loads(text)
    return {name: Category(tuple(v for v in values if v not in omit)) for name, values in book.items()}
