"""Ghost clipping agrees with one record at a time on architectures nobody chose."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from testkit.per_record import check_ghost

SIZE, LENGTH, WIDTH = 3, 3, 4
"""Records, positions in a record, and features at every position, which every layer keeps."""

# Each layer maps (its own parameters, another layer's weights, x) to a new x of the same shape.
LAYERS = {
    "dense": lambda p, _, x: x @ p["w"],
    "transposed": lambda p, _, x: (0.7 * p["w"].T @ x.T).T,
    "tied": lambda p, shared, x: jnp.tanh(x @ p["w"]) @ shared["w"],
    "bias": lambda p, _, x: x + p["b"],
    "scale": lambda p, _, x: x * (1 + p["b"]) - p["s"],
    "norm": lambda p, _, x: (x - x.mean()) * lax.rsqrt(x.var() + 0.1) * p["b"],
    "weight_norm": lambda p, _, x: x @ (p["w"] / jnp.linalg.norm(p["w"], axis=0)),
    "residual": lambda p, _, x: x + jnp.tanh(x @ p["w"] + p["b"]),
    "convolution": lambda p, _, x: lax.conv_general_dilated(x.T[None], p["c"], (1,), "SAME")[0].T,
    "attention": lambda p, _, x: jax.nn.softmax(x @ p["w"] @ x.T) @ x,
    "pooled": lambda p, _, x: x + x.mean(0) @ p["w"],
    "checkpoint": lambda p, _, x: jax.checkpoint(lambda y: jnp.sin(y @ p["w"]))(x),
    "scan": lambda p, _, x: lax.scan(lambda h, y: (jnp.tanh(p["w"] @ h + y),) * 2, jnp.zeros(WIDTH), x)[1],
    "gate": lambda p, shared, x: x * jax.nn.sigmoid(x @ (p["w"] + shared["w"])),
    "lookup": lambda p, _, x: x + p["e"][jnp.array([1, 1, 0])],
    "floor": lambda p, _, x: jnp.logaddexp(x, p["b"]),
}
ACTIVATIONS = {"tanh": jnp.tanh, "softplus": jax.nn.softplus, "sin": jnp.sin, "none": lambda x: x}


def parameters(numbers):
    shapes = {"w": (WIDTH, WIDTH), "b": (WIDTH,), "s": (), "c": (WIDTH, WIDTH, 3), "e": (5, WIDTH)}
    return {k: jnp.asarray(0.4 * numbers.normal(size=s), jnp.float32) for k, s in shapes.items()}


LAYER = st.tuples(st.sampled_from(sorted(LAYERS)), st.sampled_from(sorted(ACTIVATIONS)))


ARCHITECTURES = st.lists(LAYER, min_size=1, max_size=4)


@pytest.mark.deep
@settings(max_examples=5, deadline=None, derandomize=True)
@given(ARCHITECTURES)
def test_random_architectures(layers):
    check(layers)


@pytest.mark.deep
@pytest.mark.hostile
@settings(max_examples=40, deadline=None, derandomize=True)
@given(ARCHITECTURES)
def test_many_random_architectures(layers):
    check(layers)


def check(layers):
    numbers = np.random.default_rng(len(layers))
    embed = jnp.asarray(0.5 * numbers.normal(size=(7, WIDTH)), jnp.float32)
    params = {"embed": embed, "layers": [parameters(numbers) for _ in layers]}

    def loss(p, z):
        x = p["embed"][z["tokens"]] + z["x"]
        for (layer, activation), own in zip(layers, p["layers"], strict=True):
            x = ACTIVATIONS[activation](LAYERS[layer](own, p["layers"][0], x))
        return jnp.sum(jnp.sin(x + 0.5)) + z["x"][0, 0]

    x = jnp.asarray(numbers.normal(size=(SIZE, LENGTH, WIDTH)), jnp.float32)
    batch = {"tokens": jnp.array([[0, 0, 1], [2, 3, 2], [6, 5, 4]]), "x": x}
    check_ghost(loss, params, batch, tolerance=2e-5)
