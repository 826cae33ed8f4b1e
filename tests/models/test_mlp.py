"""Perceptrons and their loss, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax

import gossamer as gs
from gossamer.models import MLP, CrossEntropy, init_mlp

FEATURES = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def layers(outputs: int):
    """Return layers whose last is not zero."""
    *hidden, last = init_mlp(jax.random.key(0), 3, (4,), outputs=outputs)
    return (*hidden, {**last, "weights": jax.random.normal(jax.random.key(1), last["weights"].shape)})


def outputs_by_numpy(network, features):
    first, last = (jax.tree.map(np.asarray, layer) for layer in network)
    return np.maximum(features @ first["weights"] + first["bias"], 0) @ last["weights"] + last["bias"]


def test_every_record_has_the_same_outputs_at_first():
    network = init_mlp(jax.random.key(0), 3, (4,), outputs=2)
    assert np.array_equal(jax.vmap(lambda row: MLP().outputs(network, row))(FEATURES), np.zeros((5, 2)))


@pytest.mark.parametrize("hidden", [8, (8, 0), (True,), "8", np.array([[8]])])
def test_sizes_that_are_none_are_refused(hidden):
    with pytest.raises(ValueError, match=r"hidden = .* must be a tuple of whole numbers.* such as \((8,|64, 32)\)"):
        init_mlp(jax.random.key(0), 3, hidden)
    sizes = [layer["bias"].size for layer in init_mlp(jax.random.key(0), 3, np.array([4, 2]))]
    assert sizes == [4, 2, 1]


@pytest.mark.slow(each=True)
@pytest.mark.parametrize("count", [1, 3])
def test_cross_entropy_is_minus_the_log_probability_of_the_label(count):
    network = layers(count)
    labels = np.array([0, 1, 1, 0, 1]) if count == 1 else np.array([0, 1, 2, 2, 1])
    found = jax.vmap(lambda *record: CrossEntropy()(network, record))(FEATURES, labels)
    outputs = outputs_by_numpy(network, FEATURES)
    if count == 1:
        outputs = np.concatenate([np.zeros((5, 1)), outputs], axis=1)
    assert np.asarray(found) == pytest.approx(-log_softmax(outputs, axis=1)[np.arange(5), labels], rel=1e-5)


@pytest.mark.hostile
@pytest.mark.deep
@pytest.mark.parametrize("count", [1, 3])
def test_its_clipped_sum_is_ghost_arithmetic_and_right(count):
    batch = FEATURES, np.array([0, 1, 1, 0, 1], np.int32)
    ghost, plain = (
        gs.clipped_sum(CrossEntropy(), layers(count), batch, clip=0.5, backend=name) for name in ("ghost", "vmap")
    )
    for one, other in zip(jax.tree.leaves(ghost), jax.tree.leaves(plain), strict=True):
        assert np.allclose(one, other, atol=1e-5)
        assert jnp.abs(other).max() > 0.01
