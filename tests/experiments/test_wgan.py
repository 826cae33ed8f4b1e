"""The experiment on Wasserstein GANs: its ruler, its game, and a small run."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer import datasets
from gossamer.experiments import Settings, wgan
from gossamer.models import generator
from gossamer.objectives.wgan import wgan as game


def test_the_distance_of_shifted_images_is_known():
    """A shift by v moves each projection by ⟨v, direction⟩; a shuffle moves nothing."""
    images = np.random.default_rng(1).uniform(size=(50, wgan.PIXELS)).astype(np.float32)
    ruler = wgan.Ruler.of(images)
    shift = np.random.default_rng(2).normal(size=wgan.PIXELS).astype(np.float32)
    expected = float(np.abs(shift @ np.asarray(ruler.directions)).mean())
    assert ruler.distance(images[::-1]) == pytest.approx(0, abs=1e-5)
    assert ruler.distance(images[::-1] + shift) == pytest.approx(expected, rel=1e-4)


@pytest.mark.deep
def test_a_fake_weighs_as_much_as_a_record():
    """Where fakes and records are the same images, clipped fakes leave the critic's gradient at zero; others do not."""
    size = wgan.Size((4,), (8,), batch_size=16)
    critic, maker = wgan.start(size, jax.random.key(0))
    critic = jax.tree.map(lambda leaf: leaf + 0.5, critic)  # gradients far above the threshold
    key = jax.random.key(3)
    images = jax.vmap(lambda z: generator.generate(maker, z))(jax.random.normal(key, (16, wgan.LATENT)))
    records = gs.clipped_sum(wgan.critic, critic, images, wgan.CLIP)

    def left_over(problem):
        public = jax.grad(problem.public)(critic, maker, key)
        return max(
            float(jnp.abs(p - r / 16).max()) for p, r in zip(*map(jax.tree.leaves, (public, records)), strict=True)
        )

    assert left_over(wgan.problem(size)) < 1e-6
    unclipped = game(generator.generate, wgan.critic, wgan.LATENT, 0.0, fakes=16)
    assert left_over(unclipped) > 0.01


@pytest.mark.deep
def test_clipping_fakes_changes_neither_the_value_nor_the_generators_gradient():
    size = wgan.Size((4,), (8,), batch_size=16)
    critic, maker = wgan.start(size, jax.random.key(0))
    critic = jax.tree.map(lambda leaf: leaf + 0.5, critic)
    clipped, plain = (
        game(generator.generate, wgan.critic, wgan.LATENT, 0.1, fakes=16, clip=clip) for clip in (wgan.CLIP, None)
    )
    outcomes = [jax.value_and_grad(p.public, argnums=1)(critic, maker, jax.random.key(3)) for p in (clipped, plain)]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-9), *outcomes)
    with pytest.raises(ValueError, match=r"clip = 0\.0 must be a finite number above 0"):
        game(generator.generate, wgan.critic, wgan.LATENT, 0.1, clip=0.0)


def test_both_methods_differ_in_the_method_alone():
    one, other = map(dataclasses.asdict, wgan.methods(wgan.Size()).values())
    for name in ("steps", "batch_size", "clip_x", "learning_rate_x", "learning_rate_y", "ascent", "output"):
        assert one[name] == other[name]


@pytest.mark.deep
def test_the_command_writes_table_figures_certificates_and_a_generator(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="figures need gossamer[plots]")
    rng = np.random.default_rng(0)
    parts = [datasets.Images(rng.integers(0, 255, (n, 784)).astype(np.uint8), np.zeros(n)) for n in (300, 100)]
    monkeypatch.setattr(datasets, "mnist", lambda _: datasets.Split(*parts))
    monkeypatch.setattr(wgan, "EPSILONS", (1.0,))
    wgan.main(Settings(None, tmp_path, quick=True))
    text = (tmp_path / "wgan.md").read_text(encoding="utf-8")
    assert "| PrivateDiff | 1 |" in text and "non-private look" in text
    for name in ("curves.png", "digits.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
    path = tmp_path / "certificates" / "PrivateDiff-1.json"
    assert gs.Certificate.from_json(path.read_text(encoding="utf-8")).verify()
    layers, certificate = generator.load(tmp_path / "generator.npz")
    assert generator.sample(layers, 3).shape == (3, 784)
    assert certificate.verify() and certificate.epsilon == wgan.STORED
    assert certificate.seed == "entropy of the operating system"
