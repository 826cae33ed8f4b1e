"""Whose row it is: ids as people write them, read by one public rule.

Two spellings of an id must not make two persons of one: each would be protected by itself, and who they are together
would not. So ids are compared without spaces, invisible characters, case, and the form of a number: "7", " 7.0", "007"
and the number 7 are one id, "A-12" and "a-12" are another. (That the rule may take two persons for one is harmless: the
two are then protected together.) The rule looks at one id at a time, so what it says of one row depends on no other.
"""

import math
import re
import unicodedata
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gossamer.tables.table import is_missing

_NUMBER = re.compile(r"([+-]?)0*([0-9]+)(?:[.,]([0-9]*?)0*)?")
_POWER = re.compile(r"([0-9])(?:[.,]([0-9]+))?e\+([0-9]{1,2})")
"""How large numbers are exported: 1.5e+16."""
_NOBODY = {"none", "<na>", "nat"}
"""What libraries write for a missing value, besides what stands for one in a table."""


class Ids(list[Any]):
    """Ids with the name of the column that they are from, as a pandas Series has it."""

    name: str


class Persons(NamedTuple):
    """Which person each row is of, and how many persons there are."""

    codes: np.ndarray
    """The number of each row's person, from 0; −1 where the id is missing."""
    number: int


def same_person(value: Any) -> str | None:
    """Return what an id is compared by; None if it is missing."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, float | np.floating):
        if math.isnan(value):
            return None
        value = int(value) if float(value).is_integer() else repr(float(value))
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", str(value)).casefold())
    text = "".join(map(_visible, text))
    if is_missing(text) or text in _NOBODY:
        return None
    if power := _POWER.fullmatch(text):
        first, rest, zeros = power[1], power[2] or "", int(power[3])
        text = f"{first}{rest[:zeros].ljust(zeros, '0')}.{rest[zeros:]}"
    if number := _NUMBER.fullmatch(text):
        sign, whole, part = number[1], number[2], number[3] or ""
        text = whole + (f".{part}" if part else "")
        return f"-{text}" if sign == "-" and text != "0" else text
    return text


def persons_of(ids: Any) -> Persons:
    """Number the persons behind a list of ids: shorter ids first, and those of one length by the alphabet.

    That order does not depend on any row but through the set of ids, so that whoever has more or fewer rows, or rows
    elsewhere in the table, moves nobody else's number.
    """
    array = np.asarray(ids)
    if array.dtype.kind not in "iufSU":
        array = np.array([str(each) if isinstance(each, np.str_) else each for each in _listed(ids)], object)
    if array.ndim != 1:
        raise ValueError("ids must be a list with one id for each row.")
    distinct, places = _distinct(array)
    keys = [same_person(value) for value in distinct]
    order = sorted({key for key in keys if key is not None}, key=lambda key: (len(key), key))
    number = {key: place for place, key in enumerate(order)}
    of_distinct = np.array([-1 if key is None else number[key] for key in keys], np.int64)
    return Persons(of_distinct[places], len(order))


def _listed(ids: Any) -> list[Any]:
    to_list: Callable[[], list[Any]] | None = getattr(ids, "to_list", None) or getattr(ids, "tolist", None)
    return list(ids) if to_list is None else list(to_list())


def _distinct(array: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Return the different values, and where in that list each one is."""
    if array.dtype.kind in "iu":
        values, places = np.unique(array, return_inverse=True)
        return values.tolist(), places
    found: dict[Any, int] = {}
    # A type beside each value: 1 and True, or 1 and 1.0, are different spellings to be looked at.
    places = np.fromiter((found.setdefault((type(v), v), len(found)) for v in array.tolist()), np.int64, len(array))
    return [value for _, value in found], places


def _visible(character: str) -> str:
    """Return a character as it is compared: none for spaces and what cannot be seen, any alphabet's digits alike."""
    if character.isspace() or unicodedata.category(character) in ("Cc", "Cf"):
        return ""
    return str(unicodedata.digit(character)) if character.isdecimal() else character
