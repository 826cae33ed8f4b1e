"""Numbers as they are written in tables."""

import datetime
import math
import re
from collections.abc import Sequence

import numpy as np

MARKS = {".": "point", ",": "comma"}
"""What may stand before the decimals of a number."""

_NUMERAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_EXCHANGED = str.maketrans(".,", ",.")


_DATE = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d*)?)?)?", re.ASCII)
_WORDS = {"true": 1.0, "false": 0.0}


def parse_cells(values: Sequence[str], decimal: str = ".") -> np.ndarray:
    """Return the numbers that cells stand for, NaN where they stand for none.

    That of a numeral, the days since 1970 of a date such as 2026-01-31 or 2026-01-31T12:00, and 1 or 0 of true or
    false. What a cell stands for does not depend on other cells.
    """
    numbers = parse_numbers(values, decimal)
    for place in np.flatnonzero(np.isnan(numbers)).tolist():
        text = values[place]
        numbers[place] = _WORDS.get(text.casefold(), math.nan)
        if found := _DATE.fullmatch(text):
            numbers[place] = _days(*found.groups())
    return numbers


def _days(day: str, hours: str | None, minutes: str | None, seconds: str | None) -> float:
    try:
        date = datetime.date.fromisoformat(day)
    except ValueError:  # the 31st of February
        return math.nan
    since = sum(int(part or 0) * size for part, size in ((hours, 3600), (minutes, 60), (seconds, 1)))
    return (date - datetime.date(1970, 1, 1)).days + since / 86_400


def parse_numbers(values: Sequence[str], decimal: str = ".") -> np.ndarray:
    """Return the numbers that the values say, NaN where a value is no numeral; `decimal` is the decimal mark.

    A number too large for a float, such as 1e999, is infinite, so that bounds clip it to the right side. The words inf
    and nan, the other decimal mark, and digits grouped by anything are no numerals: what they mean is a guess.
    """
    if decimal == ",":
        values = [value.translate(_EXCHANGED) for value in values]
    return np.array([float(value) if _NUMERAL.fullmatch(value) else math.nan for value in values], np.float64)


def other_mark(decimal: str) -> str:
    """Return the decimal mark that is not this one."""
    return decimal.translate(_EXCHANGED)


def advice_on_marks(decimal: str) -> str:
    """Return what to do about numbers that have the other decimal mark."""
    other = other_mark(decimal)
    return (
        f"if that is a decimal {MARKS[other]}, read the text file with decimal={other!r} (--decimal {other}); if it "
        "separates thousands, take it out"
    )


def whole_if_exact(number: float) -> float:
    """Return a whole number as an int, as people write it, unless it is too large to be exact."""
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
