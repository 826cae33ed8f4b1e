"""Gradient estimates from values: their means against a closed form, their directions, their lengths."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gossamer.gradients.zeroth import smoothed_difference, smoothed_gradient

D, RADIUS = 5, 0.3
RECORD = (jnp.array([0.6, -0.3, 0.5, 0.1, 0.4]), jnp.array(0.2))
HERE = jnp.array([0.1, 0.2, 0.3, -0.1, 0.1])
THERE = HERE + jnp.array([0.05, 0.0, 0.1, 0.0, -0.02])


def value(x, record):
    """A kink along a plane that cuts the smoothing balls of both points."""
    a, b = record
    return jnp.abs(a @ x - b)


def smoothed(x):
    """∇f̂(x) exactly: a·E sign(⟨a, x + rv⟩ − b), where a coordinate of v in the ball is Beta distributed on [−1, 1]."""
    a, b = (np.asarray(leaf, np.float64) for leaf in RECORD)
    cut = (b - a @ np.asarray(x, np.float64)) / (RADIUS * np.linalg.norm(a))
    return a * (1 - 2 * stats.beta((D + 1) / 2, (D + 1) / 2).cdf((cut + 1) / 2))


def draws(make, count=40_000):
    """Return many estimates with independent directions."""
    keys = jax.random.split(jax.random.key(3), count)
    return np.asarray(jax.jit(jax.vmap(lambda key: make(key)(RECORD)))(keys), np.float64)


def deviation(estimates, expected):
    """Return how far the mean is from the expected one, in standard errors, at its worst coordinate."""
    return np.max(np.abs(estimates.mean(0) - expected) / (estimates.std(0) / np.sqrt(len(estimates))))


@pytest.mark.slow
@pytest.mark.parametrize("directions", [None, 1])
def test_the_estimates_have_the_smoothed_gradient_as_their_mean(directions):
    """Within 5 SE; the gradient of f itself, at the same point, is a control that is far outside."""
    gradient = draws(lambda key: smoothed_gradient(value, HERE, RADIUS, directions, key))
    assert deviation(gradient, smoothed(HERE)) < 5
    assert deviation(gradient, np.asarray(jax.grad(value)(HERE, RECORD))) > 20
    difference = draws(lambda key: smoothed_difference(value, HERE, THERE, RADIUS, directions, key))
    assert deviation(difference, smoothed(HERE) - smoothed(THERE)) < 5
    assert deviation(difference, np.zeros(D)) > 20


@pytest.mark.slow
def test_a_linear_loss_has_no_difference_and_a_gradient_of_the_printed_length():
    def linear(x, record):
        return record[0] @ x

    difference = smoothed_difference(linear, HERE, THERE, RADIUS, None, jax.random.key(0))(RECORD)
    np.testing.assert_allclose(difference, 0.0, atol=1e-5)
    estimates = draws(lambda key: smoothed_gradient(linear, HERE, RADIUS, None, key))
    # E‖(d/m) Σ⟨a, u⟩u‖² = ‖a‖² (1 + (d − 1)/m) with m = d directions; the standard error is from the draws.
    squares = np.sum(estimates**2, axis=1) / np.sum(np.square(RECORD[0]))
    assert abs(squares.mean() - (2 - 1 / D)) < 5 * squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - 1) > 20 * squares.std() / np.sqrt(len(squares))


@pytest.mark.slow
def test_records_have_directions_of_their_own_unless_shared():
    def first_entry(x, record):
        return x[0] + 0.0 * record

    h = smoothed_gradient(first_entry, HERE, RADIUS, 1, jax.random.key(0))
    records = jnp.array([0.0, 1.0, 2.0, 2.0])
    own = np.asarray(jax.vmap(h)(records))
    assert len(np.unique(own, axis=0)) == 3  # equal records, equal directions: a function of one record
    np.testing.assert_array_equal(own[2], own[3])
    shared = smoothed_gradient(first_entry, HERE, RADIUS, 1, jax.random.key(0), shared=True)
    assert len(np.unique(np.asarray(jax.vmap(shared)(records)), axis=0)) == 1


def test_records_with_one_bit_apart_have_other_directions():
    """Binary features are floats with mostly zero bits, where weak hashes collide: none of 4096 rows may."""

    def first_entry(x, record):
        return x[0] + 0.0 * record[0]

    rows = jnp.array([[i >> j & 1 for j in range(12)] for i in range(4096)], jnp.float32)
    h = smoothed_gradient(first_entry, HERE, RADIUS, 1, jax.random.key(0))
    own = np.asarray(jax.jit(jax.vmap(h))(rows))
    # Of 4096 random 32-bit numbers, 0.002 pairs are expected to be equal.
    assert len(np.unique(own, axis=0)) >= 4094


def test_parameters_may_be_any_pytree():
    params = {"w": jnp.ones((2, 2)), "b": jnp.zeros(())}
    h = smoothed_gradient(lambda p, z: z * (p["w"].sum() + p["b"]), params, 0.1, None, jax.random.key(0))
    assert jax.tree.map(jnp.shape, h(jnp.float32(1.0))) == {"w": (2, 2), "b": ()}
