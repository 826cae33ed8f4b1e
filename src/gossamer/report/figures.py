"""Line charts as inline SVG: no script, no network, and the page's own colours in light, dark and print.

A chart carries its finding in words for those who do not see it. Lines differ by dash as well as by colour.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gossamer.report.markup import Markup, element, join, number, percent

_WIDTH, _HEIGHT = 400, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 378, 30, 232
_MOST_POINTS = 400
_LARGEST, _SMALLEST = 1e100, 1e-100


def tame(values: np.ndarray) -> np.ndarray:
    """Return values that an axis can show: NaN for those that are not finite or absurdly large, 0 for tiny ones."""
    values = np.asarray(values, np.float64)
    sizes = np.abs(values)
    return np.where(sizes < _LARGEST, np.where(sizes < _SMALLEST, 0.0, values), np.nan)


@dataclass(frozen=True)
class Line:
    """One curve; where y is NaN there is a gap."""

    name: str
    x: np.ndarray
    y: np.ndarray
    style: str
    """A class of the page's style sheet."""


@dataclass(frozen=True)
class Axis:
    """One axis: its label and the interval that it shows, logarithmic or not."""

    label: str
    low: float
    high: float
    log: bool = False
    percent: bool = False

    @classmethod
    def around(cls, label: str, values: np.ndarray, log: bool | None = None) -> "Axis":
        """Return an axis that shows all tame values; logarithmic, unless told, where they span a factor of 30."""
        shown = values[np.isfinite(values)]
        if not shown.size:
            return cls(label, 0.0, 1.0)
        low, high = float(shown.min()), float(shown.max())
        log = (low > 0 and high > 30 * low) if log is None else log
        if log:
            return cls(label, low / 1.2, high * 1.2, log=True)
        if high - low <= 1e-9 * max(abs(low), abs(high)):  # one value: an interval around it
            reach = abs(low) / 2 or 1.0
            return cls(label, low - reach, high + reach)
        return cls(label, low - 0.05 * (high - low), high + 0.05 * (high - low))

    def place(self, values: np.ndarray, start: float, stop: float) -> np.ndarray:
        """Return where values are drawn between two edges."""
        low, high = (math.log10(self.low), math.log10(self.high)) if self.log else (self.low, self.high)
        scaled = np.log10(values) if self.log else values
        return start + (scaled - low) / (high - low) * (stop - start)

    def ticks(self) -> list[tuple[float, str]]:
        """Return round numbers within the interval, with what is written beside them."""
        if not self.log:
            step = _nice_step((self.high - self.low) / 8)
            first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
            return [(k * step, self._written(k * step, step)) for k in range(first, last + 1)]
        exponents = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        factors = (1,) if len(exponents) > 4 else (1, 2, 5)
        every = max(1, math.ceil(len(exponents) / 7))
        values = [factor * 10.0**exponent for exponent in exponents[::every] for factor in factors]
        return [(value, number(value, 3)) for value in values if self.low <= value <= self.high]

    def _written(self, value: float, step: float) -> str:
        if self.percent:
            return percent(value, 0)
        if step < 1e-4 or max(abs(self.low), abs(self.high)) >= 1e6:
            return number(value if abs(value) > step / 2 else 0, 3)
        return f"{value:.{max(0, -math.floor(math.log10(step) + 1e-9))}f}".replace("-", "−")


def chart(key: str, title: str, finding: str, x: Axis, y: Axis, lines: Sequence[Line], legend: bool = False) -> Markup:
    """Return a chart as a figure.

    Args:
      key: its id on the page.
      title: what it is.
      finding: what it shows, in words.
      x: the horizontal axis.
      y: the vertical axis.
      lines: from back to front.
      legend: whether to name the lines, in the lower right corner.
    """
    names = element("title", title, id=f"{key}-title"), element("desc", finding, id=f"{key}-desc")
    drawn = [element("path", d=_path(line, x, y), class_=f"line {line.style}") for line in lines]
    return element(
        "svg",
        *names,
        _frame(x, y),
        *drawn,
        _legend(lines) if legend else "",
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_labelledby=f"{key}-title {key}-desc",
        id=key,
    )


def _frame(x: Axis, y: Axis) -> Markup:
    parts = []
    for value, written in y.ticks():
        at = float(y.place(np.array(value), _BOTTOM, _TOP))
        parts += [
            element("line", x1=_LEFT, x2=_RIGHT, y1=f"{at:.1f}", y2=f"{at:.1f}", class_="grid"),
            element("text", written, x=_LEFT - 8, y=f"{at + 4:.1f}", class_="tick", text_anchor="end"),
        ]
    for value, written in x.ticks():
        at = float(x.place(np.array(value), _LEFT, _RIGHT))
        parts += [
            element("line", x1=f"{at:.1f}", x2=f"{at:.1f}", y1=_BOTTOM, y2=_BOTTOM + 5, class_="axis"),
            element("text", written, x=f"{at:.1f}", y=_BOTTOM + 18, class_="tick", text_anchor="middle"),
        ]
    return join(
        [
            *parts,
            element("line", x1=_LEFT, x2=_RIGHT, y1=_BOTTOM, y2=_BOTTOM, class_="axis"),
            element("text", y.label, x=6, y=15, class_="label"),
            element("text", x.label, x=_RIGHT, y=_HEIGHT - 8, class_="label", text_anchor="end"),
        ]
    )


def _legend(lines: Sequence[Line]) -> Markup:
    parts = []
    for row, line in enumerate(reversed(lines)):
        at = _BOTTOM - 18 * (len(lines) - row) + 6
        parts += [
            element("path", d=f"M{_RIGHT - 202},{at - 4}h30", class_=f"line {line.style}"),
            element("text", line.name, x=_RIGHT - 164, y=at, class_="label"),
        ]
    return join(parts)


def _path(line: Line, x: Axis, y: Axis) -> str:
    """Return the path of a line, lifted over gaps; a point without neighbours is a dot."""
    xs, ys = _thin(line.x, line.y)
    seen = np.isfinite(ys)
    horizontal = x.place(xs, _LEFT, _RIGHT)
    vertical = y.place(np.where(seen, ys, y.high), _BOTTOM, _TOP)
    commands = []
    for i in np.flatnonzero(seen):
        begins = i == 0 or not seen[i - 1]
        ends = i == len(seen) - 1 or not seen[i + 1]
        commands.append(
            f"{'M' if begins else 'L'}{horizontal[i]:.1f},{vertical[i]:.1f}{'h0' if begins and ends else ''}"
        )
    return "".join(commands)


def _thin(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Keep of each stretch its smallest and its largest value, and one of its gaps: what the eye would see."""
    if len(x) <= _MOST_POINTS:
        return x, y
    kept = set()
    for stretch in np.array_split(np.arange(len(x)), _MOST_POINTS // 2):
        seen = np.isfinite(y[stretch])
        kept.update(stretch[~seen][:1])
        if seen.any():
            kept.update((stretch[seen][np.argmin(y[stretch][seen])], stretch[seen][np.argmax(y[stretch][seen])]))
    chosen = np.array(sorted(kept))
    return x[chosen], y[chosen]


def _nice_step(rough: float) -> float:
    """Return the smallest of 1, 2, 5 times a power of ten that is at least this large."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * (1 - 1e-9))
