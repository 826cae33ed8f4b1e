"""The Goldstein estimate: zero at a kink, the gradient's norm away from it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import gossamer as gs

DATA = (jnp.array([[1.0, 0.0], [0.0, 2.0]]), jnp.array([0.5, -0.4]))


def absolute(x, record):
    a, b = record
    return jnp.abs(a @ x - b)


PROBLEM = gs.BlackBox(absolute)
KINK = jnp.array([0.5, -0.2])
"""Where both records' losses are zero; the objective's gradient around it is (±½, ±1)."""


@pytest.mark.parametrize(
    ("point", "expected"),
    [(KINK, 0.0), (KINK + jnp.array([1.0, 1.0]), np.hypot(0.5, 1.0)), (KINK + jnp.array([0.03, 1.0]), 1.0)],
    ids=["both kinks within reach", "none", "one"],
)
def test_convex_combinations_reach_what_geometry_says(point, expected):
    assert gs.diagnostics.goldstein(PROBLEM, point, DATA, radius=0.1, samples=50) == pytest.approx(expected, abs=1e-5)


def test_it_is_the_minimum_over_the_simplex():
    """Against a general solver on the same gradients, at a point from which some kinks are within reach."""
    data = (jax.random.normal(jax.random.key(1), (6, 2)), jnp.zeros(6))
    point, radius = jnp.array([0.1, 0.06]), 0.1
    found = gs.diagnostics.goldstein(PROBLEM, point, data, radius=radius, samples=12)
    gradients = np.asarray(gs.diagnostics._around(PROBLEM, point, data, radius, 12, jax.random.key(0)), np.float64)
    best = min(
        optimize.minimize(
            lambda s: np.linalg.norm(np.exp(s) @ gradients / np.exp(s).sum()), np.random.default_rng(i).normal(size=13)
        ).fun
        for i in range(5)
    )
    assert found == pytest.approx(best, abs=2e-3)
    assert found < 0.95 * np.linalg.norm(gradients[0])  # combining does help here


def test_a_python_function_has_no_gradients():
    with pytest.raises(TypeError, match="needs gradients"):
        gs.diagnostics.goldstein(gs.BlackBox(absolute, python=True), KINK, DATA, radius=0.1)
