"""The DRO problems: what they refuse, what they are worth, and what one record's share of them is."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize
from testkit.tables import linear_params, logistic_table

import gossamer as gs
from gossamer.objectives.dro import DualLoss

LOSS = gs.objectives.logistic
BUDGET = gs.Budget(1.0, 1e-5)
PARAMS = {"weights": jnp.array([1.0, -2.0, 0.5, 0.0]), "intercept": jnp.float32(0.3)}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"penalty": 1.0, "radius": 0.5}, ValueError, "penalty = 1.0 and radius = 0.5: give one of them"),
        ({"divergence": gs.ChiSquare(), "radius": 0.5}, ValueError, r"radius = 0.5 needs divergence = gs.KL\(\)"),
        ({"divergence": gs.CressieRead(2.0), "radius": 0.5}, ValueError, "Give a penalty instead"),
        ({"penalty": 0.0}, ValueError, "penalty = 0.0 must be a finite number above 0"),
        ({"radius": -1.0}, ValueError, "radius = -1.0 must be"),
        ({"radius": 0.5, "loss_bound": np.inf}, ValueError, "loss_bound = inf must be"),
        ({"scale": 0.0}, ValueError, "scale = 0.0 must be"),
        ({"radius": 0.5, "smallest_penalty": 0.0}, ValueError, "smallest_penalty = 0.0 must be"),
        ({"divergence": "KL"}, TypeError, r"divergence = 'KL' must be gs.ChiSquare\(\)"),
    ],
)
def test_refusals(options, error, message):
    with pytest.raises(error, match=message):
        gs.DRO(LOSS, **{"divergence": gs.KL(), **options})


@pytest.mark.parametrize(
    ("problem", "method", "error", "message"),
    [
        (gs.DRO(LOSS), gs.methods.RecursiveSpider(), ValueError, "Use DoubleSpider for a penalised problem"),
        (gs.DRO(LOSS, gs.KL(), radius=0.5), gs.methods.DoubleSpider(), ValueError, "RecursiveSpider for the KL ball"),
        (gs.DRO(LOSS), gs.methods.SGD(), TypeError, "These can: DoubleSpider, RecursiveSpider"),
        (gs.ERM(LOSS), gs.methods.DoubleSpider(), TypeError, "DoubleSpider cannot solve a problem of type ERM"),
    ],
)
def test_methods_that_cannot_solve_it(problem, method, error, message):
    with pytest.raises(error, match=message):
        gs.solve(problem, logistic_table(), method, BUDGET, init=linear_params())


def test_defaults():
    assert gs.DRO(LOSS).penalty == 1.0
    assert gs.DRO(LOSS).loss_bound is None
    ball = gs.DRO(LOSS, gs.KL(), radius=0.5)
    assert (ball.penalty, ball.loss_bound, ball.largest_penalty) == (None, 10.0, 5.0)
    with pytest.raises(ValueError, match="a KL ball is no mean over the records"):
        ball.lifted()


PROBLEMS = {
    "chi-square": gs.DRO(LOSS, penalty=0.5, scale=2.0),
    "KL-CVaR": gs.DRO(LOSS, gs.KLCVaR(0.3), penalty=0.5),
    "KL": gs.DRO(LOSS, gs.KL(), penalty=0.5),
    "Cressie-Read": gs.DRO(LOSS, gs.CressieRead(1.5), penalty=0.5),
    "ball": gs.DRO(LOSS, gs.KL(), radius=0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_the_objective_is_the_worst_case_and_its_gradient_is_that_of_the_worst_distribution(problem):
    """Danskin: ∇ max_p Σ p_i ℓ_i − … = Σ p_i ∇ℓ_i at the maximiser."""
    X, y = logistic_table(n=60)
    losses = jax.vmap(LOSS, (None, 0))(PARAMS, (X, y))
    value, gradient = jax.jit(jax.value_and_grad(problem.objective))(PARAMS, (X, y))
    worst = problem.worst_case(losses)
    assert float(value) == pytest.approx(worst.value, rel=1e-5)
    assert worst.value > float(jnp.mean(losses)) + 0.05
    by_record = jax.vmap(jax.grad(LOSS), (None, 0))(PARAMS, (X, y))
    expected = jax.tree.map(lambda leaf: np.tensordot(worst.weights, leaf, 1), by_record)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), gradient, expected)


def test_the_ball_is_that_of_a_convex_solver():
    """max Σ p_i ℓ_i over KL(p, 1/n) ≤ ρ by a solver that knows no duality."""
    losses = np.random.default_rng(0).exponential(size=8)
    worst = gs.DRO(LOSS, gs.KL(), radius=0.3).worst_case(losses)

    def divergence(p):
        return np.sum(p * np.log(8 * np.maximum(p, 1e-300)))

    found = optimize.minimize(
        lambda p: -p @ losses,
        np.full(8, 1 / 8),
        bounds=[(1e-12, 1.0)] * 8,
        constraints=[
            {"type": "eq", "fun": lambda p: p.sum() - 1},
            {"type": "ineq", "fun": lambda p: 0.3 - divergence(p)},
        ],
        method="SLSQP",
        options={"ftol": 1e-12, "maxiter": 500},
    )
    assert worst.value == pytest.approx(-found.fun, abs=1e-6)
    np.testing.assert_allclose(worst.weights, found.x, atol=1e-4)
    assert divergence(worst.weights) == pytest.approx(0.3, abs=1e-9)


@pytest.mark.slow
def test_equal_losses_have_no_worst_case():
    """λ meets λ0, and the weights are uniform."""
    worst = gs.DRO(LOSS, gs.KL(), radius=0.3, smallest_penalty=0.1).worst_case(np.full(5, 2.0))
    np.testing.assert_allclose(worst.weights, 0.2)
    assert worst.value == pytest.approx(2.0 + 0.1 * 0.3)


@pytest.mark.slow
def test_the_dual_of_one_record():
    """At every η the mean of the dual loss is above the worst case; its derivatives are weights, with scale."""
    problem = PROBLEMS["chi-square"]
    X, y = logistic_table(n=60)
    loss = problem.dual_loss()
    record = (X[0], y[0])
    point = (PARAMS, jnp.float32(0.2))
    in_x, in_dual = jax.grad(loss)(point, record)
    weight = problem.divergence.weight((LOSS(PARAMS, record) - 2.0 * 0.2) / 0.5)
    assert float(in_dual) == pytest.approx(2.0 * (1 - float(weight)), rel=1e-5)
    assert float(loss.in_dual(point, record)) == pytest.approx(float(in_dual), rel=1e-5)
    expected = jax.tree.map(lambda leaf: weight * leaf, jax.grad(LOSS)(PARAMS, record))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), in_x, expected)
    fixed = jax.grad(problem.dual_loss(fixed_dual=True))(point, record)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), fixed, (in_x, jnp.float32(0)))
    means = [jnp.mean(jax.vmap(loss, (None, 0))((PARAMS, jnp.float32(eta)), (X, y))) for eta in (-0.5, 0.2, 0.6, 2.0)]
    assert min(means) >= problem.objective(PARAMS, (X, y)) - 1e-6


@pytest.mark.slow
def test_losses_are_cut_and_so_is_their_gradient():
    """Beyond the bound a record has the bound's value and no gradient; without a bound it has both."""
    far = (jnp.array([-30.0, 0.0, 0.0, 0.0]), jnp.float32(1.0))
    cut = gs.DRO(LOSS, gs.KL(), radius=0.5, loss_bound=4.0)
    assert float(cut.record_value(PARAMS, far)) == 4.0
    assert float(jax.grad(cut.record_value)(PARAMS, far)["weights"][0]) == 0.0
    assert float(gs.DRO(LOSS).record_value(PARAMS, far)) > 29.0
    data = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), far)
    cut = dataclasses.replace(cut, smallest_penalty=0.5)
    assert float(cut.objective(PARAMS, data)) == pytest.approx(4.0 + 0.5 * 0.5)


@pytest.mark.deep
def test_sgd_solves_the_lifted_problem():
    """Full batches and no noise: the pair goes to the minimum over both, and η to the best dual."""
    X, y = logistic_table(n=60)
    problem = gs.DRO(lambda p, z: LOSS(p, z) + 0.05 * jnp.sum(p["weights"] ** 2), penalty=1.0)
    assert isinstance(problem.lifted().loss, DualLoss)
    method = gs.methods.SGD(steps=400, clip=1e3, batch_size=60)
    init = (linear_params(), 0.0)
    params, dual = gs.solve(problem.lifted(), (X, y), method, gs.Budget(np.inf, 1e-5), init=init, seed=0).params
    gradient = jax.jit(jax.grad(problem.objective))(params, (X, y))
    assert max(float(jnp.max(jnp.abs(leaf))) for leaf in jax.tree.leaves(gradient)) < 1e-3
    losses = jax.vmap(problem.loss, (None, 0))(params, (X, y))
    assert float(dual) == pytest.approx(float(problem.divergence.shift(losses, 1.0)), abs=1e-3)
