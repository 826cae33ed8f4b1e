"""Values as configurations keep them, and as messages show them.

A configuration keeps Python's own numbers and tuples: they hash, they compare, and certificates hold them as JSON.
A message never shows what may hold records: arguments that were exchanged by mistake bring the table where a number or
a method belongs.
"""

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np

_MOST = 8
_LONGEST = 60


def plain(value: Any) -> Any:
    """Return numbers of NumPy and JAX as Python's own, and lists as tuples; anything else as it is."""
    if type(value) in (list, tuple):
        return tuple(map(plain, value))
    is_scalar = getattr(value, "shape", None) == () and getattr(value.dtype, "kind", None) in ("b", "i", "u", "f")
    return value.item() if is_scalar else value


def is_number(value: Any) -> bool:
    """Return whether a plain value is a number; True and False are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: Any, least: int = 1) -> bool:
    """Return whether a plain value is a whole number of at least `least`; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def shown(value: Any) -> str:
    """Return a value for a message: names and single numbers as they are, and of all else only types and shapes."""
    single = value is None or isinstance(value, str | bool | int | float | np.generic)
    return repr(value) if single else outline(value)


def outline(value: Any) -> str:
    """Return the type of a value, and its shape if it has one, such as float32[50, 3]."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(getattr(value, "shape", None), tuple):
        return f"{getattr(value, 'dtype', type(value).__name__)}{list(value.shape)}"
    if isinstance(value, list | tuple):
        inner = first_few([outline(part) for part in value[:_MOST]], len(value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return type(value).__name__


def first_few(parts: Iterable[str], count: int | None = None) -> str:
    """Return the first few of `count` parts, or of all, as one text."""
    parts = list(parts)
    count = len(parts) if count is None else count
    return ", ".join(parts[:_MOST]) + (f" and {count - _MOST} more" if count > _MOST else "")


def quoted(value: Any) -> str:
    """Return a value of a schema or a table's heading as Python writes it, shortened; its owner reads it."""
    try:
        text = repr(value)
    except ValueError:  # Python does not write out whole numbers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a sentence, after a space: what known word may be meant, else which are known."""
    known = tuple(known)
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f" Did you mean {quoted(close[0])}?"
    return f" Known are {first_few(map(quoted, known))}."
