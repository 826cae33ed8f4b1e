"""Certificates to report on, and a strict reader of pages."""

import functools
from html.parser import HTMLParser

import gossamer as gs
from gossamer.privacy.certificate import Certificate, certify

# fmt: off
ELEMENTS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "footer", "section", "h1", "h2", "h3", "p",
    "ul", "li", "div", "span", "dl", "dt", "dd", "i", "sup", "br", "code", "pre", "table", "thead", "tbody", "tr",
    "th", "td", "figure", "figcaption", "svg", "desc", "text", "line", "path",
}
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "name", "content", "class", "id", "role", "aria-label", "aria-labelledby",
    "tabindex", "scope", "viewbox", "d", "x", "y", "x1", "x2", "y1", "y2", "text-anchor",
}
# fmt: on
_VOID = ("meta", "br")


@functools.cache
def certificate(
    epsilon: float = 1.0,
    delta: float = 1e-5,
    neighbors: str = "replace_one",
    seed: int | None = None,
    diagnostics: bool = False,
    steps: int = 10,
) -> Certificate:
    """A certificate as `gs.solve` writes it, of full passes over 1000 records."""
    planned = gs.plan(gs.methods.GD(steps=steps, clip=0.5), 1000, gs.Budget(epsilon, delta, neighbors))
    return certify(planned, gs.ERM(gs.objectives.logistic), seed, diagnostics)


class Page(HTMLParser):
    """A page taken apart; whatever a report has no use for is an error."""

    def __init__(self, html: str):
        super().__init__()
        self.pieces: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    @property
    def text(self) -> str:
        """All text, piece by piece."""
        return "\x00".join(self.pieces)

    def handle_starttag(self, tag, attrs):
        assert tag in ELEMENTS, f"<{tag}> has no place in a report"
        unknown = {name for name, _ in attrs} - ATTRIBUTES
        assert not unknown, f"<{tag}> has {unknown}"
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open and self._open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        self.pieces.append(data)

    def handle_comment(self, data):
        raise AssertionError("a comment")

    def handle_pi(self, data):
        raise AssertionError("a processing instruction")

    def unknown_decl(self, data):
        raise AssertionError("a declaration")

    def with_class(self, kind: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements of a class."""
        return [attributes for _, attributes in self.elements if kind in (attributes.get("class") or "").split()]
