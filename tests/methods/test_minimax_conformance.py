"""What every minimax method must pass, and what is printed must not. A method enters by adding one line to CASES."""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit import games
from testkit.games import GAME, ROWS, SOLO, START, TURNED, game_loss
from testkit.minimax_twins import CrossedOracle, UnnoisedAscent
from testkit.rings import deep_but

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.engine import loop
from gossamer.engine.opening import open_run
from gossamer.methods import SGDA, PrivateDiff
from gossamer.oracle import Oracle


class Case(NamedTuple):
    method: gs.methods.Method
    reference: object
    """The textbook method without noise and with every record sampled: (rows, method) -> (x, y)."""

    @property
    def problem(self):
        return SOLO if self.method.ascent == "public" else GAME


# Thresholds below what ROWS[0] contributes: it fills them, and turned round it moves every sum by two of them.
SMALL = {"learning_rate_x": 0.05, "learning_rate_y": 0.3, "clip_x": 0.5, "clip_y": 0.5, "batch_size": 4}
ROUNDS = {"steps": 4, "smoothness_x": 0.2, "smoothness_y": 0.3, **SMALL}
CASES = {
    "SGDA": Case(SGDA(steps=4, momentum=0.5, **{**SMALL, "batch_size": 2}), games.descent_ascent),
    "SGDA-response": Case(SGDA(steps=4, ascent="best_response", **SMALL), games.descent_ascent),
    "SGDA-public": Case(SGDA(steps=4, ascent="public", **SMALL), games.descent_ascent),
    "PrivateDiff": Case(PrivateDiff(inner_steps=2, **ROUNDS), games.ascent_then_descent),
    "PrivateDiff-response": Case(PrivateDiff(ascent="best_response", **ROUNDS), games.ascent_then_descent),
    "PrivateDiff-public": Case(PrivateDiff(ascent="public", **ROUNDS), games.ascent_then_descent),
    "PrivateDiff-fresh": Case(PrivateDiff(period=1, **ROUNDS), games.ascent_then_descent),
}
AUDITED = {"SGDA": SGDA(steps=2, **{**SMALL, "batch_size": 2}), "PrivateDiff": PrivateDiff(**{**ROUNDS, "steps": 2})}
BUDGET = gs.Budget(2.0, 1e-2)
HOSTILE = {
    "opposite": TURNED,
    "huge": jnp.array([1e6, -1e6, 1e6, 1e6]),
    "beyond float32 squares": jnp.full(4, 1e30),
    "infinite": jnp.array([jnp.inf, 0.0, 1.0, 1.0]),
    "not a number": jnp.array([1.0, jnp.nan, 0.0, 1.0]),
    "removed": None,
}


@pytest.fixture(
    params=deep_but(["SGDA", "SGDA-response", "PrivateDiff", "PrivateDiff-public"], "SGDA", "PrivateDiff"),
    scope="module",
)
def case(request):
    """The ways of asking that differ; the others are put together from the same queries."""
    return CASES[request.param]


@pytest.mark.slow
def test_replay(case):
    """The method sees records through private answers only."""
    report = gs.audit.replay(case.problem, ROWS, 3.0 - ROWS, case.method, BUDGET, init=START)
    assert report, report.differing


@pytest.mark.hostile
@pytest.mark.slow
def test_sensitivity(case):
    """No record moves a clipped sum by more than the bound that the noise was calibrated for; the worst reaches it."""
    reports = {
        name: gs.audit.sensitivity(case.problem, ROWS, 0, record, case.method, BUDGET, init=START)
        for name, record in HOSTILE.items()
    }
    assert all(reports.values()), reports
    assert max(reports["opposite"].worst.values()) > 1.1
    assert max(reports["removed"].worst.values()) > 0.7


@pytest.mark.deep
@pytest.mark.parametrize("neighbors", deep_but(["replace_one", "add_remove"], "replace_one"))
@pytest.mark.parametrize("method", AUDITED.values(), ids=AUDITED)
def test_audit(method, neighbors):
    """The strongest attacker does not beat the certificate, and comes near enough to it to be worth fearing."""
    budget = dataclasses.replace(BUDGET, neighbors=neighbors)
    record = TURNED if neighbors == "replace_one" else None
    # A multiple of the 4096 runs that the auditor makes at a time: the rest would be compiled on its own.
    audit = gs.audit.empirical_epsilon(GAME, ROWS, 0, record, method, budget, init=START, runs=8_192, backend="vmap")
    assert audit, audit
    assert audit.lower_bound > 0.4 * budget.epsilon


def _run(problem, rows, method, budget):
    """Run to the end; return what came out, and how often each query was asked."""
    planned = gs.plan(method, len(rows), budget)
    carry = open_run(planned, problem, rows, init=START, key=new_key(0)).finish()
    return carry.choice.params, {name: int(count) for name, count in carry.ledger.counts.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", deep_but(CASES, "SGDA", "PrivateDiff", "PrivateDiff-public"))
def test_without_noise_it_is_the_textbook_method_and_asks_what_it_scheduled(name):
    """σ = 0, every record sampled, thresholds out of the way: equal to a NumPy loop in float64 to 1e-5.

    The steps are long enough for x to get half-way to the solution, and for y to meet its lower bound in the end, but
    not before the round of the first difference.
    """
    case, rows = CASES[name], games.game_table()
    free = {name: 1e3 for name in ("clip_x", "clip_y", "smoothness_x", "smoothness_y") if hasattr(case.method, name)}
    method = dataclasses.replace(case.method, **free, batch_size=len(rows), learning_rate_x=0.3, learning_rate_y=0.25)
    problem = dataclasses.replace(case.problem, best_response=case.problem.best_response and games.GameResponse(1e3))
    (x, y), asked = _run(problem, jnp.asarray(rows), method, gs.Budget(np.inf, 1e-5))
    assert asked == {query.name: query.count for query in method.schedule(len(rows))}
    expected_x, expected_y = case.reference(rows, method)
    np.testing.assert_allclose(x, expected_x, atol=1e-5)
    np.testing.assert_allclose(y, expected_y, atol=1e-5)
    assert np.linalg.norm(expected_x) > 1.0
    assert expected_y == -0.8 or case.problem is SOLO


def _bytes(params):
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(params)]


@pytest.mark.slow
@pytest.mark.parametrize("name", deep_but(["SGDA", "PrivateDiff-public"], "SGDA"))
def test_one_seed_one_result_one_compilation_and_no_key_twice(name):
    """JAX's own checker follows every key through the compiled loop."""
    method, problem = CASES[name].method, CASES[name].problem
    elsewhere = (START[0] + 0.5, START[1] + 0.5)
    with jax.debug_key_reuse(True):
        first = gs.solve(problem, ROWS, method, BUDGET, init=START, seed=7)
        compiled = loop.advance._cache_size()
        other = gs.solve(problem, ROWS + 1.0, method, BUDGET, init=elsewhere, seed=8)
        again = gs.solve(problem, ROWS, method, BUDGET, init=START, seed=7)
    assert loop.advance._cache_size() == compiled
    assert _bytes(first.params) == _bytes(again.params)
    assert first.history["gradient_norm"].tobytes() == again.history["gradient_norm"].tobytes()
    assert _bytes(first.params) != _bytes(other.params)


# What is printed, and not private


@pytest.mark.deep
@pytest.mark.parametrize("method", [PrivateDiff, UnnoisedAscent])
def test_the_gradient_at_an_unnoised_y(method):
    """One record turns y round, and with it every other record's gradient in x: the sum moves by 20, not by 2.

    The others' s cancel, so that the target's alone decides the sign of y; then all s·u agree.
    """
    others = [[sign, 0.0, 0.0, sign] for sign in (1.0, -1.0)] * 5
    rows = jnp.array([[1.0, 0.0, 0.0, 1.0], *others])
    game = gs.Minimax(game_loss, constraint_y=gs.Box(-1.0, 1.0))
    config = method(steps=1, learning_rate_x=0.1, learning_rate_y=22.0, clip_y=0.5, batch_size=11)
    if method is UnnoisedAscent:
        assert not gs.audit.replay(game, rows, -rows, config, BUDGET, init=START, backend="vmap")
    audit = gs.audit.empirical_epsilon(
        game,
        rows,
        0,
        jnp.array([1.0, 0.0, 0.0, -1.0]),
        config,
        BUDGET,
        init=START,
        runs=2_048,
        backend="vmap",
        score=lambda params, answers: answers["gradient"][0][0, 0],
    )
    assert bool(audit) == (method is PrivateDiff), audit


@pytest.mark.hostile
@pytest.mark.slow
@pytest.mark.parametrize("oracle", [Oracle, CrossedOracle])
def test_a_difference_across_different_records(oracle):
    """When y changes its sign, so does the gradient: the target's two terms add up, and the sum moves by 4."""
    rows = jnp.zeros((3, 4)).at[0].set(jnp.array([1.0, 0.0, 0.0, 1.0]))
    game = gs.Minimax(game_loss, constraint_y=gs.Box(-1.0, 1.0))
    method = PrivateDiff(
        steps=12, period=12, learning_rate_x=0.01, learning_rate_y=6.0, clip_y=0.5, smoothness_y=0.1, batch_size=3
    )
    turned = jnp.array([1.0, 0.0, 0.0, -1.0])
    report = gs.audit.sensitivity(game, rows, 0, turned, method, BUDGET, init=START, oracle=oracle, backend="vmap")
    assert bool(report) == (oracle is Oracle)
    assert math.isclose(report.worst["difference"], 2.0 if oracle is Oracle else 4.0, rel_tol=1e-3)
