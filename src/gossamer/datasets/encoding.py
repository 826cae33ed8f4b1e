"""From lines of text to rows with a public bound on their norm: every scale and every category is known beforehand.

What becomes of a field is said by its kind, see `gossamer.tables.kinds`.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

import numpy as np

from gossamer.datasets.labelled import LabelledTable
from gossamer.tables.kinds import Category, Kind, Number

_PIECE = 512
"""Lines encoded at a time: their fields should stay in the cache of the processor."""


@dataclass(frozen=True)
class Share(Number):
    """A number as its share of the way from low to high, in [0, 1]."""

    def fill(self, out: np.ndarray, values: Sequence[str] | np.ndarray) -> None:
        """Encode values into the columns `out`."""
        out[:, 0] = self.code(values)


@dataclass(frozen=True)
class Encoding:
    """How lines of fields separated by comma and space become a table; the last field is the label."""

    names: tuple[str, ...]
    """The names of all fields but the label."""
    blocks: Mapping[str, Kind]
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

    def table(self, lines: Sequence[str], source: str) -> LabelledTable:
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
        return LabelledTable(X, y, self.row_norm, tuple(sorted(self.labels.values())))

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
