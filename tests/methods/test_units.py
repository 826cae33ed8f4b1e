"""Theorems' settings do not depend on units: a problem in other units has the same run, in those units.

A loss a·f(x/b) has gradients a/b times as long, and so on: each constant and each field has a dimension, a power of a
and one of b. The table below has them all, so that a field which `for_problem` forgets is found too.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.methods import GD, O2NC, RGDA, SGDA, SVRG, AccMD, DoubleSpider, PrivateDiff, RecursiveSpider, Spider
from gossamer.methods import SVRGpp as SVRGPlus

LOSS, LENGTH = 2.0**-9, 4.0
"""Powers of two: rounding scales with them, so that runs can be compared to the last bits."""
RATE, GRADIENT, CURVATURE = (-1, 2), (1, -1), (1, -2)
NUMBER = (0, 0)
FIELDS = {
    **dict.fromkeys(("learning_rate", "learning_rate_x", "learning_rate_y", "escape_rate"), RATE),
    **dict.fromkeys(("clip", "clip_x", "clip_y", "clip_floor", "tolerance"), GRADIENT),
    **dict.fromkeys(("smoothness", "smoothness_x", "smoothness_y"), CURVATURE),
    **dict.fromkeys(("radius", "longest_step"), (0, 1)),
    "movement": (0, 2),
    "initial_dual": (1, 0),
}
"""The dimension of every field that has one, but for those that a method measures in units of its own."""
OWN = {
    O2NC: {"learning_rate": NUMBER},
    RGDA: {"learning_rate_x": (0, 1)},
    DoubleSpider: {"learning_rate_dual": (1, 0), "smoothness_mixed": (0, -1), "smoothness_dual": (-1, 0)},
    RecursiveSpider: {"smoothness": GRADIENT},
}
CONSTANTS = {
    "smoothness": CURVATURE,
    "strong_convexity": CURVATURE,
    "strong_concavity": CURVATURE,
    "hessian_smoothness": (1, -3),
    "lipschitz": GRADIENT,
    "gap": (1, 0),
    "distance": (0, 1),
    **{name: FIELDS[name] for name in ("clip", "clip_x", "clip_y", "radius")},
}
BUDGET = gs.Budget(4.0, 1e-3)
N, D = 60, 2
ROWS = np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)


def scaled(value, dimension):
    return value if dimension == NUMBER else value * LOSS ** dimension[0] * LENGTH ** dimension[1]


def in_units(loss, units):
    """Return the loss of the same records in other units."""
    a, b = units
    return lambda x, *rest: a * loss(jax.tree.map(lambda leaf: leaf / b, x), *rest)


def bowl(x, z):
    return 0.5 * jnp.sum((x - z) ** 2) / (1 + 0.1 * jnp.sum(z**2))


def game(units):
    a, b = units
    return gs.Minimax(lambda x, y, z: a * (bowl(x / b, z) + 0.3 * jnp.dot(x, y) / b**2 - 0.5 * jnp.sum((y / b) ** 2)))


def ball(units, divergence=None, **options):
    a, _ = units
    return gs.DRO(in_units(bowl, units), divergence, loss_bound=4 * a, smallest_penalty=1e-3 * a, **options)


class Case(NamedTuple):
    method: type
    constants: dict[str, Any]
    problem: Any
    """A function of the units."""
    more: Any = None
    """Further constants, as a function of the units."""


def erm(units):
    return gs.ERM(in_units(bowl, units))


def on_a_ball(units):
    return gs.ERM(in_units(bowl, units), constraint=gs.L2Ball(2.0 * units[1]))


def penalised(units):
    return ball(units, gs.ChiSquare(), penalty=units[0])


def kl_ball(units):
    return ball(units, gs.KLCVaR(0.1), radius=0.3)


GAME = {"smoothness": 1.0, "strong_concavity": 1.0, "clip_x": 1.0, "clip_y": 1.0}
CASES = [
    Case(GD, {"smoothness": 1.0, "strong_convexity": 0.5, "clip": 1.0}, erm),
    Case(GD, {"smoothness": 1.0, "gap": 1.0, "clip": 1.0}, erm),
    Case(SVRG, {"smoothness": 1.0, "strong_convexity": 0.9, "clip": 1.0, "batch_size": 16}, erm),
    Case(SVRG, {"smoothness": 1.0, "strong_convexity": 0.9, "gap": 1.0, "clip": 1.0, "batch_size": 16}, erm),
    Case(SVRGPlus, {"smoothness": 1.0, "distance": 2.0, "clip": 1.0, "batch_size": 16}, erm),
    Case(Spider, {"smoothness": 1.0, "gap": 1.0, "clip": 1.0}, erm),
    Case(AccMD, {"smoothness": 1.0, "clip": 1.0}, on_a_ball, lambda units: {"constraint": gs.L2Ball(2.0 * units[1])}),
    Case(SGDA, GAME, game),
    Case(PrivateDiff, GAME, game),
    Case(PrivateDiff, {**GAME, "gap": 3.0}, game),
    Case(RGDA, {**GAME, "hessian_smoothness": 1.0, "gap": 1.0}, game),
    Case(RGDA, {**GAME, "hessian_smoothness": 1.0, "gap": 1.0, "single_pass": True}, game),
    Case(
        DoubleSpider,
        {"lipschitz": 1.0, "smoothness": 1.0, "gap": 1.0},
        penalised,
        lambda units: {"problem": penalised(units)},
    ),
    Case(
        RecursiveSpider,
        {"lipschitz": 1.0, "smoothness": 1.0, "gap": 1.0},
        kl_ball,
        lambda units: {"problem": kl_ball(units)},
    ),
    Case(O2NC, {"gap": 1.0, "radius": 0.1, "clip": 1.0}, lambda units: gs.BlackBox(in_units(bowl, units))),
]


def settings(case, units):
    """Return the method's settings for a problem in these units."""
    other = units != (1.0, 1.0)
    dimensions = CONSTANTS if other else {}
    constants = {name: scaled(value, dimensions.get(name, NUMBER)) for name, value in case.constants.items()}
    return case.method.for_problem(N, D, BUDGET, **constants, **({} if case.more is None else case.more(units)))


def name_of(case):
    return f"{case.method.__name__}-{'-'.join(case.constants)}"


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_settings_scale_with_the_units(case):
    here, there = settings(case, (1.0, 1.0)), settings(case, (LOSS, LENGTH))
    dimensions = {**FIELDS, **next((own for kind, own in OWN.items() if issubclass(case.method, kind)), {})}
    for field in dataclasses.fields(here):
        mine, theirs = getattr(here, field.name), getattr(there, field.name)
        if isinstance(mine, float):
            assert theirs == pytest.approx(scaled(mine, dimensions.get(field.name, NUMBER)), rel=1e-9), field.name
        elif field.name == "noise":
            assert theirs == pytest.approx(mine)
        else:
            assert theirs == mine, field.name


def test_every_method_with_a_theorem_is_in_the_table():
    assert {case.method for case in CASES} == {kind for kind in gs.methods.ALL if hasattr(kind, "for_problem")}


def test_a_default_that_carries_a_unit_is_found():
    """The smoothness that O2NC once left at 10, whatever the radius."""

    class Old(O2NC):
        @classmethod
        def for_problem(cls, *args, **options):
            return dataclasses.replace(O2NC.for_problem(*args, **options), smoothness=10.0)

    with pytest.raises(AssertionError, match="smoothness"):
        test_settings_scale_with_the_units(CASES[-1]._replace(method=Old))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_the_run_is_the_same_in_other_units(case):
    """The same noise in units of each threshold: after three steps x is LENGTH times as far, up to rounding."""
    ends = []
    for units in ((1.0, 1.0), (LOSS, LENGTH)):
        chosen = settings(case, units)
        short = {"steps": min(chosen.steps, 3)}
        if hasattr(chosen, "inner_steps") and case.method is not O2NC:
            short["inner_steps"] = min(chosen.inner_steps, 4)
        if case.method is RGDA:  # no escape: where that begins is drawn with the bits of an answer for a key
            short["tolerance"] = 1e-6 * chosen.tolerance
        method = dataclasses.replace(chosen, output="last", **short)
        start = jnp.full(D, 0.25 * units[1])
        init = (start, start) if case.problem is game else start
        ends.append(gs.solve(case.problem(units), ROWS, method, BUDGET, init=init, seed=0, progress=False).params)
    moved = jax.tree.leaves(ends[0])[0] - 0.25
    assert 1e-4 < float(jnp.max(jnp.abs(moved))) < math.inf
    for here, there in zip(*map(jax.tree.leaves, ends), strict=True):
        np.testing.assert_allclose(np.asarray(there) / LENGTH, here, rtol=1e-3, atol=1e-5)
