"""RGDA: replay, sensitivity and audit; the textbook method without noise; its state machine; its settings."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit import games
from testkit.games import GAME, ROWS, SOLO, START, TURNED
from testkit.rings import deep_but
from testkit.twins import BatchMeanOracle

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.engine.opening import open_run
from gossamer.methods import RGDA
from gossamer.methods.escapes import DESCENDING, ESCAPING, FINISHED, ball

BUDGET = gs.Budget(2.0, 1e-2)
# Thresholds below what ROWS[0] contributes; a tolerance at which noise makes some steps escapes and others not.
METHOD = RGDA(
    steps=4,
    inner_steps=2,
    period=2,
    learning_rate_x=0.3,
    learning_rate_y=0.3,
    tolerance=1.0,
    movement=0.5,
    escape_steps=2,
    clip_x=0.5,
    clip_y=0.5,
    smoothness_x=0.2,
    smoothness_y=0.2,
    batch_size=2,
)
ONCE = dataclasses.replace(METHOD, steps=1, single_pass=True, refresh_batch_size=2)
PUBLIC = dataclasses.replace(METHOD, ascent="public")
CASES = {"twice": (METHOD, GAME), "once": (ONCE, GAME), "public": (PUBLIC, SOLO)}
HOSTILE = {
    "opposite": TURNED,
    "beyond float32 squares": jnp.full(4, 1e30),
    "not a number": jnp.array([1.0, jnp.nan, 0.0, 1.0]),
    "removed": None,
}


@pytest.mark.deep
@pytest.mark.parametrize("name", CASES)
def test_replay(name):
    """The method sees records through private answers only, and they alone decide when it escapes and ends."""
    method, problem = CASES[name]
    report = gs.audit.replay(problem, ROWS, 3.0 - ROWS, method, BUDGET, init=START, backend="vmap")
    assert report, report.differing


@pytest.mark.hostile
@pytest.mark.deep
@pytest.mark.parametrize("name", ["twice", "public"])
def test_sensitivity(name):
    method, problem = CASES[name]
    reports = {
        # A seed for which the record is in a sample of differences.
        hostile: gs.audit.sensitivity(problem, ROWS, 0, record, method, BUDGET, init=START, seed=1, backend="vmap")
        for hostile, record in HOSTILE.items()
    }
    assert all(reports.values()), reports
    assert reports["opposite"].worst["gradient"] > 1.1
    # Where records do not meet y, a difference is u⟨u, Δx⟩: the same for both.
    assert name == "public" or reports["opposite"].worst["difference"] > 1.1
    assert reports["removed"].worst["gradient"] > 0.7


@pytest.mark.deep
@pytest.mark.hostile
def test_the_printed_clipping_of_a_batch_mean_is_caught():
    """The mean of a few records turns round with one of them: the sum moves by more than two thresholds."""
    options = dict(init=START, oracle=BatchMeanOracle, backend="vmap")
    report = gs.audit.sensitivity(SOLO, ROWS, 0, TURNED, PUBLIC, BUDGET, **options)
    assert not report
    assert report.worst["gradient"] > 3


@pytest.mark.deep
@pytest.mark.parametrize(("method", "neighbors"), [(METHOD, "add_remove"), (ONCE, "replace_one")])
def test_audit(method, neighbors):
    """The strongest attacker does not beat the certificate, and comes near enough to it to be worth fearing."""
    budget = dataclasses.replace(BUDGET, neighbors=neighbors)
    record = TURNED if neighbors == "replace_one" else None
    method = dataclasses.replace(method, steps=min(2, method.steps))
    audit = gs.audit.empirical_epsilon(GAME, ROWS, 0, record, method, budget, init=START, runs=16_384, backend="vmap")
    assert audit, audit
    assert audit.lower_bound > 0.4 * budget.epsilon


def _run(problem, rows, method, budget):
    """Run to the end; return what came out, and how often each query was asked."""
    planned = gs.plan(method, len(rows), budget)
    carry = open_run(planned, problem, rows, init=START, key=new_key(0), backend="vmap").finish()
    return carry, {name: int(count) for name, count in carry.ledger.counts.items()}


def _textbook(rows, method):
    """Normalised descent at the best of K iterates of y, with exact gradients."""
    mean = games._Mean(rows, method.ascent == "public")
    x, y = np.zeros(2), 0.0
    for _ in range(method.steps):
        candidates = [y]
        for _ in range(method.inner_steps - 1):
            y = candidates[-1]
            candidates.append(mean.project(y + method.learning_rate_y * mean.in_y(x, y)))
        mappings = [abs(y - mean.project(y + method.learning_rate_y * mean.in_y(x, y))) for y in candidates]
        y = candidates[int(np.argmin(mappings))]
        g = mean.in_x(x, y)
        x = x - method.learning_rate_x * g / np.linalg.norm(g)
    return x, y


@pytest.mark.slow
@pytest.mark.parametrize("name", deep_but(["twice", "public"], "twice"))
def test_without_noise_it_is_the_textbook_method_and_asks_what_it_scheduled(name):
    """σ = 0, every record sampled, thresholds out of the way: equal to a NumPy loop in float64 to 1e-5.

    Two refreshes and two steps that carry the estimate: adding the last change of x at a refresh, as printed, is off.
    """
    method, problem = CASES[name]
    rows = games.game_table()
    free = {name: 1e3 for name in ("clip_x", "clip_y", "smoothness_x", "smoothness_y")}
    method = dataclasses.replace(method, **free, inner_steps=3, batch_size=len(rows), tolerance=1e-3)
    carry, asked = _run(problem, jnp.asarray(rows), method, gs.Budget(np.inf, 1e-5))
    assert asked == {"gradient": 2, "difference": 10 if name == "twice" else 2}
    assert asked == {query.name: query.count for query in method.schedule(len(rows))}
    for ours, expected in zip(carry.choice.params, _textbook(rows, method), strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-5)


@pytest.mark.deep
def test_a_finished_run_asks_nothing_more():
    """A tolerance that everything meets and movement that nothing makes: one step begins an escape, two end it."""
    method = dataclasses.replace(METHOD, tolerance=1e3, movement=1e3, steps=6)
    carry, asked = _run(GAME, ROWS, method, BUDGET)
    assert int(carry.state.escape.phase) == FINISHED
    assert asked == {"gradient": 2, "difference": 4}
    np.testing.assert_array_equal(carry.choice.params[0], START[0])
    assert np.array_equal(np.isnan(carry.history["gradient_norm"]), [False] * 3 + [True] * 3)


@pytest.mark.deep
def test_one_seed_gives_one_result_and_uses_no_key_twice():
    """JAX's own checker follows every key through the compiled loop, that of the perturbation among them."""
    with jax.debug_key_reuse(True):
        first, again, other = (
            gs.solve(GAME, ROWS, METHOD, BUDGET, init=START, seed=seed, progress=False, backend="vmap")
            for seed in (7, 7, 8)
        )
    np.testing.assert_array_equal(first.params[0], again.params[0])
    assert first.history["gradient_norm"][0] == again.history["gradient_norm"][0] != other.history["gradient_norm"][0]
    assert [query.count for query in first.certificate.schedule] == [2, 6]


class _Plane:
    """A problem without constraints, for the state machine alone."""

    @staticmethod
    def project_x(x):
        return x


def _drive(method, vectors):
    """Feed gradients to the state machine; return its states."""
    state = method.init(GAME, (jnp.zeros(2), jnp.zeros(())))
    states = []
    for t, v in enumerate(vectors):
        state = method._move(_Plane, state, jnp.float32(t), state.estimate, jnp.array(v), jnp.int32(t))
        states.append(state)
    return states


def test_the_state_machine():
    """Lines 4 to 21 of Algorithm 2 by hand: η = 0.5, α = 1, η_H = 0.1, D̄ = 0.02, r = 0.3, t_thres = 3."""
    method = dataclasses.replace(
        METHOD, learning_rate_x=0.5, tolerance=1.0, escape_rate=0.1, movement=0.02, radius=0.3, escape_steps=3
    )
    down, begin, stay, out = _drive(method, [[3.0, 4.0], [0.6, 0.0], [1.0, 0.0], [0.0, 2.0]])
    np.testing.assert_allclose(down.x, [-0.3, -0.4], rtol=1e-6)  # a step of length η along −v
    assert (int(down.escape.phase), int(begin.escape.phase), int(stay.escape.phase), int(out.escape.phase)) == (
        DESCENDING,
        ESCAPING,
        ESCAPING,
        DESCENDING,
    )
    assert 0 < np.linalg.norm(begin.x - down.x) <= 0.3
    np.testing.assert_array_equal(begin.escape.anchor[0], down.x)
    np.testing.assert_allclose(stay.x, begin.x - 0.1 * np.array([1.0, 0.0]), rtol=1e-6)  # D = 0.01 ≤ 1·0.02
    # D = 0.01·(1 + 4) = 0.05 > 2·0.02, so the step shrinks to √(2·0.02/5).
    np.testing.assert_allclose(out.x, stay.x - math.sqrt(0.04 / 5) * np.array([0.0, 2.0]), rtol=1e-6)
    np.testing.assert_array_equal(method.params(stay)[0], begin.escape.anchor[0])
    np.testing.assert_array_equal(method.params(out)[0], out.x)
    *_, last = _drive(method, [[0.6, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    assert int(last.escape.phase) == FINISHED
    np.testing.assert_array_equal(method.params(last)[0], np.zeros(2))


@pytest.mark.slow
def test_the_perturbation_is_uniform_in_the_ball():
    """In d dimensions (‖ξ‖/r)^d is uniform on [0, 1] and E ξξᵀ = r²/(d + 2)·I; one bit of v makes another draw."""
    d, radius, draws = 3, 2.0, 4_000
    estimates = jax.random.normal(jax.random.key(3), (draws, d))
    found = np.asarray(jax.vmap(lambda v: ball(radius, v, jnp.int32(5)))(estimates))
    volume = (np.linalg.norm(found, axis=1) / radius) ** d
    assert volume.max() <= 1 + 1e-5
    # Standard errors: 1/√(12·4000) = 0.0046 of a mean of uniforms; at most r²/√4000 = 0.063 of a second moment.
    assert abs(volume.mean() - 0.5) < 5 * 0.0046
    np.testing.assert_allclose(found.T @ found / draws, radius**2 / (d + 2) * np.eye(d), atol=5 * 0.063 / 2)
    same = ball(radius, estimates[0], jnp.int32(5))
    np.testing.assert_array_equal(same, found[0])
    nudged = jnp.nextafter(estimates[0], jnp.float32(9.0))
    assert not np.allclose(ball(radius, nudged, jnp.int32(5)), same, atol=1e-3)


def test_schedules():
    method = RGDA(steps=30, period=7, inner_steps=4, batch_size=10, refresh_batch_size=50)
    gradient, difference = method.schedule(100)
    assert (gradient.count, gradient.sampling) == (5, gs.Poisson(0.5))
    assert (difference.count, difference.sampling) == (30 * 4 - 5, gs.Poisson(0.1))
    (only,) = dataclasses.replace(method, period=1, ascent="public").schedule(100)
    assert (only.name, only.count) == ("gradient", 30)
    assert dataclasses.replace(method, noise=(1.0, 3.0)).schedule(100).ratios() == (1.0, 3.0)


@pytest.mark.deep
def test_a_single_pass_uses_every_record_once_and_costs_one_query():
    """29 + 3·23 = 98 of 100 rows."""
    method = RGDA(steps=2, period=2, inner_steps=2, batch_size=23, refresh_batch_size=29, single_pass=True)
    budget = gs.Budget(1.0, 1e-4)
    planned = gs.plan(method, 100, budget)
    assert [query.sampling.rows for query in planned.schedule] == [29, 23]
    noise = {query.noise_multiplier for query in planned.schedule}
    one = gs.plan(gs.methods.GD(steps=1), 100, budget).schedule["gradient"].noise_multiplier
    assert len(noise) == 1
    assert math.isclose(noise.pop(), one, rel_tol=1e-3)
    with pytest.raises(gs.AccountingError, match="need 150 rows but there are n = 100"):
        gs.plan(dataclasses.replace(method, steps=3), 100, budget)
    with pytest.raises(gs.AccountingError, match="add_remove"):
        gs.plan(method, 100, gs.Budget(1.0, 1e-4, "add_remove"))


def test_settings_of_theorem_1():
    """s = 1000: T = (2·4/1)^(1/3)·10⁴ = 2·10⁴, q = s²/T = 50, e = 8^(1/3)·10⁻² = 0.02, κ = 2, L = 6, ι = ln(8/0.05)."""
    budget = gs.Budget(1.0, math.exp(-1))
    method = RGDA.for_problem(1_000, 1, budget, smoothness=2.0, strong_concavity=1.0, hessian_smoothness=3.0, gap=4.0)
    iota = math.log(160)
    alpha = 2 * iota * 0.02
    curvature = math.sqrt(3 * alpha)
    assert (method.steps, method.period, method.inner_steps, method.refresh_batch_size) == (20_000, 50, 3, None)
    assert method.batch_size == 50
    assert math.isclose(method.tolerance, alpha)
    assert math.isclose(method.learning_rate_x, alpha / 6)
    assert method.learning_rate_y == 0.5
    assert method.escape_rate == 1 / 12
    assert method.escape_steps == math.ceil(24 * iota / curvature)
    assert math.isclose(method.radius, curvature / 6)
    # What the lemmas need: the growth reaches from the missed slice to R, and noise alone does not.
    reach = curvature / 3
    missed = 0.05 * method.radius
    assert (1 + method.escape_rate * curvature) ** method.escape_steps * missed > 2 * reach
    assert method.escape_rate * 0.02 <= math.sqrt(method.movement) * (1 + 1 / method.escape_steps)
    with pytest.raises(ValueError, match="gap = 0 must be a finite number above 0"):
        RGDA.for_problem(1_000, 1, budget, smoothness=2.0, strong_concavity=1.0, hessian_smoothness=3.0, gap=0)


def test_bad_settings():
    for options, message in (
        ({"inner_steps": 1}, "inner_steps = 1 must be a whole number of at least 2"),
        ({"tolerance": 0.0}, r"tolerance = 0\.0 must be a finite number above 0"),
        ({"movement": math.inf}, "movement = inf must be"),
        ({"escape_steps": 0}, "escape_steps = 0 must be a whole number"),
        ({"single_pass": True}, "single_pass needs a refresh_batch_size"),
        ({"ascent": "sideways"}, "ascent = 'sideways' must be one of"),
    ):
        with pytest.raises(ValueError, match=message):
            RGDA(**options)
    with pytest.raises(ValueError, match="no inner iterates to select from"):
        gs.solve(GAME, ROWS, RGDA(ascent="best_response"), BUDGET, init=START)
    with pytest.raises(TypeError, match="RGDA cannot solve a problem of type ERM"):
        gs.solve(gs.objectives.sensing(), ROWS, RGDA(), BUDGET, init=START)


@pytest.mark.parametrize(("epsilon", "slope"), [(1e3, -1 / 3), (1e-2, -3 / 7)])
def test_a_single_pass_fits_the_table(epsilon, slope):
    """Theorem 2's n^(−1/3) where sampling decides, and n^(−3/7) where noise does; no row more than there are."""
    tolerances = []
    for n in (10**6, 10**9):
        constants = {"smoothness": 1.0, "strong_concavity": 0.5, "hessian_smoothness": 1.0, "gap": 1.0}
        method = RGDA.for_problem(n, 5, gs.Budget(epsilon, 1e-6), **constants, single_pass=True)
        rows = sum(query.count * query.sampling.reserved for query in method.schedule(n))
        assert 0.5 * n < rows <= n
        tolerances.append(method.tolerance)
    assert math.log(tolerances[1] / tolerances[0]) / math.log(1e3) == pytest.approx(slope, abs=0.02)


def test_a_penalty_is_refused():
    problem = gs.Minimax(lambda x, y, z: x * y, regularizer=gs.L1(0.1))
    with pytest.raises(ValueError, match=r"regularizer = L1.*RGDA takes none.*Use SGDA"):
        RGDA().check_problem(problem)
