"""Text becomes HTML in one way, and numbers are written as people do."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from testkit.pages import Page

from gossamer.report.markup import Markup, at_most, element, join, number, rounded_up, visible, written


@given(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())))
def test_text_and_attributes_come_out_as_they_went_in(text, attribute):
    page = Page(element("p", text, id=attribute).encode("utf-8").decode("utf-8"))
    assert page.elements == [("p", {"id": visible(attribute)})]
    assert "".join(page.pieces) == visible(text)


@pytest.mark.slow
@given(st.text())
def test_ordinary_text_is_left_alone(text):
    ordinary = "".join(c for c in text if c.isprintable() or c in "\n\t")
    assert visible(ordinary) == ordinary


def test_what_hides_or_reorders_is_shown():
    assert visible("a\u202eb\x00\ud800\u2066\u2028\ufffe") == "a⟨U+202E⟩b⟨U+0000⟩⟨U+D800⟩⟨U+2066⟩⟨U+2028⟩⟨U+FFFE⟩"


def test_only_elements_are_markup():
    assert join([element("i", "<b>"), "<b>"]) == "<i>&lt;b&gt;</i>&lt;b&gt;"
    assert isinstance(element("br"), Markup)
    with pytest.raises(AssertionError, match="script"):
        Page(Markup("<script>alert(1)</script>"))
    with pytest.raises(AssertionError, match="onclick"):
        Page(Markup("<p onclick=alert(1)></p>"))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (1.0, "1"),
        (0.0012812959, "0.001281"),
        (1e-6, "1 × 10⁻⁶"),
        (-2.5e9, "−2.5 × 10⁹"),
        (60_000, "60\u202f000"),
        (123456.7, "123\u202f457"),
        (0.99971, "0.9997"),
        (-3.25, "−3.25"),
        (0.0, "0"),
        (math.inf, "∞"),
        (math.nan, "not a number"),
        (10**400, f"{10**400:,}".replace(",", "\u202f")),
        ("=1+1", "=1+1"),
    ],
)
def test_numbers(value, written):
    assert number(value) == written


@given(st.floats(0, 1))
def test_a_limit_never_looks_smaller_than_it_is(share):
    assert share - 1e-9 <= rounded_up(share, 3) <= share + 1e-3
    assert at_most(0.62301) == "62.4\u00a0%" and at_most(0.05) == "5.0\u00a0%" and at_most(1.0) == "100.0\u00a0%"


def test_values_of_json():
    assert written([None, True, 2.0, ["a", ["b"]], {"k": 1}]) == "none, yes, 2, a, …, k = 1"
    assert written(39.2857142857) == "39.2857142857" and written(0.1) == "0.1"
    assert written(list(range(25))).endswith("19 and 5 more")
