"""Ghost clipping agrees with gradients taken one record at a time in float64, whatever the architecture."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from testkit.per_record import check_ghost, clipped, flat, ghost_contributions, per_record_gradients
from testkit.rings import deep_but

from gossamer.oracle.clipping import ghost

KEY = jax.random.key(7)
SIZE = 5


def normal(*shape, scale=1.0, seed=0):
    return jnp.asarray(scale * np.random.default_rng([seed, *shape]).normal(size=shape), jnp.float32)


def module(layer):
    """Split an Equinox module into its arrays and a function that calls it with others."""
    arrays, static = eqx.partition(layer, eqx.is_inexact_array)
    return arrays, lambda params, *args: eqx.combine(params, static)(*args)


MODELS = {}


def model(function):
    MODELS[function.__name__] = function
    return function


@model
def mlp():
    params, call = module(eqx.nn.MLP(4, "scalar", 6, 2, key=KEY))
    return lambda p, z: (call(p, z[0]) - z[1]) ** 2, params, (normal(SIZE, 4), normal(SIZE))


@model
def checkpointed_residual():
    params = {"w": normal(4, 4), "v": normal(4, 4, seed=1), "b": normal(4)}

    def loss(p, x):
        hidden = jax.checkpoint(lambda h: h + jnp.tanh(h @ p["w"] + p["b"]))(x)
        return jax.nn.logsumexp(hidden + jax.jit(jnp.sin)(hidden @ p["v"]))

    return loss, params, normal(SIZE, 4)


@model
def strided_convolutions():
    one, two = jax.random.split(KEY)
    first, call1 = module(eqx.nn.Conv2d(2, 4, 3, stride=2, padding=(1, 2), key=one))
    second, call2 = module(eqx.nn.Conv2d(4, 6, (2, 3), groups=2, dilation=2, padding=2, key=two))
    batch = normal(SIZE, 2, 7, 6)
    return lambda p, x: jnp.sum(call2(p[1], jax.nn.relu(call1(p[0], x))) ** 2) / 30, (first, second), batch


@model
def transposed_convolution():
    params, call = module(eqx.nn.ConvTranspose1d(3, 2, 3, stride=2, padding=1, key=KEY))
    return lambda p, x: jnp.tanh(call(p, x)).mean(), params, normal(SIZE, 3, 5)


@model
def channels_last_convolution():
    def loss(p, x):
        y = lax.conv_general_dilated(x, p, (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.mean(jnp.tanh(y) ** 2)

    return loss, normal(3, 3, 2, 3), normal(SIZE, 2, 5, 6, 2)  # each record is two images


@model
def group_norm():
    norm, call = module(eqx.nn.GroupNorm(2, 4))
    conv, convolve = module(eqx.nn.Conv1d(2, 4, 3, key=KEY))
    norm = jax.tree.map(lambda x: x + 0.3 * normal(*x.shape), norm)
    return lambda p, x: jnp.mean(jax.nn.relu(call(p[0], convolve(p[1], x))) ** 2), (norm, conv), normal(SIZE, 2, 9)


@model
def layer_norm():
    def loss(p, x):
        x = (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-3)
        return jnp.sum(jnp.sin(x * (1 + p["scale"]) + p["shift"]) @ p["w"])

    return loss, {"scale": normal(4), "shift": normal(4, seed=1), "w": normal(4, 2)}, normal(SIZE, 3, 4)


@model
def embedding():
    def loss(p, tokens):  # tokens repeat, and some are outside the table
        rows = jnp.take(p["e"], tokens, axis=0, mode="fill", fill_value=0.5)
        return jnp.sum(jnp.tanh(rows) @ p["w"]) + jnp.sum(p["e1"][tokens[0] % 3] ** 2)

    params = {"e": normal(50, 3), "e1": normal(3, 2), "w": normal(3)}
    return loss, params, jnp.array([[1, 1, 2, 1], [0, 9, 49, 9], [3, 3, 3, 3], [7, -1, -50, 49], [5, 60, 60, 5]])


@model
def equinox_embedding():
    params, call = module(eqx.nn.Embedding(weight=normal(20, 3)))
    tokens = jnp.array([[1, 1, 2], [0, 9, 9], [3, 3, 3], [7, 19, 18], [5, 6, 25]])
    return lambda p, t: jnp.sum(jnp.cos(jax.vmap(lambda i: call(p, i))(t))), params, tokens


@model
def small_table():
    return lambda p, t: jnp.sum(jnp.cos(p[t])), normal(2, 3), jnp.array([[0, 1, 1]] * SIZE)


@model
def tied_weights():
    def loss(p, tokens):
        hidden = jnp.tanh(p["e"][tokens].mean(0) @ p["w"])
        return jax.nn.logsumexp(p["e"] @ hidden) - (p["e"] @ hidden)[tokens[0]]

    return loss, {"e": normal(9, 4), "w": normal(4, 4)}, jax.random.randint(KEY, (SIZE, 3), 0, 9)


@model
def attention():
    params, call = module(eqx.nn.MultiheadAttention(2, 6, key=KEY))
    return lambda p, x: jnp.mean(jnp.sin(3 * call(p, x, x, x))), params, normal(SIZE, 4, 6)


@model
def per_head_weights():
    def loss(p, x):
        return jnp.sum(jnp.tanh(jnp.einsum("thd,hde->the", x, p["a"])) * jnp.einsum("d,hde->he", x[0, 0], p["b"]))

    return loss, {"a": normal(2, 3, 4), "b": normal(2, 3, 4, seed=1)}, normal(SIZE, 3, 2, 3)


@model
def few_positions_of_a_large_layer():
    return lambda p, x: jnp.sum(jnp.sin(x @ p)), normal(40, 50), normal(SIZE, 3, 40)


@model
def recurrent_by_scan():
    def loss(p, xs):
        step = lambda h, x: (jnp.tanh(p["u"] @ h + p["w"] @ x + p["b"]), None)  # noqa: E731
        return jnp.sum(p["out"] * lax.scan(step, jnp.zeros(3), xs)[0])

    return loss, {"u": normal(3, 3), "w": normal(3, 2), "b": normal(3), "out": normal(3, seed=1)}, normal(SIZE, 4, 2)


@model
def reshaped_and_transposed():
    def loss(p, x):
        return jnp.sum(jnp.tanh(x @ p["w"].T) @ (0.5 * p["v"].reshape(3, 2)[::-1] + 1.0)) + jnp.sum(-p["b"] / 3 * x)

    return loss, {"w": normal(3, 4), "v": normal(6), "b": normal(4)}, normal(SIZE, 4)


@model
def weight_norm():
    def loss(p, x):
        return jnp.sum(jnp.tanh(x @ (p["g"] * p["v"] / jnp.linalg.norm(p["v"], axis=0))))

    return loss, {"g": normal(3), "v": normal(4, 3)}, normal(SIZE, 4)


@model
def stacked_and_sliced():
    def loss(p, x):
        x = jnp.tanh(p["stack"][0] @ x)
        return jnp.sum(jnp.concatenate([p["a"], 2 * p["b"]]) @ jnp.tanh(p["stack"][1] @ x))

    return loss, {"stack": normal(2, 3, 3), "a": normal(1, 3), "b": normal(2, 3)}, normal(SIZE, 3)


@model
def low_rank_update():
    return lambda p, x: jnp.sum((p["w"] + p["a"] @ p["b"]) @ x), {
        "w": normal(3, 4), "a": normal(3, 2), "b": normal(2, 4)
    }, normal(SIZE, 4)  # fmt: skip


@model
def unused_and_stopped():
    def loss(p, x):
        return jnp.tanh(x @ p["used"]) * lax.stop_gradient(jnp.sum(p["stopped"] ** 2)) + 0 * jnp.sum(p["zero"])

    return (
        loss,
        {"unused": normal(2), "stopped": normal(3), "zero": normal(2), "used": normal(3, scale=0.1)},
        normal(SIZE, 3),
    )


@model
def half_stopped():
    def loss(p, x):
        return jnp.sum(jnp.tanh((p["w"] * lax.stop_gradient(jnp.sum(p["w"] ** 2))) @ x))

    return loss, {"w": normal(3, 4, scale=0.3)}, normal(SIZE, 4)


@model
def penalty_inside_the_loss():
    return lambda p, x: jnp.tanh(x @ p["w"]) + 0.1 * jnp.sum(p["w"] ** 2) + p["c"] ** 2, {
        "w": normal(3), "c": normal()
    }, normal(SIZE, 3)  # fmt: skip


@model
def without_the_record():
    return lambda p, x: jnp.sum(jnp.sin(p)), normal(3), normal(SIZE, 2)


@model
def own_derivative_rule():
    @jax.custom_vjp
    def reversed_gradient(w, x):
        return w @ x

    reversed_gradient.defvjp(lambda w, x: (w @ x, (w, x)), lambda r, d: (-2 * jnp.outer(d, r[1]), r[0].T @ d))
    return lambda p, x: jnp.sum(jnp.sin(reversed_gradient(p["w"], p["v"] @ x))), {
        "w": normal(2, 3), "v": normal(3, 4)
    }, normal(SIZE, 4)  # fmt: skip


@model
def control_flow_and_kinks():
    def loss(p, x):
        x = lax.cond(x[0] > 0, lambda: x @ p["w"], lambda: jnp.sin(x) @ p["w"])
        x = jnp.maximum(x, p["floor"]) / p["divisor"] + jnp.logaddexp(x, p["floor"])
        return jnp.sum(jnp.where(x > 0.1, x**2, p["floor"])) + lax.clamp(p["low"], jnp.mean(x), 1.0)

    return loss, {"w": normal(3, 4), "floor": normal(4), "divisor": 2 + normal(), "low": normal() - 1}, normal(SIZE, 3)


@model
def gradient_inside_the_loss():
    def value(w, x):
        return jnp.sum(jnp.tanh(w @ x))

    return lambda p, x: jnp.sum(jax.grad(value)(p, x) ** 2), normal(2, 3, scale=0.4), normal(SIZE, 3)


@model
def record_of_many_leaves():
    def loss(p, z):
        return jnp.sum(p[z["i"]] * z["x"]) * z["deep"][0] + jnp.where(z["flag"], 1.0, 2.0) * p[0, 0] ** 2

    batch = {"i": jnp.arange(SIZE) % 3, "x": normal(SIZE, 2), "deep": [normal(SIZE)], "flag": jnp.arange(SIZE) > 2}
    return loss, normal(3, 2), batch


REPRESENTATIVE = (
    "mlp",
    "strided_convolutions",
    "embedding",
    "attention",
    "weight_norm",
    "recurrent_by_scan",
    "tied_weights",
)
"""Dense layers, convolutions, tables, attention, loops, normalised and shared weights."""


@pytest.mark.slow
@pytest.mark.parametrize("name", deep_but(MODELS, *REPRESENTATIVE))
def test_agrees_with_one_record_at_a_time(name):
    check_ghost(*MODELS[name]())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", deep_but(["mlp", "strided_convolutions", "attention", "embedding", "weight_norm"], "mlp", "embedding")
)
def test_agrees_in_bfloat16(name):
    # The network itself is rounded to 8 bits here, so the gradient is compared loosely and the norm bound tightly.
    loss, params, batch = MODELS[name]()
    half = jax.tree.map(lambda x: x.astype(jnp.bfloat16), params)
    batch = jax.tree.map(lambda x: x.astype(jnp.bfloat16) if jnp.issubdtype(x.dtype, jnp.floating) else x, batch)
    (expected,) = per_record_gradients(loss, batch, half)
    clip = 0.5 * float(np.linalg.norm(expected, axis=1).min())
    (got,) = ghost_contributions(loss, half, batch, [clip])
    assert np.linalg.norm(got - clipped(expected, clip)) < 0.1 * np.linalg.norm(clipped(expected, clip))
    np.testing.assert_allclose(np.linalg.norm(got, axis=1), clip, rtol=1e-5)


@pytest.mark.slow
def test_mixed_precision_accumulates_in_float32():
    def loss(p, x):
        return jnp.sum(x.astype(jnp.bfloat16) @ p["w"].astype(jnp.bfloat16)).astype(jnp.float32)

    answer = ghost.clipped_gradient(loss, {"w": normal(4, 3)}, jnp.ones((300, 4)), jnp.ones(300, bool), 1e9)
    np.testing.assert_array_equal(answer["w"], 300.0)  # 300 is not a bfloat16


@pytest.mark.slow
def test_blocks_are_clipped_by_their_own_norms():
    def loss(p, z):
        return jnp.sum(jnp.tanh(z @ p[0]["w"]) * p[1]) + jnp.sum(p[0]["b"])

    params, batch = ({"w": normal(3, 4), "b": normal(2)}, normal(4)), normal(SIZE, 3)
    got = ghost.clipped_gradient(loss, params, batch, jnp.ones(SIZE, bool), (0.5, 0.1))
    (gradients,) = per_record_gradients(loss, batch, params)
    split = flat(params[0]).size
    for block, columns, clip in ((got[0], slice(None, split), 0.5), (got[1], slice(split, None), 0.1)):
        np.testing.assert_allclose(flat(block), clipped(gradients[:, columns], clip).sum(0), rtol=1e-5, atol=1e-6)


def test_a_loss_with_effects_is_left_to_the_fallback():
    def loss(p, x):
        jax.debug.callback(lambda _: None, x)
        return jnp.sum(p * x)

    assert not ghost.supports(loss, normal(3), normal(SIZE, 3))
    assert ghost.supports(lambda p, x: jnp.sum(p * x), normal(3), normal(SIZE, 3))


def test_a_loss_that_is_not_a_number_says_so():
    with pytest.raises(ValueError, match="one real number"):
        ghost.clipped_gradient(lambda p, x: p * x, normal(3), normal(SIZE, 3), jnp.ones(SIZE, bool), 1.0)


def test_explain_names_every_strategy():
    def loss(p, z):
        x = jnp.tanh(p["emb"][z["tokens"]] @ p["dense"])
        x = lax.conv_general_dilated(x.T[None], p["conv"], (1,), "SAME")[0].mean(-1)
        x = x * (p["g"] / jnp.linalg.norm(p["g"])) + p["bias"]
        return jnp.sum(jnp.tile(x, (2, 8)) @ p["wide"]) + jnp.sum(x @ p["tied"] @ p["tied"]) + x @ p["last"]

    params = {
        "bias": normal(5), "conv": normal(5, 3, 3), "dense": normal(4, 3), "emb": normal(30, 4), "g": normal(5),
        "last": normal(5), "tied": normal(5, 5), "unused": normal(2), "wide": normal(40, 60),
    }  # fmt: skip
    table = ghost.explain_clipping(loss, params, {"tokens": jnp.arange(8)})
    strategies = {row.leaf: row.strategy for row in table.rows}
    assert strategies == {
        "['bias']": "instantiate", "['conv']": "batched product", "['dense']": "batched product",
        "['emb']": "merge looked-up rows", "['g']": "instantiate", "['last']": "factors", "['tied']": "instantiate",
        "['unused']": "unused", "['wide']": "Gram matrices",
    }  # fmt: skip
    text = str(table)
    assert "used at 2 places" in text and "non-linearly" in text and len(text.splitlines()) == len(params) + 4
