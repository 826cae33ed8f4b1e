"""The WGAN: its value is the paper's, records meet the critic alone, and the generator learns without asking."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.methods import SGDA, PrivateDiff
from gossamer.objectives import wgan

BUDGET, FREE = gs.Budget(2.0, 1e-3), gs.Budget(math.inf, 1e-5)


def shift(theta, noise):
    return theta + 0.1 * noise


def line(w, sample):
    return jnp.dot(w, sample)


GAME = wgan(shift, line, latent=2, penalty=0.5, fakes=16)
START = (jnp.zeros(2), jnp.zeros(2))
RECORDS = jnp.array([[1.0, -1.0], [1.2, -0.8], [0.8, -1.2], [1.0, -1.0]])


def test_the_value_is_equation_65_turned_round():
    """For a linear critic E D(G) = ⟨w, θ + noise⟩; the noise of 16·2 fakes averages to below 5·0.1/√16·‖w‖."""
    w, theta = jnp.array([0.5, 2.0]), jnp.array([0.3, 0.1])
    expected = -float(jnp.mean(RECORDS @ w)) + float(w @ theta) + 0.5 * float(w @ w)
    noise = 5 * 0.1 / 4 * float(jnp.linalg.norm(w))
    value = float(GAME.objective((w, theta), RECORDS))
    assert abs(value - expected) < noise
    assert value != expected


@pytest.mark.slow
def test_the_public_gradient_is_unbiased_and_fresh():
    """Over 2000 steps the gradient in w is θ + 2·0.5·w to within 5 SE, one being 0.1/√(16·2000)."""
    w, theta = jnp.array([0.5, 2.0]), jnp.array([0.3, 0.1])
    gradients = jax.vmap(lambda key: GAME.public_gradient((w, theta), key)[0])(
        jax.random.split(jax.random.key(0), 2000)
    )
    np.testing.assert_allclose(jnp.mean(gradients, axis=0), theta + w, atol=5 * 0.1 / math.sqrt(16 * 2000))
    assert len(np.unique(np.asarray(gradients)[:, 0])) > 1990


@pytest.mark.deep
@pytest.mark.parametrize(
    "method",
    [
        SGDA(steps=150, learning_rate_x=0.3, learning_rate_y=0.3, clip_x=3.0, batch_size=4, ascent="public"),
        PrivateDiff(steps=150, learning_rate_x=0.3, learning_rate_y=0.3, clip_x=3.0, batch_size=4, ascent="public"),
    ],
    ids=["SGDA", "PrivateDiff"],
)
def test_the_generator_finds_the_records(method):
    """Without noise θ goes to the mean record, and the critic to zero."""
    w, theta = gs.solve(GAME, RECORDS, method, FREE, init=START, seed=0).params
    np.testing.assert_allclose(theta, [1.0, -1.0], atol=0.05)
    np.testing.assert_allclose(w, [0.0, 0.0], atol=0.05)


@pytest.mark.slow
def test_only_the_critic_is_asked_for():
    """The answers have the critic's shape; the generator's first step is the same whatever the records are."""
    method = PrivateDiff(steps=2, batch_size=4, ascent="public")
    assert [query.name for query in gs.plan(method, 4, BUDGET).schedule] == ["gradient", "difference"]
    at = (jnp.array([0.5, 2.0]), jnp.zeros(2))
    one = SGDA(steps=1, batch_size=4, ascent="public")
    runs = [gs.solve(GAME, table, one, BUDGET, init=at, seed=s).params for s, table in ((0, RECORDS), (1, -RECORDS))]
    np.testing.assert_array_equal(runs[0][1], runs[1][1])
    assert np.any(runs[0][0] != runs[1][0])


@pytest.mark.slow
def test_replay():
    """The public randomness is no way past the oracle."""
    method = SGDA(steps=3, batch_size=4, ascent="public")
    report = gs.audit.replay(GAME, RECORDS, 3.0 - RECORDS, method, BUDGET, init=START)
    assert report, report.differing


@pytest.mark.deep
def test_networks_as_players():
    critic, generator = (eqx.nn.MLP(2, k, 4, 1, key=jax.random.key(k)) for k in (1, 2))
    game = wgan(lambda model, noise: model(noise), lambda model, z: model(z)[0], latent=2, penalty=0.1, fakes=8)
    method = SGDA(steps=3, batch_size=4, ascent="public")
    after = gs.solve(game, RECORDS, method, FREE, init=(critic, generator), seed=0).params
    for before, moved in zip((critic, generator), after, strict=True):
        assert isinstance(moved, eqx.nn.MLP)
        assert np.any(before.layers[0].weight != moved.layers[0].weight)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="latent = 0 must be a whole number of at least 1"):
        wgan(shift, line, latent=0, penalty=0.1)
    with pytest.raises(ValueError, match="penalty = -1 must be a finite number of at least 0"):
        wgan(shift, line, latent=2, penalty=-1)
    with pytest.raises(ValueError, match=r"records do not meet y.* Use ascent = 'public'"):
        gs.solve(GAME, RECORDS, SGDA(batch_size=2), BUDGET, init=START)
