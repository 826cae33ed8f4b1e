"""Words that errors share."""

import difflib
from collections.abc import Iterable
from typing import Any

_LONGEST = 60
_MOST = 8


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a sentence, after a space: what known word may be meant, else which are known."""
    known = tuple(known)
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f" Did you mean {shown(close[0])}?"
    return f" Known are {shown_list(map(shown, known))}."


def shown(value: Any) -> str:
    """Return a value as Python writes it, shortened."""
    try:
        text = repr(value)
    except ValueError:  # Python does not write out whole numbers of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def shown_list(words: Iterable[str]) -> str:
    """Return words between commas, the first few of them."""
    words = list(words)
    return ", ".join([*words[:_MOST], *(["..."] if len(words) > _MOST else [])])
