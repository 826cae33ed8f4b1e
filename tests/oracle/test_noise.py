"""Noise: its law, its tails, and that it does not live on a coarse lattice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gossamer.oracle import noise

pytestmark = pytest.mark.slow
N = 4_000_000


@pytest.fixture(scope="module")
def draws():
    return np.asarray(noise.normal(jax.random.key(1), (N,)), np.float64)


def test_the_law_is_standard_normal(draws):
    assert stats.kstest(draws, "norm").pvalue > 5.7e-7
    assert abs(draws.mean()) < 5 / np.sqrt(N)
    assert abs(draws.var() - 1) < 5 * np.sqrt(2 / N)
    # Control: half a percent more variance is told apart.
    assert abs((1.005**0.5 * draws).var() - 1) > 5 * np.sqrt(2 / N)


@pytest.mark.parametrize("beyond", [2.0, 3.0, 4.0, 4.5])
def test_tails_have_their_mass(draws, beyond):
    """Poisson counts: 5 standard errors."""
    expected = N * 2 * stats.norm.sf(beyond)
    assert abs(np.sum(np.abs(draws) > beyond) - expected) < 5 * np.sqrt(expected)


def test_pairs_of_the_same_radius_are_independent(draws):
    first, second = draws[: N // 2], draws[N // 2 :]
    error = 5 / np.sqrt(N // 2)
    assert abs(np.corrcoef(first, second)[0, 1]) < error
    assert abs(np.corrcoef(first**2, second**2)[0, 1]) < error


def test_values_hardly_repeat(draws):
    """The usual sampler has 2^23 values, of which 4 million draws meet about 3.2 million distinct ones."""
    ours = len(np.unique(draws.astype(np.float32)))
    usual = len(np.unique(np.asarray(jax.random.normal(jax.random.key(1), (N,)))))
    assert ours > 0.95 * N > usual


def test_the_radius_is_right_at_both_ends():
    """−log U with 64 bits: to 1e-6 relative from U = 2^-64 to 1 − 2^-33."""
    words = [(0, 0), (0, 2**31), (1, 0), (77, 12345), (2**31 - 1, 5), (2**31, 5), (2**32 - 2, 0), (2**32 - 1, 0)]
    coarse, fine = (jnp.array(column, jnp.uint32) for column in zip(*words, strict=True))
    ours = np.asarray(noise._exponential(coarse, fine), np.float64)
    for value, (c, f) in zip(ours, words, strict=True):
        # 1 − U has an exact numerator, so that log1p does not cancel.
        complement = (2**64 - (2**32 * c + f)) - 0.5
        small = complement / 2**64
        exact = -np.log1p(-small) if small < 0.5 else -np.log((2**32 * c + f + 0.5) / 2**64)
        assert value == pytest.approx(exact, rel=1e-6)


def test_directions_lie_on_the_circle_and_cover_it():
    turn = jax.random.bits(jax.random.key(2), (1_000_000,), jnp.uint32)
    cosine, sine = (np.asarray(part, np.float64) for part in noise._direction(turn))
    np.testing.assert_allclose(cosine**2 + sine**2, 1.0, atol=5e-7)
    angle = (np.arctan2(sine, cosine) / (2 * np.pi)) % 1.0
    assert stats.kstest(angle, "uniform").pvalue > 5.7e-7
