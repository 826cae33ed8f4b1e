"""The one way text becomes HTML: elements escape their children, so nothing from outside can become a tag.

A child is text, and escaped, unless an element made it. There is no other way to make markup but `Markup` itself, which
only the fixed strings of this package are given.
"""

import html
import math
import unicodedata
from collections.abc import Iterable
from typing import Any

_MOST_PARTS = 20
_VOID = frozenset({"meta", "br"})
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_OVERRIDES = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


class Markup(str):
    """Text that is HTML already."""


def element(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """Return an element. Attributes that are None are left out; `class_` is class, `aria_label` is aria-label."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(children)}</{name}>")


def join(children: Iterable[Any]) -> Markup:
    """Return children one after the other."""
    return Markup("".join(child if isinstance(child, Markup) else _escape(child) for child in children))


def visible(text: Any) -> str:
    """Return text in which characters that hide, reorder or break it are shown by their number, as in ⟨U+202E⟩."""
    return "".join(f"⟨U+{ord(c):04X}⟩" if _hides(c) else c for c in str(text))


def _escape(text: Any) -> str:
    return html.escape(visible(text), quote=True)


def _hides(character: str) -> bool:
    if character in "\n\t":
        return False
    code = ord(character)
    return (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in _OVERRIDES
        or code & 0xFFFE == 0xFFFE  # no characters: HTML forbids them
        or 0xFDD0 <= code <= 0xFDEF
    )


def number(value: Any, digits: int = 4) -> str:
    """Return a number as people write it: 0.0013, 1.3 × 10⁻⁶, 60 000; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e6):
        return _grouped(f"{int(value):,}")
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "not a number"
    size = math.floor(math.log10(abs(value)))
    if -4 <= size < 6:
        shown = f"{value:,.{max(digits - 1 - size, 0)}f}"
        return _grouped(shown.rstrip("0").rstrip(".") if "." in shown else shown)
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".").replace("-", "−")
    return f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def written(value: Any, depth: int = 2) -> str:
    """Return a value of JSON as people write it, numbers in full; long lists and deep ones are cut short."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if not isinstance(value, list | dict):
        return number(value, digits=15)
    if depth == 0:
        return "…"
    parts = (
        [written(v, depth - 1) for v in value]
        if isinstance(value, list)
        else [f"{k} = {written(v, depth - 1)}" for k, v in value.items()]
    )
    more = len(parts) - _MOST_PARTS
    return ", ".join(parts[:_MOST_PARTS]) + (f" and {number(more)} more" if more > 0 else "")


def _grouped(shown: str) -> str:
    return shown.replace(",", "\N{NARROW NO-BREAK SPACE}").replace("-", "−")


def rounded_up(value: float, places: int) -> float:
    """Round a limit up: it must not look smaller than it is. (What float64 adds to a round number does not count.)"""
    return math.ceil(round(value * 10**places, 6)) / 10**places


def percent(share: float, places: int = 1) -> str:
    """Return a share in percent."""
    return f"{100 * share:.{places}f}\N{NO-BREAK SPACE}%"


def at_most(share: float) -> str:
    """Return an upper bound on a share in percent."""
    return percent(rounded_up(min(share, 1.0), 3))


def equation(symbol: str, value: Any) -> str:
    """Return what a symbol stands for, on one line: ε = 1."""
    return f"{symbol} = {number(value)}".replace(" ", "\N{NO-BREAK SPACE}")
