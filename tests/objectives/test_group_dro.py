"""Worst-group risk: objective, maximiser and optimum, and what attackers make of it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from testkit.rings import deep_but

import gossamer as gs
from gossamer.methods import SGDA, PrivateDiff

K = 3
SHARES = (0.5, 0.3, 0.2)
START = ({"weights": jnp.zeros(2)}, jnp.full(K, 1 / K))


def table(n=100, seed=0):
    """Regression with another slope in each group; shares of the groups exactly SHARES."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(K), [round(n * p) for p in SHARES])
    slopes = np.array([[1.0, 0.0], [0.0, 1.0], [-0.5, -0.5]])
    X = rng.normal(size=(n, 2))
    t = np.sum(X * slopes[group], axis=1) + 0.3 * rng.normal(size=n)
    return X.astype(np.float32), t.astype(np.float32), group


def group_losses(w, data):
    X, t, group = (np.asarray(leaf, np.float64) for leaf in data)
    losses = 0.5 * (X @ w - t) ** 2
    return np.array([losses[group == g].mean() for g in range(K)])


def worst(w, data, concavity):
    """max over y in the simplex of Σ y_g L_g − (μ/2)‖y − 1/k‖², by SciPy."""
    losses = group_losses(w, data)
    if concavity == 0:
        return losses.max()
    found = minimize(
        lambda y: -(y @ losses) + 0.5 * concavity * np.sum((y - 1 / K) ** 2),
        np.full(K, 1 / K),
        bounds=[(0, 1)] * K,
        constraints={"type": "eq", "fun": lambda y: y.sum() - 1},
        tol=1e-12,
    )
    return -found.fun


def optimum(data, concavity):
    """The minimiser of the worst case: of an upper bound s on all group losses if μ = 0, else by simplex search."""
    if concavity:
        options = {"xatol": 1e-7, "fatol": 1e-12, "maxiter": 2000}
        return minimize(worst, np.zeros(2), args=(data, concavity), method="Nelder-Mead", options=options).x
    bounds = {"type": "ineq", "fun": lambda v: v[2] - group_losses(v[:2], data)}
    return minimize(lambda v: v[2], [0.0, 0.0, 10.0], constraints=bounds, tol=1e-12).x[:2]


def problem(concavity=0.0, **options):
    return gs.GroupDRO(gs.objectives.squared, groups=K, shares=SHARES, strong_concavity=concavity, **options)


def test_the_objective_is_the_weighted_mean_of_group_losses():
    data, w, y = table(), np.array([0.3, -0.7]), np.array([0.2, 0.5, 0.3])
    params = ({"weights": jnp.array(w, jnp.float32)}, jnp.array(y, jnp.float32))
    losses = group_losses(w, data)
    np.testing.assert_allclose(problem().objective(params, data), y @ losses, rtol=1e-5)
    concave = y @ losses - 0.4 / 2 * np.sum((y - 1 / K) ** 2)
    np.testing.assert_allclose(problem(0.4).objective(params, data), concave, rtol=1e-5)
    by_size = gs.GroupDRO(gs.objectives.squared, groups=K)
    np.testing.assert_allclose(by_size.objective(params, data), y @ (K * np.array(SHARES) * losses), rtol=1e-5)


@pytest.mark.parametrize("group", [-1, K, 1000])
def test_a_record_of_no_group_counts_for_nothing(group):
    gradient = jax.grad(problem().record_loss)(START, (jnp.ones(2), jnp.float32(1.0), jnp.int32(group)))
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(gradient))


def test_the_best_response_maximises():
    """Against SciPy, at a y inside the simplex and at one on its boundary; and the largest statistic fits its bound."""
    data, w = table(), np.array([0.3, -0.7])
    x = {"weights": jnp.array(w, jnp.float32)}
    for concavity in (0.2, 5.0):
        response = problem(concavity, loss_bound=50.0).best_response
        mean = jnp.mean(jax.vmap(functools.partial(response.statistic, x))(data), axis=0)
        y = np.asarray(response.solve(mean), np.float64)
        value = y @ group_losses(w, data) - 0.5 * concavity * np.sum((y - 1 / K) ** 2)
        np.testing.assert_allclose(value, worst(w, data, concavity), rtol=1e-5)
        assert (y.min() > 0) == (concavity == 5.0)
    far = response.statistic(x, (jnp.ones(2), jnp.float32(1e3), jnp.int32(2)))
    np.testing.assert_allclose(far, [0.0, 0.0, response.clip])


WIDE = {"clip_x": 100.0, "clip_y": 100.0, "batch_size": 100}
EXACT = {
    "SGDA": (0.5, SGDA(steps=1500, learning_rate_x=0.05, learning_rate_y=0.2, **WIDE)),
    "SGDA-response": (0.5, SGDA(steps=800, learning_rate_x=0.1, ascent="best_response", **WIDE)),
    "PrivateDiff": (
        0.5,
        PrivateDiff(
            steps=800,
            learning_rate_x=0.1,
            learning_rate_y=0.5,
            inner_steps=3,
            smoothness_x=100.0,
            smoothness_y=100.0,
            **WIDE,
        ),
    ),
    "SGDA-corner": (0.0, SGDA(steps=8000, learning_rate_x=0.02, learning_rate_y=0.02, **WIDE)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", deep_but(EXACT, "SGDA-response"))
def test_without_noise_methods_reach_the_optimum(name):
    """To 1e-3 of SciPy's minimiser, which is far from that of the average loss."""
    concavity, method = EXACT[name]
    data = table()
    bound = 100.0 if "response" in name else None
    result = gs.solve(
        problem(concavity, loss_bound=bound), data, method, gs.Budget(np.inf, 1e-5), init=START, seed=0, progress=False
    )
    expected = optimum(data, concavity)
    np.testing.assert_allclose(result.params[0]["weights"], expected, atol=1e-3)
    average = np.linalg.lstsq(data[0], data[1], rcond=None)[0]
    assert worst(average, data, concavity) > worst(expected, data, concavity) + 0.1


# What every problem must withstand, with the methods that solve it

ROWS = (
    jnp.array([[1.0, 0.0], [0.0, 1.0], [0.3, 0.2], [-0.5, 0.4]]),
    jnp.array([1.0, 0.5, -0.4, 0.2]),
    jnp.array([2, 0, 1, 2]),
)
TURNED = (jnp.array([1.0, 0.0]), jnp.float32(-1.0), jnp.int32(0))
"""Takes the place of the first record: it turns the gradient in x round, and that in y to another group."""
HOSTILE = {
    "opposite": TURNED,
    "huge": (jnp.array([1e6, -1e6]), jnp.float32(1e6), jnp.int32(2)),
    "infinite": (jnp.array([jnp.inf, 0.0]), jnp.float32(1.0), jnp.int32(1)),
    "not a number": (jnp.array([1.0, jnp.nan]), jnp.float32(0.0), jnp.int32(0)),
    "no group": (jnp.array([1.0, 0.0]), jnp.float32(0.0), jnp.int32(-7)),
    "removed": None,
}
SMALL = {"steps": 2, "learning_rate_x": 0.05, "learning_rate_y": 0.3, "clip_x": 0.3, "clip_y": 0.05}
METHODS = {
    "SGDA": SGDA(batch_size=2, **SMALL),
    "PrivateDiff": PrivateDiff(batch_size=4, smoothness_x=0.2, smoothness_y=0.3, **SMALL),
}
BUDGET = gs.Budget(2.0, 1e-2)
SMOOTH = problem(0.5, loss_bound=0.5)


@pytest.mark.deep
@pytest.mark.hostile
@pytest.mark.parametrize(("name", "backend"), [("SGDA", "auto"), ("PrivateDiff", "vmap")])
def test_replay_and_sensitivity(name, backend):
    """Records are seen through private answers only, and none moves a sum by more than the noise was calibrated for."""
    run = {"method": METHODS[name], "budget": BUDGET, "init": START, "backend": backend}
    other = (ROWS[0] + 1.0, 3.0 - ROWS[1], 2 - ROWS[2])
    report = gs.audit.replay(SMOOTH, ROWS, other, **run)
    assert report, report.differing
    reports = {who: gs.audit.sensitivity(SMOOTH, ROWS, 0, record, **run) for who, record in HOSTILE.items()}
    assert all(reports.values()), reports
    assert reports["opposite"].worst["gradient"] > 1.1


@pytest.mark.deep
def test_audit():
    """The strongest attacker does not beat the certificate, and comes near enough to it to be worth fearing."""
    audit = gs.audit.empirical_epsilon(
        SMOOTH, ROWS, 0, TURNED, METHODS["SGDA"], BUDGET, init=START, runs=8_192, backend="vmap"
    )
    assert audit, audit
    assert audit.lower_bound > 0.4 * BUDGET.epsilon


@pytest.mark.deep
def test_noise_costs_little_at_a_moderate_budget():
    """ε = 3 on 2000 records: the worst group's loss is within 0.1 of the optimum; that of the average is 0.2 above."""
    data = table(2000)
    method = SGDA(
        steps=100, learning_rate_x=0.2, learning_rate_y=0.2, clip_x=4.0, clip_y=10.0, batch_size=2000, output="average"
    )
    result = gs.solve(problem(0.1), data, method, gs.Budget(3.0, 1e-5), init=START, seed=0, progress=False)
    best = group_losses(optimum(data, 0.0), data).max()
    assert group_losses(np.asarray(result.params[0]["weights"], np.float64), data).max() < best + 0.1
    average = np.linalg.lstsq(data[0], data[1], rcond=None)[0]
    assert group_losses(average, data).max() > best + 0.2


def test_bad_input_is_named():
    loss = gs.objectives.squared
    with pytest.raises(ValueError, match="groups = 1 must be a whole number of at least 2"):
        gs.GroupDRO(loss, groups=1)
    with pytest.raises(ValueError, match=r"must be 2 numbers above 0 that add up to 1"):
        gs.GroupDRO(loss, groups=2, shares=(0.5, 0.6))
    with pytest.raises(ValueError, match=r"must be 3 numbers"):
        gs.GroupDRO(loss, groups=3, shares=(0.5, 0.5))
    with pytest.raises(ValueError, match=r"strong_concavity = -1\.0"):
        gs.GroupDRO(loss, groups=2, strong_concavity=-1.0)
    with pytest.raises(ValueError, match=r"loss_bound = 1\.0 must be .* with a strong_concavity"):
        gs.GroupDRO(loss, groups=2, loss_bound=1.0)
    with pytest.raises(ValueError, match="the problem has no best_response"):
        gs.solve(problem(), table(), SGDA(ascent="best_response", batch_size=10), BUDGET, init=START)
