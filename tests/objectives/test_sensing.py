"""Matrix sensing: the maximum within each record, and the saddle at zero."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossamer.objectives import sensing, sensing_game


def _data(n=20, seed=0):
    rng = np.random.default_rng(seed)
    x = {"u": jnp.asarray(rng.normal(size=(4, 2)), jnp.float32), "v": jnp.asarray(rng.normal(size=(3, 2)), jnp.float32)}
    return x, (jnp.asarray(rng.normal(size=(n, 4, 3)), jnp.float32), jnp.asarray(rng.normal(size=n), jnp.float32))


def test_it_is_the_papers_game_with_every_y_at_its_best():
    """(1/n) Σ y_i r_i − y_i²/2 over a grid of each y_i, in float64; half a grid step squared is 5e-7."""
    x, (a, b) = _data()
    u, v = (np.asarray(leaf, np.float64) for leaf in (x["u"], x["v"]))
    residuals = np.einsum("nij,ij->n", np.asarray(a, np.float64), u @ v.T) - np.asarray(b, np.float64)
    y = np.arange(-40, 40, 1e-3)
    assert np.abs(residuals).max() < 40
    best = np.mean([np.max(y * r - y**2 / 2) for r in residuals])
    assert abs(float(sensing().objective(x, (a, b))) - best) < 1e-5 * best
    # Five ascents of 0.8 from 0 within a record, as the paper's inner loop makes.
    inner = np.zeros_like(residuals)
    for _ in range(5):
        inner += 0.8 * (residuals - inner)
    np.testing.assert_allclose(inner, (1 - 0.2**5) * residuals)


def test_the_game_has_the_same_gradient_in_x_and_its_y_is_public():
    x, data = _data()
    game, y = sensing_game(), jnp.float32(0.7)
    in_x, in_y = jax.grad(lambda pair: game.objective(pair, data))((x, y))
    expected = jax.grad(lambda x: sensing().objective(x, data))(x)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5), in_x, expected)
    assert in_y == -y
    assert game.public_gradient((x, y), jax.random.key(0))[1] == -y  # all of it without a record


@pytest.mark.slow
def test_zero_is_a_strict_saddle_at_which_no_record_has_a_gradient():
    x, (a, b) = _data(200)
    zero = jax.tree.map(jnp.zeros_like, x)
    gradients = jax.vmap(jax.grad(sensing().loss), (None, 0))(zero, (a, b))
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(gradients))
    flat, unravel = jax.flatten_util.ravel_pytree(zero)
    hessian = jax.hessian(lambda v: sensing().objective(unravel(v), (a, b)))(flat)
    mean = np.einsum("n,nij->ij", np.asarray(b, np.float64), np.asarray(a, np.float64)) / len(b)
    assert abs(np.linalg.eigvalsh(np.asarray(hessian, np.float64))[0] + np.linalg.norm(mean, ord=2)) < 1e-5
