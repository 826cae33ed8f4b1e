"""The parts that sections are made of."""

from collections.abc import Iterable, Sequence
from typing import Any

from gossamer.report.markup import Markup, element, join

_LONG = 400
"""Longer texts scroll within their cell."""
_LONG_WORD = 20
"""Longer words may be broken anywhere; shorter ones never are."""


def section(title: str, *children: Any) -> Markup:
    """Return a section with its heading."""
    return element("section", element("h2", title), *children)


def paragraphs(*texts: Any) -> Markup:
    """Return one paragraph for each text."""
    return join(element("p", text) for text in texts)


def remark(text: str) -> Markup:
    """Return a paragraph for those who want to know exactly."""
    return element("p", text, class_="muted")


def bullets(sentences: Iterable[Any], kind: str | None = None) -> Markup:
    """Return a list; nothing if there is nothing to list."""
    items = [element("li", sentence, class_=kind) for sentence in sentences]
    return element("ul", *items) if items else Markup()


def table(label: str, headers: Sequence[str], rows: Iterable[Sequence[Any]], numeric: Sequence[int] = ()) -> Markup:
    """Return a table that scrolls in its own box; the first cell of a row is its heading.

    Args:
      label: what it is, for those who do not see it.
      headers: of the columns.
      rows: the cells.
      numeric: which columns are numbers.
    """

    def cell(column: int, content: Any, scope: str | None) -> Markup:
        kinds = ["number"] if column in numeric else []
        if not isinstance(content, Markup):
            kinds += ["breaks"] if any(len(word) > _LONG_WORD for word in str(content).split()) else []
            content = element("div", content, class_="long", tabindex="0") if len(str(content)) > _LONG else content
        return element("th" if scope else "td", content, scope=scope, class_=" ".join(kinds) or None)

    def line(cells: Sequence[Any], first: str, other: str | None) -> Markup:
        return element(
            "tr", *(cell(column, content, other if column else first) for column, content in enumerate(cells))
        )

    head, body = line(headers, "col", "col"), [line(row, "row", None) for row in rows]
    inner = element(
        "table",
        element("thead", head),
        element("tbody", *body),
        class_="pairs" if len(headers) == 2 else None,
    )
    return element("div", inner, class_="scroll", role="region", aria_label=label, tabindex="0")
