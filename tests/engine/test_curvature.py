"""Curvature: gradients, eigenvalues and implicit differentiation against dense float64 and closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.engine.curvature import lanczos
from gossamer.engine.diagnostics import curvature
from gossamer.objectives import quartic, quartic_value, sensing, sensing_game, tensor, tensor_value


def _dense(phi, x):
    """Φ, ‖∇Φ‖ and λ_min of a closed form."""
    flat, unravel = jax.flatten_util.ravel_pytree(x)

    def function(v):
        return phi(unravel(v))

    smallest = np.linalg.eigvalsh(np.asarray(jax.hessian(function)(flat), np.float64))[0]
    return float(function(flat)), float(jnp.linalg.norm(jax.grad(function)(flat))), smallest


def _factors(rng):
    return {
        "u": jnp.asarray(rng.normal(size=(4, 2)), jnp.float32),
        "v": jnp.asarray(rng.normal(size=(3, 2)), jnp.float32),
    }


@pytest.mark.deep
@pytest.mark.parametrize("name", ["quartic", "tensor", "sensing", "sensing_game"])
def test_it_is_that_of_phi_in_closed_form(name):
    """At a point where y is far from its maximiser: what is found is about Φ, not about f(·, y).

    The maximiser is known to 1e-6 and eigenvalues are some units large, so 1e-4 is many times the error of float32.
    """
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=3), jnp.float32)
    rows = rng.normal(0.5, 1.0, size=(30, 3)).astype(np.float32)
    measured = (rng.normal(size=(30, 4, 3)).astype(np.float32), rng.normal(size=30).astype(np.float32))
    problem, params, data, phi = {
        "quartic": lambda: (quartic(2.0), (x, 5 * jnp.ones(3)), rows, lambda x: quartic_value(x, rows, 2.0)),
        "tensor": lambda: (tensor(), (x, jnp.float32(5.0)), rows, lambda x: tensor_value(x, rows)),
        "sensing": lambda: (sensing(), _factors(rng), measured, lambda x: sensing().objective(x, measured)),
        "sensing_game": lambda: (
            sensing_game(),
            (_factors(rng), jnp.float32(5.0)),
            measured,
            lambda x: sensing().objective(x, measured),
        ),
    }[name]()
    found = curvature(problem, params, data)
    expected = _dense(phi, params if name == "sensing" else params[0])
    np.testing.assert_allclose(found[:3], expected, rtol=1e-4, atol=1e-4)
    assert found.error == 0.0
    if name in ("quartic", "tensor"):
        frozen = _dense(lambda x: problem.objective((x, params[1]), data), params[0])
        assert abs(frozen[2] - found.smallest_eigenvalue) > 0.1  # the negative control: without y's derivative


@pytest.mark.deep
def test_a_bound_that_y_meets_does_not_move_with_x():
    """f = −x²/2 + xy − y²/2 with y ≤ 1: y* = min(x, 1), Φ'' = 0 at x = ½, and −1 at x = 2, where y* stands still."""
    problem = gs.Minimax(lambda x, y, z: z * (-(x**2) / 2 + x * y - y**2 / 2), constraint_y=gs.Box(-1.0, 1.0))
    data = jnp.ones(4)
    for x, second in ((0.5, 0.0), (2.0, -1.0)):
        found = curvature(problem, (jnp.float32(x), jnp.float32(0.0)), data)
        assert abs(found.smallest_eigenvalue - second) < 1e-4
    assert abs(found.gradient_norm - 1.0) < 1e-5  # −x + y* at x = 2
    assert abs(found.value + 0.5) < 1e-5


@pytest.mark.slow
def test_lanczos_finds_the_smallest_of_many_and_of_equal_eigenvalues():
    rng = np.random.default_rng(1)
    rotation = np.linalg.qr(rng.normal(size=(300, 300)))[0]
    values = np.concatenate([[-0.7], np.linspace(0.0, 3.0, 299)])
    matrix = rotation * values @ rotation.T
    smallest, error = lanczos(lambda v: matrix @ v, 300)
    assert abs(smallest + 0.7) <= error + 1e-9
    assert error < 1e-6
    # A multiple of the identity but for one direction: the Krylov space of any start has two dimensions.
    few = np.diag([2.0] * 9 + [-1.0])
    assert abs(lanczos(lambda v: few @ v, 10)[0] + 1.0) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("in_y", [lambda y: y, jax.nn.log_sigmoid], ids=["linear", "flattening"])
def test_an_objective_without_a_maximiser(in_y):
    problem = gs.Minimax(lambda x, y, z: z * x * in_y(y))
    with pytest.raises(ValueError, match="no maximiser y was found in 10000 ascents"):
        curvature(problem, (jnp.float32(1.0), jnp.float32(0.0)), jnp.ones(3))
