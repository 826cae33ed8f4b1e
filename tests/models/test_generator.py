"""Generators: what they return, and files that keep them with their certificate."""

import math

import jax
import numpy as np
import pytest

import gossamer as gs
from gossamer.models import generator
from gossamer.privacy.certificate import certify

LAYERS = generator.init_generator(jax.random.key(0), 3, (5, 4), 2)
PLAN = gs.plan(gs.methods.SGDA(steps=3, batch_size=10, ascent="public"), 100, gs.Budget(1.0, 1e-4))
GAME = gs.objectives.wgan(generator.generate, lambda w, image: w @ image, 3, 0.0)
CERTIFICATE = certify(PLAN, GAME, seed=None, diagnostics=False)


@pytest.fixture
def path(tmp_path):
    generator.save(tmp_path / "fakes.npz", LAYERS, CERTIFICATE)
    return tmp_path / "fakes.npz"


def rewrite(path, **changes):
    with np.load(path) as file:
        arrays = {**dict(file), **changes}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


def test_a_fake_is_what_numpy_computes():
    noise = np.random.default_rng(0).normal(size=3).astype(np.float32)
    signal = noise
    for layer in LAYERS[:-1]:
        signal = np.maximum(signal @ np.asarray(layer["weights"]) + np.asarray(layer["bias"]), 0)
    score = signal @ np.asarray(LAYERS[-1]["weights"]) + np.asarray(LAYERS[-1]["bias"])
    np.testing.assert_allclose(generator.generate(LAYERS, noise), 1 / (1 + np.exp(-score)), rtol=1e-5)


def test_signals_keep_their_size():
    """Behind 400 inputs of variance 1 a layer of 400 rectified units has second moment 1: 5 SE = 5·√(5/160 000)."""
    wide = generator.init_generator(jax.random.key(1), 400, (400,), 1)
    noise = jax.random.normal(jax.random.key(2), (400, 400))
    hidden = jax.nn.relu(noise @ wide[0]["weights"])
    assert abs(float((hidden**2).mean()) - 1) < 5 * math.sqrt(5 / 160_000)


def test_samples_differ_unless_a_seed_is_given():
    one, other, fixed = generator.sample(LAYERS, 8), generator.sample(LAYERS, 8), generator.sample(LAYERS, 8, seed=4)
    assert one.shape == (8, 2)
    assert (one > 0).all() and (one < 1).all()
    assert len(np.unique(fixed[:, 0])) > 4  # not all of them: rectified units may all be off
    assert (one != other).any()
    np.testing.assert_array_equal(fixed, generator.sample(LAYERS, 8, seed=4))
    with pytest.raises(ValueError, match="count = 0 must be a whole number of at least 1"):
        generator.sample(LAYERS, 0)


def test_a_saved_generator_comes_back_with_its_certificate(path):
    layers, certificate = generator.load(path)
    np.testing.assert_array_equal(generator.sample(layers, 8, seed=4), generator.sample(LAYERS, 8, seed=4))
    assert certificate == CERTIFICATE
    assert certificate.verify()


def test_a_generator_without_its_certificate_is_refused(path):
    path.with_suffix(".json").unlink()
    with pytest.raises(FileNotFoundError, match=r"comes with its certificate\. Copy both files"):
        generator.load(path)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"bias_1": None}, "which are no layers"),
        ({"weights_1": np.zeros((6, 4), np.float32)}, r"layer 1 has weights of shape \(6, 4\).*they do not fit"),
        ({"bias_0": np.zeros(4, np.float32)}, "layer 0 has weights of shape .*they do not fit"),
        ({"bias_2": np.full(2, np.nan, np.float32)}, "layer 2 has entries that are not finite"),
        ({"weights_0": np.array([{}], dtype=object)}, "is not a file that `save` wrote"),
    ],
)
def test_files_that_hold_no_generator_are_refused(path, changes, message):
    """The last one would need pickle, which can execute what it reads."""
    rewrite(path, **changes)
    with pytest.raises(ValueError, match=message):
        generator.load(path)


def test_other_files_are_refused(tmp_path, path):
    path.write_bytes(b"PK nonsense")
    with pytest.raises(ValueError, match="is not a file that `save` wrote"):
        generator.load(path)
    with pytest.raises(ValueError, match=r"must end in \.npz"):
        generator.save(tmp_path / "fakes.pkl", LAYERS, CERTIFICATE)
