"""Bounds by bisection: what a record can do to a count, exact without noise, and columns made to break it."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.engine import bounds
from gossamer.engine.bounds import BOUNDS, Cells, bounds_stage, check_size, found_bounds, off_scale, on_scale
from gossamer.engine.stages import Posed, Stage, plan_stages, solve_stages
from gossamer.privacy.stages import TRAINING

N = 4000
RNG = np.random.default_rng(0)
COLUMNS = {
    "usual": RNG.normal(40, 10, N),
    "one value": np.full(N, 7.0),
    "two atoms": np.where(np.arange(N) % 2, -3.0, 100.0),
    "huge": np.full(N, 1e300),
    "negative": -RNG.exponential(100, N),
    "unique": np.arange(N) + 0.5,
    "all missing": np.full(N, np.nan),
    "half missing": np.where(np.arange(N) % 2, np.nan, RNG.normal(40, 10, N)),
    "infinite": np.where(np.arange(N) % 2, np.inf, -np.inf),
}
MEAN = gs.methods.GD(steps=1)


def cells_of(columns, texts=()):
    numbers = np.stack(columns, axis=1)
    state = np.where(np.isnan(numbers), 2, 0)
    state[:, list(texts)] = 1
    return Cells(on_scale(numbers), state.astype(np.int8))


def search(cells, budget, seed=0):
    """Buy the bounds of all columns; the training asks for nothing that matters."""
    noise = [0.0]
    idle = Posed(gs.ERM(_idle), cells.place, jnp.zeros(1), MEAN)
    stages = [bounds_stage(cells, lambda: noise[0]), Stage(TRAINING, MEAN, 0.95, lambda answers: idle)]
    noise[0] = plan_stages(stages, len(cells.place), budget).schedule[BOUNDS].noise_multiplier
    outcome = solve_stages(stages, len(cells.place), budget, seed=seed, progress=False)
    return found_bounds(outcome.answers[BOUNDS], noise[0], len(cells.place)), outcome.result.certificate


def _idle(w, place):
    return 0.0 * w[0] * place[0]


@pytest.fixture(scope="module")
def exact():
    texts = [np.zeros(N), np.zeros(N)]
    cells = cells_of([*COLUMNS.values(), *texts], texts=(len(COLUMNS), len(COLUMNS) + 1))
    return dict(zip([*COLUMNS, "text", "another"], search(cells, gs.Budget(math.inf, 1e-5))[0], strict=True))


@pytest.mark.slow
def test_without_noise_bounds_are_the_first_and_last_percentiles(exact):
    for name in ("usual", "negative", "unique"):
        assert_percentiles(COLUMNS[name], *exact[name])
    known = COLUMNS["half missing"][~np.isnan(COLUMNS["half missing"])]
    assert_percentiles(known, *exact["half missing"])


def assert_percentiles(values, low, high):
    """The cells as they are leave out 1 % at most, up to rounding; 2 % further in it is more."""
    for bound, outside in ((low, np.less), (high, np.greater)):
        further_out = 1 if outside(bound + 1, bound) else -1
        wider, narrower = (bound + further_out * step * abs(bound) for step in (1e-3, -0.02))
        assert np.mean(outside(values, wider)) <= 0.0101 <= np.mean(outside(values, narrower)) + 2e-4


@pytest.mark.slow
def test_columns_that_are_made_to_break_it_have_finite_bounds(exact):
    assert exact["one value"] == pytest.approx((7, 7), rel=0.01) and exact["one value"][0] < 7 < exact["one value"][1]
    assert exact["two atoms"] == pytest.approx((-3, 100), rel=0.01)
    assert exact["huge"] == pytest.approx((1.8e16, 1.8e16), rel=0.01)
    assert exact["infinite"] == pytest.approx((-1.8e16, 1.8e16), rel=0.01)
    assert exact["all missing"] == "rare"
    assert exact["text"] == exact["another"] == "text"
    assert all(low < high for low, high in (each for each in exact.values() if isinstance(each, tuple)))


@pytest.mark.deep
def test_with_noise_bounds_are_near_quantiles_and_the_certificate_holds():
    """The level follows the noise: about 3 deviations of a count outside, here 3·σ·√(c/2)/n = 2.3 %.

    The lower bound's cell is found to within 5 deviations: between the quantiles of 0 and 7 %.
    """
    columns = [RNG.normal(40, 10, 40_000), RNG.exponential(1000, 40_000)]
    found, certificate = search(cells_of(columns), gs.Budget(1.0, 1e-6))
    assert certificate.verify() and certificate.leaks == ()
    assert [(each.name, each.share) for each in certificate.purchases] == [(BOUNDS, 0.05)]
    for column, (low, high) in zip(columns, found, strict=True):
        outside = [np.mean(column < low), np.mean(column > high)]
        assert min(outside) > 0.0 and max(outside) < 0.07


HOSTILE = [
    (np.array(place, np.float32), np.array(state, np.int8))
    for place in ([-64.0] * 3, [64.0] * 3, [0.0] * 3, [np.nan] * 3, [np.inf, -np.inf, 1e30])
    for state in ([0] * 3, [1] * 3, [2] * 3, [0, 1, 2])
]


@pytest.mark.parametrize("first", [True, False])
def test_a_record_moves_a_count_by_no_more_than_the_clip_pays_for(first):
    """Every contribution has norm √(c/2) at most, and 2√(c/2) between two is attained: nothing is lost."""
    sides = jax.vmap(bounds._Sides(jnp.zeros((2, 3)), jnp.ones(3), jnp.bool_(first)))
    h = np.asarray(sides(tuple(jnp.stack(part) for part in zip(*HOSTILE, strict=True)))).reshape(len(HOSTILE), -1)
    norms = np.linalg.norm(h, axis=1)
    np.testing.assert_allclose(norms, math.sqrt(3 / 2), rtol=1e-6)
    apart = np.linalg.norm(h[:, None] - h[None], axis=-1)
    assert apart.max() == pytest.approx(2 * math.sqrt(3 / 2), rel=1e-6)


def test_a_presence_count_beside_plus_and_minus_would_cost():
    """The twin: a missing cell counted by a component of 1 that a present one has too is longer than the clip."""
    present = np.array([0.5, 0.5, 1.0])
    assert np.linalg.norm(present) > 1.7 * math.sqrt(1 / 2)


def test_columns_of_text_are_no_longer_asked_about():
    sides = bounds._Sides(jnp.zeros((2, 2)), jnp.array([1.0, 0.0]), jnp.bool_(False))
    assert np.asarray(sides((jnp.ones(2), jnp.array([0, 1])))).tolist() == [[0.5, 0], [0.5, 0], [0, 0], [0, 0]]


def test_the_scale_is_public_monotone_and_comes_back():
    numbers = np.array([-1e300, -1e16, -5.0, -1e-3, 0.0, 1e-3, 5.0, 1e16, 1e300, np.inf])
    scaled = on_scale(numbers)
    assert (np.diff(scaled) >= 0).all() and scaled.dtype == np.float32
    np.testing.assert_allclose(off_scale(scaled)[2:7], numbers[2:7], rtol=2e-5)


def test_a_table_that_is_too_small_is_refused_with_the_size_that_would_do():
    """σ = 2·√(R/s)/μ, and 3·σ·√(c/2) ≤ n/10: at ε = 1, δ = 1e-6, c = 6, R = 14, s = 5 % about 7 350 records."""
    empty = Cells(*np.zeros((2, 100, 6)))
    stages = [bounds_stage(empty, lambda: 0.0), Stage(TRAINING, MEAN, 0.95, lambda answers: None)]
    noise = plan_stages(stages, 100, gs.Budget(1.0, 1e-6)).schedule[BOUNDS].noise_multiplier
    check_size(7400, 6, noise)
    with pytest.raises(ValueError, match=r"n = 7300 records are too few to buy .* 6 columns.* 73\d\d records"):
        check_size(7300, 6, noise)
