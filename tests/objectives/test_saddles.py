"""Problems with strict saddles: their closed forms, and who leaves a saddle and who does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from testkit.saddles import NAMES, SEEDS, setting

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.engine.opening import set_up
from gossamer.experiments import sweep
from gossamer.methods import RGDA, SGDA, PrivateDiff


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_saddle_is_strict_and_known(name):
    """No gradient, and the curvature that the docstring says; the maximiser belongs to it."""
    case = setting(name)
    found = gs.diagnostics.curvature(case.problem, case.saddle, case.data)
    assert found.gradient_norm < 1e-5
    assert abs(found.smallest_eigenvalue - case.curvature) < 1e-4
    in_y = jax.grad(lambda y: case.problem.objective((case.saddle[0], y), case.data))(case.saddle[1])
    assert np.abs(in_y).max() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_closed_form_is_the_inner_maximum(name):
    """By ascent with automatic differentiation, at random points."""
    case = setting(name)
    flat, unravel = ravel_pytree(case.saddle[0])
    for point in 0.5 * np.random.default_rng(0).normal(size=(3, flat.size)):
        x, y = unravel(jnp.asarray(point, flat.dtype)), case.saddle[1]
        for _ in range(40):
            y = y + 0.5 * jax.grad(lambda y, x=x: case.problem.objective((x, y), case.data))(y)
        np.testing.assert_allclose(case.phi(x), case.problem.objective((x, y), case.data), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_hessian_changes_no_faster_than_assumed(name):
    """ρ of the tests below, within the ball in which they move; it is not taken much too large either."""
    case = setting(name)
    flat, unravel = ravel_pytree(case.saddle[0])
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(400, flat.size))
    centres *= 1.5 / np.linalg.norm(centres, axis=1, keepdims=True)
    nearby = centres + 0.01 * rng.normal(size=centres.shape)
    hessian = jax.jit(jax.vmap(jax.hessian(lambda v: case.phi(unravel(v)))))
    change = np.asarray(hessian(jnp.asarray(nearby)) - hessian(jnp.asarray(centres)), np.float64)
    rates = np.linalg.norm(change, ord=2, axis=(1, 2)) / np.linalg.norm(nearby - centres, axis=1)
    assert 0.4 * case.hessian_smoothness < rates.max() <= case.hessian_smoothness


def _ends(case, method, quiet, seeds=SEEDS):
    """Return how far from the saddle private runs end, and λ_min there; `quiet` scales the noise to zero."""
    planned = gs.plan(method, len(jax.tree.leaves(case.data)[0]), gs.Budget(20.0, 1e-5))
    noise = {name: value * np.float32(0 if quiet else 1) for name, value in planned.noise().items()}
    keys = jax.random.split(new_key(0), seeds)
    setup = set_up(planned, case.problem, "vmap")
    x, _ = sweep._outputs(setup, seeds, (noise, case.saddle, case.data), keys)
    flat, unravel = ravel_pytree(case.saddle[0])
    points = jax.vmap(lambda x: ravel_pytree(x)[0])(x)
    hessians = jax.jit(jax.vmap(jax.hessian(lambda v: case.phi(unravel(v)))))(points)
    return np.linalg.norm(points - flat, axis=1), np.linalg.eigvalsh(np.asarray(hessians, np.float64))[:, 0]


@pytest.mark.deep
@pytest.mark.parametrize("name", NAMES)
def test_rgda_leaves_the_saddle(name):
    """At least 95 of 100 private runs end away from it, at curvatures above −√(ρα); and so do runs without noise.

    If a run succeeded with probability 0.9 only, 95 or more of 100 would have a probability of 0.06.
    """
    case = setting(name)
    allowed = -np.sqrt(case.hessian_smoothness * case.rgda["tolerance"])
    assert case.curvature < allowed  # staying would fail
    distances, smallest = _ends(case, RGDA(**case.rgda), quiet=False)
    assert np.sum((distances > 0.5) & (smallest >= allowed)) >= 95
    distances, smallest = _ends(case, RGDA(**case.rgda), quiet=True, seeds=5)
    assert np.all((distances > 0.5) & (smallest >= allowed))


@pytest.mark.deep
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", [SGDA, PrivateDiff])
def test_first_order_methods_stay_there_without_noise(kind, name):
    """The negative control: the same step sizes, noise scaled to zero; with every record asked one seed is as all."""
    case = setting(name)
    distances, smallest = _ends(case, kind(**case.first_order), quiet=True, seeds=1)
    assert np.all(distances < 1e-2)
    np.testing.assert_allclose(smallest, case.curvature, atol=0.05)
