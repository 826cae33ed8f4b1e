"""SGDA and PrivateDiff: splits of the noise, schedules, settings from the theorems, errors, the printed mistakes."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from testkit.games import GAME, ROWS, SOLO, START, game_loss

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.engine import loop
from gossamer.engine.opening import Lane, set_up
from gossamer.methods import GD, SGDA, PrivateDiff
from gossamer.methods.sgda import noise_split
from gossamer.oracle.clipping import clip_and_sum

BUDGET = gs.Budget(2.0, 1e-2)


# How the noise is split


def test_the_joint_weights_have_the_least_total_noise():
    """Against a fine grid over 1/w_x² + 1/w_y² = 1; equal weights are far from it (the control)."""
    blocks, clips = (jnp.zeros((30, 40)), jnp.zeros(3)), (0.7, 2.0)
    a = np.array([1200 * 0.7**2, 3 * 2.0**2])
    weights = np.array(noise_split(blocks, clips))
    assert math.isclose(np.sum(weights**-2), 1.0, rel_tol=1e-12)
    total = np.sum(a * weights**2)
    assert math.isclose(total, np.sum(np.sqrt(a)) ** 2, rel_tol=1e-12)
    share = np.linspace(1e-4, 1 - 1e-4, 100_001)
    grid = a[0] / share + a[1] / (1 - share)
    assert total <= grid.min() * (1 + 1e-9)
    assert grid.min() <= total * (1 + 1e-6)
    assert np.sum(a * 2) > 1.5 * total


@pytest.mark.deep
def test_each_block_gets_its_own_share_of_the_noise():
    """Records of zeros answer pure noise: of deviation σ·w_j·C_j/n in block j.

    N runs of d_j coordinates know a deviation to one part in √(2·N·d_j): 0.8 % for y, and 5 SE are allowed.
    """
    runs, clips = 8_000, (0.5, 2.0)
    method = SGDA(steps=1, learning_rate_x=1.0, learning_rate_y=1.0, clip_x=0.5, clip_y=2.0, batch_size=4)
    planned = gs.plan(method, 4, BUDGET)
    setup = set_up(planned, gs.Minimax(lambda x, y, z: jnp.dot(x, z[:2]) + y * z[3]))

    def one_run(key):
        lane = Lane(setup, planned.noise(), START, key)
        return lane.finish(lane.oracle(jnp.zeros((4, 4)))).choice.params

    answers = jax.jit(jax.vmap(one_run))(jax.random.split(new_key(0), runs))
    sigma = planned.schedule["gradient"].noise_multiplier
    deviations = [clip * w * sigma / 4 for clip, w in zip(clips, noise_split(START, clips), strict=True)]
    for block, deviation, other in zip(answers, deviations, deviations[::-1], strict=True):
        error = 5 / math.sqrt(2 * block.size)
        measured = float(jnp.sqrt(jnp.mean(block**2)))
        assert abs(measured / deviation - 1) < error
        assert abs(measured / other - 1) > error


def test_the_automatic_split_minimises_the_noise_that_reaches_x():
    """Moving the noise of any one query by 10 % either way, at equal leading cost Σ c q²/σ², makes it worse."""
    method = PrivateDiff(steps=30, period=3, inner_steps=2, batch_size=20, difference_batch_size=50, clip_y=0.3)
    queries = method.schedule(1000).queries
    assert [query.name for query in queries] == ["ascent", "gradient", "difference"]

    def harm(sigma):
        cost = sum(q.count * q.sampling.rate**2 / s**2 for q, s in zip(queries, sigma, strict=True))
        return cost * sum(q.weight * s**2 for q, s in zip(queries, sigma, strict=True))

    best = np.array([query.automatic_noise() for query in queries])
    for k in range(3):
        for factor in (0.9, 1.1):
            other = best.copy()
            other[k] *= factor
            assert harm(other) > harm(best)


def test_a_low_dimensional_y_gets_more_noise():
    """With y 10⁴ times smaller than x its noise is (10⁴)^¼ = 10 times as much, relative to that of x's queries."""
    alike, small = (np.array(PrivateDiff(dimension_ratio=r).schedule(500).ratios()) for r in (1.0, 1e-4))
    np.testing.assert_allclose(small / small[1], alike / alike[1] * [10.0, 1.0, 1.0], rtol=1e-6)


# What is scheduled


def _counts(method, n=100):
    return {query.name: (query.count, query.sampling.rate) for query in method.schedule(n)}


def test_schedules():
    assert _counts(SGDA(steps=7, batch_size=10)) == {"gradient": (7, 0.1)}
    rounds = PrivateDiff(steps=7, period=3, inner_steps=2, batch_size=10, difference_batch_size=50)
    assert _counts(rounds) == {"ascent": (14, 0.1), "gradient": (3, 0.1), "difference": (4, 0.5)}
    assert _counts(dataclasses.replace(rounds, period=1)) == {"ascent": (14, 0.1), "gradient": (7, 0.1)}
    public = dataclasses.replace(rounds, ascent="public")
    assert _counts(public) == {"gradient": (3, 0.1), "difference": (4, 0.5)}
    once = PrivateDiff(steps=7, ascent="best_response", batch_size=10)
    assert _counts(once) == {"ascent": (7, 0.1), "gradient": (4, 0.1), "difference": (3, 0.1)}


@pytest.mark.slow
def test_explicit_noise_ratios():
    method = PrivateDiff(steps=4, batch_size=2, noise=(3.0, 1.0, 2.0))
    noise = [query.noise_multiplier for query in gs.plan(method, 4, BUDGET).schedule]
    np.testing.assert_allclose(np.array(noise) / noise[1], [3.0, 1.0, 2.0], rtol=1e-6)
    with pytest.raises(ValueError, match="one number for each of the queries ascent, gradient"):
        PrivateDiff(steps=4, batch_size=2, period=1, noise=(3.0, 1.0, 2.0)).schedule(4)


class Heard:
    """Stands in for `ask` outside of compiled code: answers zero and remembers the thresholds."""

    key = jax.random.key(0)

    def __init__(self):
        self.clips = {}

    def __call__(self, name, h, clip, weights=()):
        self.clips.setdefault(name, []).append(float(clip))
        return jax.tree.map(jnp.zeros_like, h(ROWS[0]))

    def cond(self, predicate, if_true, if_false):
        return (if_true if predicate else if_false)(self)

    def loop(self, count, body, carry):
        for i in range(count):
            carry = body(self, i, carry)
        return carry


@pytest.mark.parametrize(
    ("problem", "clip_x", "expected"),
    [
        (GAME, 1.0, 0.1 * 0.5 + 0.3 * 0.4 + 0.01),
        (GAME, 0.05, 2 * 0.05),
        (SOLO, 1.0, 0.1 * 0.5 + 0.01),
    ],
    ids=["steps in x and y", "never above two thresholds", "a y that records do not meet"],
)
def test_the_threshold_of_a_difference(problem, clip_x, expected):
    """x has moved by (0.3, −0.4), of length 0.5; y is moved by 0.4 in this round, by a public term of slope 1."""
    ascent = "gradient" if problem is GAME else "public"
    method = PrivateDiff(
        learning_rate_y=0.4, clip_x=clip_x, smoothness_x=0.1, smoothness_y=0.3, clip_floor=0.01, ascent=ascent
    )
    sloped = dataclasses.replace(problem, public=lambda x, y, key: y)
    state = method.init(sloped, (jnp.array([0.3, -0.4]), jnp.zeros(())))._replace(before=jnp.zeros(2))
    ask = Heard()
    after, report = method.step(sloped, ask, state, jnp.int32(1))
    assert ask.clips["difference"] == [pytest.approx(expected)]
    assert ask.clips.get("ascent") == ([1.0] if problem is GAME else None)
    assert "gradient" not in ask.clips
    assert report.at[1] == after.y == jnp.float32(0.4)


# Settings from the theorems


@pytest.mark.parametrize("method", [SGDA, PrivateDiff])
def test_impossible_constants_are_refused(method):
    with pytest.raises(ValueError, match=r"strong_concavity = 2\.0 must be above 0 and at most smoothness = 1\.0"):
        method.for_problem(100, 1, BUDGET, smoothness=1.0, strong_concavity=2.0)
    with pytest.raises(ValueError, match="epsilon = inf"):
        method.for_problem(100, 1, gs.Budget(math.inf, 1e-5), smoothness=1.0, strong_concavity=1.0)


# Learning rates, output rules


@pytest.mark.slow
def test_learning_rates_may_be_functions():
    """SGDA's of the step, PrivateDiff's for y of the step within a round: 1/(i + 1) of a constant slope adds up."""
    slope = gs.Minimax(lambda x, y, z: y * z[0] + 0.0 * x[0])
    exact = {"clip_x": 9.0, "clip_y": 9.0, "batch_size": 4}
    ones, free = jnp.ones((4, 1)), gs.Budget(math.inf, 1e-5)
    schedule = optax.linear_schedule(1.0, 0.0, 2)
    method = SGDA(steps=2, learning_rate_x=schedule, learning_rate_y=schedule, **exact)
    _, y = gs.solve(slope, ones, method, free, init=START, seed=0).params
    np.testing.assert_allclose(y, 1.5, rtol=1e-6)
    method = PrivateDiff(steps=2, inner_steps=3, learning_rate_y=lambda i: 1 / (i + 1.0), **exact)
    _, y = gs.solve(slope, ones, method, free, init=START, seed=0).params
    np.testing.assert_allclose(y, 2 * (1 + 1 / 2 + 1 / 3), rtol=1e-6)


@pytest.mark.slow
def test_the_random_output_is_where_a_gradient_was_estimated():
    """For PrivateDiff that is (x_r, y_{r+1}); with one round, which a longer period does not hurt, it is (x_0, y_1)."""
    method = PrivateDiff(steps=1, period=5, batch_size=4, output="random")
    x, y = gs.solve(GAME, ROWS, method, gs.Budget(math.inf, 1e-5), init=START, seed=0).params
    np.testing.assert_array_equal(x, START[0])
    assert y != 0


# What is refused, with the remedy


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (SGDA, dict(momentum=1.0), "momentum = 1.0 must be a finite number of at least 0 and below 1"),
        (SGDA, dict(ascent="newton"), "ascent = 'newton' must be one of 'gradient', 'best_response', 'public'"),
        (SGDA, dict(clip_y=0.0), "clip_y = 0.0"),
        (PrivateDiff, dict(ascent="newton"), "ascent = 'newton' must be one of"),
        (PrivateDiff, dict(ascent="best_response", inner_steps=2), "inner_steps = 2 must be 1 for a best response"),
        (PrivateDiff, dict(dimension_ratio=0.0), "dimension_ratio = 0.0 must be a finite number above 0"),
        (PrivateDiff, dict(smoothness_y=-1.0), "smoothness_y = -1.0"),
        (PrivateDiff, dict(clip_floor=0.0), "clip_floor = 0.0"),
        (PrivateDiff, dict(period=0), "period = 0"),
    ],
)
def test_bad_settings(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(**options)


@pytest.mark.parametrize("kind", [SGDA, PrivateDiff])
@pytest.mark.parametrize(
    ("problem", "ascent", "message"),
    [
        (gs.Minimax(game_loss), "best_response", "has no best_response. Use ascent = 'gradient'"),
        (GAME, "public", "records meet y.* Use ascent = 'gradient' or ascent = 'best_response'"),
        (SOLO, "gradient", "records do not meet y.* Use ascent = 'public'"),
    ],
)
def test_an_ascent_that_the_problem_does_not_offer(kind, problem, ascent, message, monkeypatch):
    monkeypatch.setattr(loop, "advance", None)
    with pytest.raises(ValueError, match=message):
        gs.solve(problem, ROWS, kind(steps=2, batch_size=2, ascent=ascent), BUDGET, init=START, seed=0)


def test_methods_and_problems_must_match():
    with pytest.raises(TypeError, match=r"GD cannot solve a problem of type Minimax. These can: .*SGDA, PrivateDiff"):
        gs.solve(GAME, ROWS, GD(steps=2), BUDGET, init=START)
    with pytest.raises(TypeError, match=r"SGDA cannot solve a problem of type ERM. These can: GD"):
        gs.solve(gs.ERM(lambda x, z: x @ z[:2]), ROWS, SGDA(batch_size=2), BUDGET, init=START[0])


def test_batches_larger_than_the_table():
    with pytest.raises(ValueError, match="batch_size = 5 exceeds n = 4"):
        PrivateDiff(batch_size=2, difference_batch_size=5).schedule(4)


# The price of clipping


@pytest.mark.slow
def test_no_query_falls_back_to_one_gradient_per_record():
    """All matrices of a network are clipped by their factors: for both gradients, for one, and for a difference."""
    model = eqx.nn.MLP(20, 1, 30, 2, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_inexact_array)
    problem = gs.objectives.auc(lambda p, features: jax.nn.sigmoid(eqx.combine(p, static)(features)[0]), 0.3)
    x, y = gs.objectives.auc_init(problem, params)
    record = (jnp.zeros(20), jnp.zeros(()))
    in_x, point = problem.in_x(x, y)
    for loss, at in ((problem.record_loss, (x, y)), (in_x, point)):
        strategies = {
            row.leaf: row.strategy for row in gs.explain_clipping(loss, at, record).rows if len(row.shape) == 2
        }
        assert len(strategies) == 3
        assert set(strategies.values()) == {"factors"}

    batch = (jax.random.normal(jax.random.key(1), (8, 20)), jnp.arange(8) % 2)
    moved = jax.tree.map(lambda leaf: leaf + 0.1, point)
    h = gs.Difference(in_x, point, moved)
    text = str(jax.make_jaxpr(lambda: clip_and_sum(h, batch, jnp.ones(8, bool), 0.1))())
    assert "f32[8,30,20]" not in text
    control = str(jax.make_jaxpr(lambda: clip_and_sum(h, batch, jnp.ones(8, bool), 0.1, "vmap"))())
    assert "f32[8,30,20]" in control
