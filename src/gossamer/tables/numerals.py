"""Numbers as they are written in tables."""

import math
import re
from collections.abc import Sequence

import numpy as np

_NUMERAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WITH_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)


def parse_numbers(values: Sequence[str]) -> np.ndarray:
    """Return the numbers that the values say, NaN where a value is no numeral.

    A number too large for a float, such as 1e999, is infinite, so that bounds clip it to the right side. The words inf
    and nan, digits grouped by commas or underscores, and decimal commas are no numerals: what they mean is a guess.
    """
    return np.array([float(value) if _NUMERAL.fullmatch(value) else math.nan for value in values], np.float64)


def have_decimal_commas(values: Sequence[str]) -> bool:
    """Say whether the values would be numbers if commas were points, as some countries write them."""
    return all(_NUMERAL.fullmatch(value) or _WITH_DECIMAL_COMMA.fullmatch(value) for value in values)


def whole_if_exact(number: float) -> float:
    """Return a whole number as an int, as people write it, unless it is too large to be exact."""
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
