"""Temporal differences: the loss is the paper's, no square matrix is formed, and an episode is one record."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import gossamer as gs
from gossamer.methods import SGDA, PrivateDiff
from gossamer.objectives import td

FREE = gs.Budget(math.inf, 1e-5)


def value(theta, state):
    return jnp.dot(theta["out"], jnp.tanh(theta["in"] @ state))


def linear_value(theta, state):
    return jnp.dot(theta, state)


def parameters(seed, hidden=4, inputs=3):
    keys = jax.random.split(jax.random.key(seed))
    return {"in": jax.random.normal(keys[0], (hidden, inputs)), "out": jax.random.normal(keys[1], (hidden,))}


def transitions(n, seed=0, inputs=3):
    rng = np.random.default_rng(seed)
    states, after = (rng.normal(size=(n, inputs)).astype(np.float32) for _ in range(2))
    return states, rng.normal(size=n).astype(np.float32), after, (np.arange(n) % 3 == 0).astype(np.float32)


@pytest.mark.slow(each=True)
@pytest.mark.parametrize("row", [0, 1])
def test_the_loss_is_equation_68(row):
    """With Ψ as an explicit vector; row 0 ends its episode and row 1 does not."""
    theta, omega = parameters(0), parameters(1)
    state, reward, after, done = (leaf[row] for leaf in transitions(2))
    psi, _ = ravel_pytree(jax.grad(value)(theta, state))
    slope = float(psi @ ravel_pytree(omega)[0])
    delta = reward + (0.0 if row == 0 else 0.9) * float(value(theta, after)) - float(value(theta, state))
    expected = delta * slope - 0.5 * slope**2
    np.testing.assert_allclose(td(value, 0.9).loss(theta, omega, (state, reward, after, done)), expected, rtol=1e-5)


def test_the_maximum_is_the_projected_bellman_error():
    """For V linear: max over ω of the mean is ½ E[δφ]ᵀ E[φφᵀ]⁻¹ E[δφ], reached at ω = E[φφᵀ]⁻¹ E[δφ]."""
    states, rewards, after, done = data = transitions(50)
    theta = np.array([0.5, -1.0, 0.2])
    delta = rewards + 0.9 * (1 - done) * (after @ theta) - states @ theta
    moment, second = states.T @ delta / 50, states.T @ states / 50
    omega = np.linalg.solve(second, moment)
    problem = td(linear_value, 0.9)
    point = (jnp.asarray(theta, jnp.float32), jnp.asarray(omega, jnp.float32))
    np.testing.assert_allclose(problem.objective(point, data), moment @ omega / 2, rtol=1e-4)
    np.testing.assert_allclose(jax.grad(problem.objective)(point, data)[1], np.zeros(3), atol=1e-5)


def test_no_square_matrix_is_formed():
    """No value in the gradient's program has more than a few times d entries, d = 1001·5 here; d² would be 2.5·10⁷."""
    theta, omega = parameters(0, hidden=5, inputs=1000), parameters(1, hidden=5, inputs=1000)
    record = tuple(leaf[0] for leaf in transitions(1, inputs=1000))
    program = jax.make_jaxpr(jax.grad(td(value, 0.9).record_loss))((theta, omega), record)
    largest = max(var.aval.size for eqn in program.jaxpr.eqns for var in eqn.outvars)
    assert largest <= 5 * 1001
    outer = jax.make_jaxpr(lambda t: jnp.outer(ravel_pytree(t)[0], ravel_pytree(t)[0]))(theta)
    assert max(var.aval.size for eqn in outer.jaxpr.eqns for var in eqn.outvars) > 2e7


@pytest.mark.slow
def test_an_episode_is_the_sum_of_its_transitions_whatever_the_padding_holds():
    theta, omega = parameters(0), parameters(1)
    data = transitions(5)
    each = jax.grad(lambda p: sum(td(value, 0.9).record_loss(p, tuple(leaf[k] for leaf in data)) for k in range(5)))
    padded = tuple(np.concatenate([leaf, np.full((2, *leaf.shape[1:]), np.nan, np.float32)]) for leaf in data)
    episode = (*padded, np.array([1, 1, 1, 1, 1, 0, 0], np.float32))
    together = jax.grad(td(value, 0.9, episodes=True).record_loss)((theta, omega), episode)
    for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(each((theta, omega))), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.hostile
def test_an_episode_moves_a_sum_by_two_thresholds_at_most():
    """Three episodes of four transitions, one turned round: as four records it moves the sum further (the control)."""
    rows = transitions(12)
    episodes = (*(leaf.reshape(3, 4, *leaf.shape[1:]) for leaf in rows), np.ones((3, 4), np.float32))
    point, clip = (parameters(0), parameters(1)), 1e-3

    def moved(problem, data, count):
        turned = jax.tree.map(lambda leaf: leaf.copy(), data)
        turned[1][:count] *= -1e3
        summed = jax.jit(lambda table: gs.clipped_sum(problem.record_loss, point, table, clip=(clip, clip)))
        sums = [summed(table) for table in (data, turned)]
        return [
            float(jnp.linalg.norm(ravel_pytree(a)[0] - ravel_pytree(b)[0])) / clip for a, b in zip(*sums, strict=True)
        ]

    assert max(moved(td(value, 0.9, episodes=True), episodes, 1)) <= 2 * (1 + 1e-4)
    assert max(moved(td(value, 0.9), rows, 4)) > 2.5


@pytest.mark.deep
def test_it_fits_the_value_of_a_chain():
    """Without noise, on a linear chain: V(s) = s·θ with reward 1 per step and γ = ½ fits θ·1 = 1/(1 − γ) = 2."""
    ones = np.ones((4, 1), np.float32)
    data = (ones, np.ones(4, np.float32), ones, np.zeros(4, np.float32))
    start = (jnp.zeros(1), jnp.zeros(1))
    wide = {"learning_rate_x": 0.5, "learning_rate_y": 0.5, "clip_x": 9.0, "clip_y": 9.0, "batch_size": 4}
    method = PrivateDiff(steps=150, inner_steps=2, smoothness_x=9.0, smoothness_y=9.0, **wide)
    theta, _ = gs.solve(td(linear_value, 0.5), data, method, FREE, init=start, seed=0).params
    np.testing.assert_allclose(theta, [2.0], atol=1e-2)


@pytest.mark.deep
def test_networks_as_value_functions():
    network = eqx.nn.MLP(3, "scalar", 4, 1, activation=jnp.tanh, key=jax.random.key(0))
    omega = jax.tree.map(lambda leaf: 0.1 * leaf if eqx.is_inexact_array(leaf) else leaf, network)
    problem = td(lambda model, state: model(state), 0.9)
    method = SGDA(steps=2, batch_size=8)
    after = gs.solve(problem, transitions(8), method, FREE, init=(network, omega), seed=0).params
    assert all(isinstance(model, eqx.nn.MLP) for model in after)
    assert np.any(after[0].layers[0].weight != network.layers[0].weight)


def test_a_discount_above_one_is_refused():
    with pytest.raises(ValueError, match=r"discount = 1.5 must be in \[0, 1\]"):
        td(value, 1.5)
