"""The losses of linear models: their shapes and their constants."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.objectives import huber, logistic, smoothed_hinge, softmax, squared

SCORES = jnp.linspace(-6, 6, 4001)


@pytest.mark.parametrize(
    ("loss", "targets"),
    [(logistic, (0.0, 1.0)), (huber(0.7), (-1.0, 2.0)), (smoothed_hinge(0.3), (0.0, 1.0)), (squared, (-1.0, 2.0))],
)
def test_the_constants_are_bounds_and_tight(loss, targets):
    """Over scores in [−6, 6]: slopes and curvatures reach their bounds to 1 %, and do not exceed them."""
    for target in targets:
        slopes = jax.vmap(jax.grad(loss.pointwise), (0, None))(SCORES, target)
        curvatures = np.diff(np.asarray(slopes, np.float64)) / np.diff(np.asarray(SCORES, np.float64))
        assert loss.curvature * 0.99 <= curvatures.max() <= loss.curvature * 1.01
        assert curvatures.min() >= -1e-3
        if loss.lipschitz is not None:
            assert loss.lipschitz * 0.99 <= np.abs(slopes).max() <= loss.lipschitz * 1.0001


@pytest.mark.parametrize("loss", [logistic, huber(0.7), smoothed_hinge(0.3)])
@pytest.mark.parametrize("target", [-3.0, 0.4, 10_000.5])
def test_no_target_curves_a_loss_beyond_its_bound(loss, target):
    """Objective perturbation relies on it for whatever a record may hold."""
    curvatures = jax.vmap(jax.grad(jax.grad(loss.pointwise)), (0, None))(SCORES, target)
    assert np.abs(curvatures).max() <= loss.curvature * 1.0001


@pytest.mark.slow
def test_the_constants_of_softmax():
    rng = np.random.default_rng(0)
    scores = jnp.asarray(rng.normal(size=(2000, 3)) * rng.choice([0.1, 1, 10], size=(2000, 1)), jnp.float32)
    gradients = jax.vmap(jax.grad(softmax.pointwise), (0, None))(scores, 1)
    curvatures = np.linalg.eigvalsh(jax.vmap(jax.hessian(softmax.pointwise), (0, None))(scores, 1))
    assert 1.35 < np.linalg.norm(gradients, axis=1).max() <= np.sqrt(2) + 1e-6 == pytest.approx(softmax.lipschitz, 1e-5)
    assert 0.45 < curvatures.max() <= softmax.curvature + 1e-6


@pytest.mark.parametrize("loss", [logistic, huber(0.7), smoothed_hinge(0.3)])
def test_the_constants_of_a_record(loss):
    """Gradient norms and Hessian norms of one record stay below what the row norm gives, and come near to it."""
    row, target = jnp.array([0.6, -0.8]) * 2, 1.0
    points = [{"weights": s * row, "intercept": jnp.float32(0.3 * s)} for s in np.linspace(-2, 2, 41)]
    norms = [
        np.linalg.norm(jnp.concatenate([g["weights"], g["intercept"][None]]))
        for g in (jax.grad(loss)(p, (row, target)) for p in points)
    ]
    assert 0.9 * loss.lipschitz_constant(2.0) < max(norms) <= loss.lipschitz_constant(2.0) * 1.0001
    assert loss.smoothness_constant(2.0) == pytest.approx(loss.curvature * 5)
    assert loss.smoothness_constant(2.0, intercept=False) == pytest.approx(loss.curvature * 4)


def test_known_values():
    assert float(huber(1.0).pointwise(jnp.float32(3.0), 0.0)) == pytest.approx(2.5)
    assert float(huber(1.0).pointwise(jnp.float32(0.5), 0.0)) == pytest.approx(0.125)
    assert float(smoothed_hinge(0.5).pointwise(jnp.float32(-1.0), 1.0)) == pytest.approx(1.75)
    assert float(smoothed_hinge(0.5).pointwise(jnp.float32(2.0), 1.0)) == 0.0
    assert float(squared.pointwise(jnp.float32(3.0), 1.0)) == pytest.approx(2.0)


def test_an_unknown_constant_and_bad_widths_are_refused():
    with pytest.raises(ValueError, match="lipschitz is not bounded for this loss"):
        squared.lipschitz_constant(1.0)
    for make in (lambda: huber(0.0), lambda: smoothed_hinge(-1.0)):
        with pytest.raises(ValueError, match="must be a finite number above 0"):
            make()


@pytest.mark.slow
@pytest.mark.parametrize("loss", [huber(0.5), smoothed_hinge(0.5), squared])
def test_the_linear_backend_agrees_with_per_record_gradients(loss):
    rng = np.random.default_rng(1)
    batch = (jnp.asarray(rng.normal(size=(30, 3)), jnp.float32), jnp.asarray(rng.integers(0, 2, 30), jnp.float32))
    params = {"weights": jnp.asarray(rng.normal(size=3), jnp.float32), "intercept": jnp.float32(0.2)}
    fast, slow = (gs.clipped_sum(loss, params, batch, 0.7, backend=backend) for backend in ("linear", "vmap"))
    np.testing.assert_allclose(fast["weights"], slow["weights"], atol=1e-5)
    np.testing.assert_allclose(fast["intercept"], slow["intercept"], atol=1e-5)
