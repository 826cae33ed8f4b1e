"""Ghost clipping inside jit, vmap, cond and while_loop, with masked, poisoned and padded rows."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from gossamer.oracle.clipping import ghost

pytestmark = pytest.mark.hostile
KEY = jax.random.key(5)


def loss(p, z):
    x, token = z
    x = jnp.tanh(x @ p["w"] + p["b"]) + p["e"][token].mean(0)
    x = lax.conv_general_dilated(jnp.stack([x, x])[None], p["c"], (1,), "SAME")[0].mean(1)
    return jnp.sum(x @ p["few"]) + jnp.sum(jnp.outer(x, x) @ p["wide"])


@jax.jit
def parameters(key):
    shapes = {"w": (3, 4), "b": (4,), "e": (9, 4), "c": (9, 2, 3), "few": (9, 2), "wide": (9, 300)}
    return {k: jax.random.normal(jax.random.fold_in(key, i), s) for i, (k, s) in enumerate(shapes.items())}


def records(size):
    return jax.random.normal(KEY, (size, 3)), jax.random.randint(KEY, (size, 2), 0, 9)


def gradient(params, batch, mask, clip):
    return ghost.clipped_gradient(loss, params, batch, mask, clip)


def difference(params, batch, mask, clip):
    return ghost.clipped_difference(loss, params, parameters(jax.random.key(1)), batch, mask, clip)


@partial(jax.jit, static_argnums=0)
def ask(query, params, batch, mask, clip):
    return query(params, batch, mask, clip)


queries = pytest.mark.parametrize("query", [gradient, difference])


def close(one, two):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), one, two)


@pytest.mark.slow
@queries
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf, 3e38, 1e30])
def test_rows_that_do_not_count_leave_no_trace(query, poison):
    params, (x, tokens) = parameters(KEY), records(6)
    x = x.at[1].set(poison).at[4, 0].set(poison)  # row 4 is masked only where its gradient may be finite
    mask = jnp.array([True, False, True, True, not np.isfinite(poison), True])
    clean = x.at[1].set(0.0).at[4].set(0.0)
    without = jnp.array([True, False, True, True, False, True])
    close(ask(query, params, (x, tokens), mask, 0.7), ask(query, params, (clean, tokens), without, 0.7))


@pytest.mark.slow
@queries
def test_an_empty_sample_answers_zero(query):
    answer = ask(query, parameters(KEY), records(6), jnp.zeros(6, bool), 1.0)
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(answer))


@pytest.mark.deep
@queries
def test_the_same_inside_every_transformation(query):
    seeds = jax.random.split(KEY, 2)
    batch, mask = records(6), jnp.array([True, True, False, True, True, False])
    expected = [ask(query, parameters(seed), batch, mask, 0.7) for seed in seeds]

    @jax.jit
    def together(seeds, clip):
        return jax.vmap(lambda seed: query(parameters(seed), batch, mask, clip))(seeds)

    close(together(seeds, 0.7), jax.tree.map(lambda *leaves: jnp.stack(leaves), *expected))

    @jax.jit
    def looped(seed, clip):
        start = jax.tree.map(jnp.zeros_like, parameters(seed))

        def body(state):
            step, _ = state
            asked = lax.cond(step >= 0, lambda: query(parameters(seed), batch, mask, clip), lambda: start)
            return step + 1, asked

        return lax.while_loop(lambda state: state[0] < 2, body, (0, start))[1]

    close(looped(seeds[0], 0.7), expected[0])


def test_the_loss_may_close_over_traced_values():
    def scaled(scale, params, batch):
        return ghost.clipped_gradient(lambda p, x: scale * jnp.sum(p * x), params, batch, jnp.ones(2, bool), 1e9)

    batch = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    answer = jax.jit(jax.vmap(scaled, (0, None, None)))(jnp.array([1.0, 10.0]), jnp.zeros(2), batch)
    np.testing.assert_allclose(answer, [[4.0, 6.0], [40.0, 60.0]])
