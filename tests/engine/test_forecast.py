"""What is foretold about a run, against what a run does."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.engine import forecast
from gossamer.oracle.correlation import strategy_matrix
from gossamer.privacy import accounting


def flat_loss(params, record):
    return 0.0 * jnp.sum(params) * record


@pytest.mark.slow
def test_noise_to_signal_is_the_norm_of_an_answer_without_signal():
    n, d, clip = 50, 2_000, 0.7
    method, budget = gs.methods.GD(steps=1, learning_rate=1.0, clip=clip), gs.Budget(1.0, 1e-4)
    answer = gs.solve(gs.ERM(flat_loss), jnp.ones(n), method, budget, init=jnp.zeros(d), seed=0, progress=False).params
    (query,) = gs.plan(method, n, budget).schedule
    foretold = forecast.noise_to_signal(query, n, d)
    # The norm of d normals has a relative deviation of 1/√(2d) = 1.6 %; this is 5 of them.
    assert float(jnp.linalg.norm(answer)) / clip == pytest.approx(foretold, rel=5 / math.sqrt(2 * d))


def test_the_dual_variable_is_one_number_and_correlated_noise_is_counted():
    dual = gs.Query("of the other player", 10, noise_multiplier=3.0, dual=True)
    assert forecast.noise_to_signal(dual, 100, parameters=49) == pytest.approx(0.03)
    assert forecast.noise_to_signal(dual, 100, parameters=49, dual=4) == pytest.approx(0.06)
    method = gs.methods.O2NC(steps=2, inner_steps=5)
    for query, place in zip(method.schedule(1000).with_noise((3.0, 3.0)), (0, 1), strict=True):
        spread = np.linalg.norm(np.linalg.inv(strategy_matrix("factorization", 5))[place])
        size = query.sampling.rows
        assert forecast.noise_to_signal(query, 1000, 49) == pytest.approx(7 * 3.0 * spread / size, rel=1e-5)


def test_noise_must_be_known():
    with pytest.raises(ValueError, match="no noise multiplier yet"):
        forecast.noise_to_signal(gs.Query("gradient", 1), 100, 10)


def test_evaluations_count_a_difference_twice():
    schedule = gs.methods.SVRG(steps=3, inner_steps=10, batch_size=20).schedule(1000)
    assert sum(forecast.evaluations(query, 1000) for query in schedule) == pytest.approx(3 * 1000 + 2 * 30 * 20)


def test_seconds_grow_with_the_work_and_with_slowness(monkeypatch):
    def seconds(steps, n, columns, slowness=1.0):
        monkeypatch.setattr(forecast, "_probe", lambda: slowness * forecast._PROBE_SECONDS)
        return forecast.seconds(gs.methods.GD(steps=steps).schedule(n), n, columns)

    first = seconds(10, 10_000, 50)
    assert seconds(20, 10_000, 50) == pytest.approx(2 * first)
    assert seconds(10, 10_000, 50, slowness=3.0) == pytest.approx(3 * first)
    assert first < seconds(10, 10_000, 100) < seconds(10, 20_000, 100)


def cells(method, sizes, epsilons, **options):
    return forecast.table(
        lambda n: method,
        sizes,
        epsilons,
        delta_of=lambda n: 1e-6,
        neighbors="replace_one",
        parameters=51,
        **options,
    )


def test_a_cell_without_samples_is_as_calibrated():
    (cell,) = cells(gs.methods.GD(steps=7), [1000], [2.0])
    (query,) = gs.plan(gs.methods.GD(steps=7), 1000, gs.Budget(2.0, 1e-6)).schedule
    assert (cell.noise_multiplier, cell.is_bound) == (query.noise_multiplier, False)
    assert cell.noise_to_signal == forecast.noise_to_signal(query, 1000, 51)


def test_a_cell_with_samples_is_a_bound_and_not_far_off():
    method = gs.methods.SGD(steps=20, batch_size=100)
    (cell,) = cells(method, [1000], [1.0])
    (query,) = gs.plan(method, 1000, gs.Budget(1.0, 1e-6)).schedule
    assert cell.is_bound
    assert query.noise_multiplier < cell.noise_multiplier < 1.3 * query.noise_multiplier


@pytest.mark.slow
def test_an_outline_is_the_plan_unless_that_takes_long():
    method, budget = gs.methods.SGD(steps=20, batch_size=100), gs.Budget(1.0, 1e-6)
    planned, is_bound = forecast.outline(method, 1000, budget)
    assert (planned, is_bound) == (gs.plan(method, 1000, budget), False)
    quick, is_bound = forecast.outline(method, 200_000, budget)
    assert is_bound
    # It keeps the budget, though with more noise than that needs.
    assert accounting.pld_epsilon(quick.schedule, budget.delta, "replace_one") < 1.0
    assert quick.capacities == tuple(accounting.capacities(quick.schedule, 200_000, budget)[0].items())


def test_more_records_and_more_budget_help_and_too_few_records_have_no_cell():
    method = gs.methods.Spider(steps=20, batch_size=100)
    found = cells(method, [50, 1000, 10_000], [0.5, 1.0, 16.0])
    assert [cell.noise_multiplier for cell in found[:3]] == [None] * 3
    signals = np.array([cell.noise_to_signal for cell in found[3:]]).reshape(2, 3)
    assert (np.diff(signals, axis=0) < 0).all() and (np.diff(signals, axis=1) < 0).all()
