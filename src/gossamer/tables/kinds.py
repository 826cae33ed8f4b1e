"""What a column can be: each kind has public bounds and becomes numbers of a bounded norm.

    kind       a value becomes                                           ‖·‖² at most
    Number     from −1 at low to 1 at high, clipped                      1
    Amount     log(1 + x)/log(1 + high), clipped to [0, 1]; [x > 0]      2
    Category   one-hot; a value that is not in the list is all zero      1
    Hashed     one-hot of a public hash of the text                      1
    Ignore     nothing                                                   0

Beside it, each kind has a `code`: one number for a value, of which additive models make functions. That is the share
of a number, or of an amount's logarithm, in [0, 1], or the place of a text among the values; −1 is an amount of 0, or a
text that is in no list.

Nothing is estimated from the records, so the encoding of one record does not depend on any other. Of an Undeclared
column nothing is known: a run buys whether it is a number, and between which bounds, by private answers.
"""

import hashlib
import itertools
import math
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from gossamer.base.messages import is_whole, quoted
from gossamer.tables.numerals import parse_numbers, whole_if_exact

Values = Sequence[str] | np.ndarray
ABSENT = -2.0
"""The code of a missing value."""


@dataclass(frozen=True)
class Number:
    """A number with public bounds; the middle between them is zero."""

    low: float
    high: float
    width: ClassVar[int] = 1
    squared_norm: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        _require_finite("low", self.low)
        _require_finite("high", self.high)
        if not self.low < self.high:
            raise ValueError(f"low = {quoted(self.low)} must be below high = {quoted(self.high)}.")
        if not math.isfinite(float(self.high) - float(self.low)):
            raise ValueError(
                f"low = {quoted(self.low)} and high = {quoted(self.high)} are too far apart to divide by their "
                "distance."
            )

    def features(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns that a column of this name becomes."""
        return (name,)

    def fill(self, out: np.ndarray, values: Values) -> None:
        """Encode values into the columns `out`."""
        out[:, 0] = 2 * self.code(values) - 1

    def code(self, values: Values) -> np.ndarray:
        """Return how far values are on the way from low to high: in [0, 1]."""
        low, high = float(self.low), float(self.high)
        return (np.clip(_numbers(values), low, high) - low) / (high - low)


@dataclass(frozen=True)
class Amount:
    """An amount of money: mostly zero, else of any order of magnitude up to a public bound."""

    high: float
    width: ClassVar[int] = 2
    squared_norm: ClassVar[float] = 2.0

    def __post_init__(self) -> None:
        _require_finite("high", self.high)
        if not self.high > 0:
            raise ValueError(f"high = {quoted(self.high)} must be above 0.")

    def features(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns that a column of this name becomes."""
        return (f"log(1 + {name})", f"{name} > 0")

    def fill(self, out: np.ndarray, values: Values) -> None:
        """Encode values into the columns `out`."""
        code = self.code(values)
        out[:, 0] = np.maximum(code, 0.0)
        out[:, 1] = code >= 0

    def code(self, values: Values) -> np.ndarray:
        """Return log(1 + x)/log(1 + high), clipped to [0, 1]; −1 for 0."""
        amount = np.clip(_numbers(values), 0, float(self.high))
        return np.where(amount > 0, np.log1p(amount) / math.log1p(self.high), -1.0)


@dataclass(frozen=True)
class Category:
    """One of a public list of values."""

    values: tuple[str, ...]
    squared_norm: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        require_distinct("values", self.values)

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.values)

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {value: code for code, value in enumerate(self.values)}

    def features(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns that a column of this name becomes."""
        return tuple(f"{name} = {value}" for value in self.values)

    def fill(self, out: np.ndarray, values: Values) -> None:
        """Encode values into the columns `out`, which are zero."""
        codes = self.code(values)
        known = np.flatnonzero(codes >= 0)
        out[known, codes[known]] = 1

    def code(self, values: Values) -> np.ndarray:
        """Return the place of each value in the list; −1 for one that is not there."""
        return np.fromiter(map(self._codes.get, values, itertools.repeat(-1)), np.intp, len(values))


@dataclass(frozen=True)
class Hashed:
    """A text whose values nobody has listed: one of some buckets, by a public hash.

    Case, spaces around it and the form of a number ("7", "7.0") make no difference. Values that share a bucket are told
    apart no more; a value that was never seen has its bucket too.
    """

    buckets: int = 32
    squared_norm: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not (is_whole(self.buckets, least=2) and self.buckets <= _MOST_BUCKETS):
            raise ValueError(f"buckets = {quoted(self.buckets)} must be a whole number from 2 to {_MOST_BUCKETS}.")

    @property
    def width(self) -> int:
        """The number of columns."""
        return self.buckets

    def features(self, name: str) -> tuple[str, ...]:
        """Return the names of the columns that a column of this name becomes."""
        return tuple(f"{name}: bucket {bucket}" for bucket in range(self.buckets))

    def fill(self, out: np.ndarray, values: Values) -> None:
        """Encode values into the columns `out`, which are zero."""
        out[np.arange(len(values)), self.code(values)] = 1

    def code(self, values: Values) -> np.ndarray:
        """Return the bucket of each value."""
        return np.fromiter(map(self.bucket, values), np.intp, len(values))

    def bucket(self, value: str) -> int:
        """Return the bucket of a text."""
        text = value.strip().casefold()
        number = parse_numbers([text])[0]
        if math.isfinite(number):
            text = repr(whole_if_exact(float(number)))
        return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()) % self.buckets


@dataclass(frozen=True)
class Undeclared:
    """A column of which nothing is known: what it is, a run buys."""

    width: ClassVar[int] = 0
    squared_norm: ClassVar[float] = 0.0

    def features(self, name: str) -> tuple[str, ...]:
        """Return no names: they are not known yet."""
        return ()

    def fill(self, out: np.ndarray, values: Values) -> None:
        """Leave `out`, which has no columns, as it is."""


@dataclass(frozen=True)
class Ignore:
    """A column that is left out, perhaps for a reason."""

    reason: str = ""
    width: ClassVar[int] = 0
    squared_norm: ClassVar[float] = 0.0

    def features(self, name: str) -> tuple[str, ...]:
        """Return no names."""
        return ()

    def fill(self, out: np.ndarray, values: Values) -> None:
        """Leave `out`, which has no columns, as it is."""


Kind = Number | Amount | Category | Hashed | Undeclared | Ignore
_MOST_BUCKETS = 1 << 16


_IDENTIFIERS = {"id", "ids", "ssn", "mrn", "uuid", "guid", "identifier"}


def identifier(name: str) -> Ignore | None:
    """Return that a column is left out if its name, which is public, is that of an identifier such as patient_id."""
    words = re.sub(r"([a-z])([A-Z])", r"\1 \2", name).replace("_", " ").replace("-", " ").casefold().split()
    if not words or words[-1] not in _IDENTIFIERS:
        return None
    return Ignore("an identifier by its name: nothing to learn from. Does it tell who a row belongs to?")


def require_distinct(name: str, values: Sequence[str]) -> None:
    """Refuse a list of values that is empty or says one twice."""
    if not values:
        raise ValueError(f"{name} = [] must name at least one value.")
    repeated = [value for value, times in Counter(values).items() if times > 1]
    if repeated:
        raise ValueError(f"{name} has {quoted(repeated[0])} more than once; remove the repetition.")


def _require_finite(name: str, value: Any) -> None:
    # Compared, not converted: a whole number may be too large for a float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise ValueError(f"{name} = {quoted(value)} must be a finite number.")


def _numbers(values: Values) -> np.ndarray:
    numbers = np.asarray(values, np.float64)
    if not np.isfinite(numbers).all():
        raise ValueError("NaN or infinite")
    return numbers
