"""Axes, gaps and thinned lines."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testkit.pages import Page

from gossamer.report.figures import _BOTTOM, _LEFT, _RIGHT, _TOP, Axis, Line, chart, tame

FLOATS = st.lists(st.floats(), max_size=30)


def draw(y, x=None, axis=None):
    y = tame(np.array(y, float))
    x = np.arange(1.0, len(y) + 1) if x is None else x
    lines = [Line("it", x, y, "main")]
    page = Page(chart("key", "Title", "Finding", Axis.around("step", x, log=False), axis or Axis.around("y", y), lines))
    (path,) = (attributes for tag, attributes in page.elements if tag == "path")
    return page, path["d"]


def points(d):
    """The corners of a path, as they stand on the page."""
    return np.array([[float(x), float(y)] for x, y in re.findall(r"[ML](-?[\d.]+),(-?[\d.]+)", d)])


@settings(deadline=None)
@given(FLOATS)
def test_any_numbers_make_a_picture_within_its_frame(values):
    page, d = draw(values)
    corners = points(d)
    assert len(corners) == np.isfinite(tame(np.array(values, float))).sum()
    if len(corners):
        assert np.all((corners[:, 0] >= _LEFT - 0.1) & (corners[:, 0] <= _RIGHT + 0.1))
        assert np.all((corners[:, 1] >= _TOP - 0.1) & (corners[:, 1] <= _BOTTOM + 0.1))
    assert "Finding" in page.text
    assert ("svg", "img", "key-title key-desc") in [
        (t, a.get("role"), a.get("aria-labelledby")) for t, a in page.elements
    ]


@given(st.floats(-1e50, 1e50), st.floats(1e-50, 1e50), st.booleans())
def test_ticks_are_round_few_and_within(low, span, log):
    values = np.abs([low, span]) + 1e-60 if log else np.array([low, low + span])
    axis = Axis.around("y", tame(values), log=log)
    ticks = axis.ticks()
    assert len(ticks) <= 13
    slack = 1e-6 * (axis.high - axis.low)
    assert all(axis.low - slack <= value <= axis.high + slack for value, _ in ticks)
    if not log:
        assert len(ticks) >= 3


@pytest.mark.parametrize(
    ("low", "high", "written"),
    [
        (0.0, 1.0, ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-5.2, 3.9, ["−4", "−2", "0", "2"]),
        (0.0, 3e-6, ["0", "5 × 10⁻⁷", "1 × 10⁻⁶", "1.5 × 10⁻⁶", "2 × 10⁻⁶", "2.5 × 10⁻⁶", "3 × 10⁻⁶"]),
    ],
)
def test_linear_ticks(low, high, written):
    assert [text for _, text in Axis("y", low, high).ticks()] == written


def test_a_wide_span_of_positive_numbers_is_logarithmic():
    assert Axis.around("y", np.array([0.01, 1.0])).log
    assert not Axis.around("y", np.array([0.1, 1.0])).log
    assert not Axis.around("y", np.array([-0.01, 1.0])).log
    assert [text for _, text in Axis("y", 0.008, 1.2, log=True).ticks()] == ["0.01", "0.1", "1"]
    axis = Axis("y", 0.01, 100.0, log=True)
    np.testing.assert_allclose(axis.place(np.array([0.01, 1.0, 100.0]), 0.0, 1.0), [0.0, 0.5, 1.0])


def test_gaps_are_gaps_and_a_lonely_value_is_a_dot():
    _, d = draw([1.0, 2.0, math.nan, 3.0, math.inf, 2.0, 1.0, 2.0])
    assert d.count("M") == 3
    assert d.count("h0") == 1
    assert len(points(d)) == 6


def test_a_long_line_keeps_its_peaks_and_gaps():
    values = np.sin(np.arange(50_000) / 3000)
    values[12_345], values[40_000] = 7.0, -7.0
    values[30_000] = math.nan
    _, d = draw(values)
    corners = points(d)
    assert len(corners) < 700
    axis = Axis.around("y", values)
    assert corners[:, 1].min() == pytest.approx(axis.place(np.array(7.0), _BOTTOM, _TOP), abs=0.1)
    assert corners[:, 1].max() == pytest.approx(axis.place(np.array(-7.0), _BOTTOM, _TOP), abs=0.1)
    assert d.count("M") == 2
