"""The expected excess risk of noisy methods on quadratics, exactly, for any number of records.

F(x) = ½ Σ_k h_k e_k² with e = x − x*, in coordinates in which the curvature is diagonal. An answer about a record's
gradient, asked of samples of rate q of n records with noise multiplier σ and threshold C, is the true mean and an error
of variance

    (σC/(qn))²  +  (1 − q)/(qn) · E‖h(z)‖²/d

in each coordinate: noise, and sampling with a public normaliser, spread evenly. A difference has the threshold
min(2C, L‖Δ‖), whose square has the expectation min(4C², L² E‖Δ‖²) at most. Steps are linear, so that second moments
of the errors obey a recursion, and no random number is drawn. Nothing is clipped.

    alike   all records have the same curvature: that of a record, L, is that of the mean. Differences are at their best
    rows    a record's curvature is xxᵀ with ‖x‖ = 1, as in linear models: that of the mean is about L/d
"""

from typing import NamedTuple

import numpy as np

CLIP, SMOOTHNESS = 1.0, 1.0
START, SPREAD = 0.5, 0.5
"""How far x is from x* at first, and how long a record's gradient is at x*."""
GROUPS = 10
"""So many different curvatures, each of d/GROUPS directions."""
FAMILIES = ("alike", "rows")


class Setting(NamedTuple):
    """One way to run a method."""

    method: str
    steps: int
    """Of SVRG: epochs."""
    length: int
    """Of SPIDER: steps between refreshes. Of SVRG: inner steps. Of SGD: 0."""
    rate: float
    """At which records are sampled, for gradients of SGD and for differences."""
    step: float
    """Learning rate, in units of 1/(largest curvature)."""
    extra: float
    """Of SGD: momentum. Of the others: the noise of differences, in units of that at which both queries cost alike."""
    decays: bool = False
    """Not of SVRG: whether steps become shorter, in a line that ends at 0."""

    def at(self, t: int) -> float:
        """Return how long step t is."""
        return self.step * (1 - t / self.steps if self.decays else 1.0)


class Points(NamedTuple):
    """Where methods are compared: arrays with an entry for each point."""

    family: np.ndarray
    n: np.ndarray
    d: np.ndarray
    condition: np.ndarray

    def curvatures(self) -> np.ndarray:
        """Return h, a row for each point."""
        h = self.condition[:, None] ** -np.linspace(0.0, 1.0, GROUPS)
        whole = (self.d / GROUPS * h.sum(axis=1))[:, None]
        return np.where((self.family == "rows")[:, None], h / whole, h)

    def start_risk(self) -> np.ndarray:
        """Return F(x) − F(x*) at the start."""
        return 0.5 * START**2 * self.curvatures().mean(axis=1)


def excess(points: Points, setting: Setting, noise: dict[str, np.ndarray]) -> np.ndarray:
    """Return E F(x) − F(x*) after the last step, at each point; infinite where it diverges."""
    with np.errstate(over="ignore", invalid="ignore"):
        found = _RECURSIONS[setting.method](_World(points), setting, noise)
    return np.where(np.isfinite(found), found, np.inf)


class _World:
    """What the recursions share."""

    def __init__(self, points: Points):
        self.h = points.curvatures()
        self.n, self.d = points.n[:, None], points.d[:, None]
        self.largest = self.h.max(axis=1, keepdims=True)
        # E‖∇f(z)‖² of a record whose Hessian is H: ‖He‖²; whose Hessian is xxᵀ: eᵀHe.
        self.of_record = np.where((points.family == "rows")[:, None], self.h, self.h**2)
        self.start = START**2 / self.d * np.ones_like(self.h)

    def total(self, each: np.ndarray) -> np.ndarray:
        """Return the sum over all directions."""
        return (self.d / GROUPS) * each.sum(axis=1, keepdims=True)

    def risk(self, squares: np.ndarray) -> np.ndarray:
        return 0.5 * self.total(self.h * squares)[:, 0]

    def of_gradient(self, rate: float, noise: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """Return the variance of an answer about gradients, where E e_k² are these."""
        length = self.total(self.of_record * squares) + (SPREAD * CLIP) ** 2
        return (noise[:, None] * CLIP / (rate * self.n)) ** 2 + (1 - rate) / (rate * self.n) * length / self.d

    def of_difference(self, rate: float, noise: np.ndarray, squares: np.ndarray) -> np.ndarray:
        """Return the variance of an answer about differences of gradients, where E Δ_k² are these."""
        threshold = np.minimum(4 * CLIP**2, SMOOTHNESS**2 * self.total(squares))
        length = self.total(self.of_record * squares)
        return (noise[:, None] / (rate * self.n)) ** 2 * threshold + (1 - rate) / (rate * self.n) * length / self.d


def _sgd(world: _World, setting: Setting, noise: dict[str, np.ndarray]) -> np.ndarray:
    """m ← βm + g, x ← x − ηm; of (e, m)."""
    h, beta = world.h, setting.extra
    ee, em, mm = world.start, 0 * h, 0 * h
    for t in range(setting.steps):
        eta = setting.at(t) / world.largest
        variance = world.of_gradient(setting.rate, noise["gradient"], ee)
        mm = beta**2 * mm + 2 * beta * h * em + h**2 * ee + variance
        em = beta * em + h * ee
        ee, em = ee - 2 * eta * em + eta**2 * mm, em - eta * mm
    return world.risk(ee)


def _spider(world: _World, setting: Setting, noise: dict[str, np.ndarray]) -> np.ndarray:
    """v ← ∇F(x) anew, or v + the difference; x ← x − ηv; of (e, v)."""
    h, before = world.h, 0.0
    ee, ev, vv = world.start, 0 * h, 0 * h
    for t in range(setting.steps):
        if t % setting.length == 0:
            vv, ev = h**2 * ee + world.of_gradient(1.0, noise["gradient"], ee), h * ee
        else:
            kept = 1 - before * h
            vv, ev = (
                kept**2 * vv + world.of_difference(setting.rate, noise["difference"], before**2 * vv),
                kept * ev,
            )
        before = eta = setting.at(t) / world.largest
        ee, ev = ee - 2 * eta * ev + eta**2 * vv, ev - eta * vv
    return world.risk(ee)


def _svrg(world: _World, setting: Setting, noise: dict[str, np.ndarray]) -> np.ndarray:
    """Steps around an anchor a, which becomes their mean: u ← (1 − ηh)u + g − η·error for u = x − a; s is their sum.

    g = −η(ha + the error of the anchor's gradient) is the same in all steps of an epoch.
    """
    h, eta, m = world.h, setting.step / world.largest, setting.length
    r, aa = 1 - eta * h, world.start
    for _ in range(setting.steps):
        gg = eta**2 * (h**2 * aa + world.of_gradient(1.0, noise["gradient"], aa))
        ag = -eta * h * aa
        uu = us = ss = gu = gs = au = as_ = 0 * h
        for _ in range(m):
            variance = world.of_difference(setting.rate, noise["difference"], uu)
            uu = r**2 * uu + 2 * r * gu + gg + eta**2 * variance
            before = r * us + gs  # of the new u and the old sum
            us, ss = before + uu, ss + 2 * before + uu
            gu, au = r * gu + gg, r * au + ag
            gs, as_ = gs + gu, as_ + au
        aa = aa + 2 / m * as_ + ss / m**2
    return world.risk(aa)


_RECURSIONS = {"SGD": _sgd, "Spider": _spider, "SVRG": _svrg}
