"""SGDA: the settings of Theorem 2."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.methods import SGDA

BUDGET = gs.Budget(1.0, math.exp(-16))


def test_settings_of_theorem_2():
    """n = 10⁴, ε = 1, d = 25, ln(1/δ) = 16: nε/√(d ln(1/δ)) = 10⁴/20 = 500; κ = 4, so η_x = 1/(2·4·5·2)."""
    method = SGDA.for_problem(10_000, 25, smoothness=2.0, strong_concavity=0.5, budget=BUDGET, clip_x=3.0)
    assert (method.steps, method.batch_size, method.clip_x, method.output) == (500, 500, 3.0, "random")
    assert method.learning_rate_y == 0.5
    assert method.learning_rate_x == 1 / 80
    assert (
        SGDA.for_problem(100, 1, gs.Budget(50.0, math.exp(-1)), smoothness=1.0, strong_concavity=1.0).batch_size == 100
    )
    assert SGDA.for_problem(100, 10**9, BUDGET, smoothness=1.0, strong_concavity=1.0).steps == 1


def test_samples_are_as_large_as_the_privacy_theorem_wants_them():
    """d = 2500 leaves T = 5 steps, and ε ≤ 4m²T/n² needs m = 10³·√(1/20) = 224."""
    method = SGDA.for_problem(1_000, 2_500, BUDGET, smoothness=1.0, strong_concavity=1.0)
    assert (method.steps, method.batch_size) == (5, 224)


@pytest.mark.slow
@pytest.mark.parametrize("condition", [4.0, 8.0, 50.0])
def test_y_keeps_up_with_x(condition):
    """−(h/2)x² + bxy − (μ/2)y² is concave in x, and Φ is convex: descent works if y follows; with one η it does not."""
    h, b, mu = 0.4, 0.65, 1 / condition
    assert np.abs(np.linalg.eigvalsh([[-h, b], [b, -mu]])).max() <= 1
    assert b**2 / mu > h
    method = SGDA.for_problem(10_000, 25, BUDGET, smoothness=1.0, strong_concavity=mu)

    def growth(eta_x, eta_y):
        return np.abs(np.linalg.eigvals([[1 + eta_x * h, -eta_x * b], [eta_y * b, 1 - eta_y * mu]])).max()

    assert growth(method.learning_rate_x, method.learning_rate_y) < 1
    assert growth(method.learning_rate_y, method.learning_rate_y) > 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", [SGDA, gs.methods.PrivateDiff])
def test_a_penalty_of_x_sets_what_it_should_to_zero(kind):
    """A gradient of 0.05 is below 0.1‖x‖₁ and one of 1 above; y has no penalty. The objective has it too."""
    problem = gs.Minimax(lambda x, y, z: -jnp.dot(z, x) + y - y**2, regularizer=gs.L1(0.1))
    table = jnp.tile(jnp.array([1.0, 0.05]), (20, 1))
    method = kind(steps=5, clip_x=2.0, clip_y=2.0, batch_size=20)
    init = (jnp.full(2, 0.02), jnp.zeros(()))
    x, y = gs.solve(problem, table, method, gs.Budget(math.inf, 1e-3), init=init, seed=0, progress=False).params
    assert float(x[0]) > 1.0 and float(x[1]) == 0.0 and float(y) > 0.3
    plain = gs.Minimax(problem.loss)
    extra = problem.objective((x, y), table) - plain.objective((x, y), table)
    assert float(extra) == pytest.approx(0.1 * float(jnp.sum(jnp.abs(x))), rel=1e-5)
