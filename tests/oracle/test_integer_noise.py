"""Integer noise: every draw against exact arithmetic, its law, its errors against what is proved."""

import functools
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P
from scipy import stats
from testkit import exact_normals, running_error

from gossamer.oracle import integer_noise
from gossamer.oracle.double_double import Double
from gossamer.privacy import sampler_error

pytestmark = pytest.mark.slow
SIGNIFICANT = 5.7e-7
"""Five standard errors."""


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


@functools.partial(jax.jit, static_argnames="shape")
def integers(key, shape, deviation):
    return integer_noise.integers(key, shape, deviation)


def draw(seed, shape, deviation):
    return np.asarray(integers(jax.random.key(seed), shape, jnp.float64(deviation)))


# Errors.


def test_the_errors_of_both_levels_are_proved():
    first, second = running_error.first_error(), running_error.second_error()
    assert max(first["lower"], first["upper"]) <= integer_noise.FIRST_ERROR
    assert max(second["lower"], second["upper"]) <= exact_normals.SECOND_ERROR
    # Cells are within 2.26e·max(D, 128).
    assert sampler_error.log_ratio(1, 2.0**30) >= 2.26 * exact_normals.SECOND_ERROR * 2.0**30
    assert sampler_error.log_ratio(2.0**30, 2.0**40) < 1e-7


def test_a_series_that_is_too_short_has_no_proof(monkeypatch):
    monkeypatch.setattr(integer_noise, "FIRST", integer_noise.FIRST._replace(atanh=13))
    monkeypatch.setattr(integer_noise, "SECOND", integer_noise.SECOND._replace(cosine=12))
    assert running_error.first_error()["lower"] > integer_noise.FIRST_ERROR
    assert running_error.second_error()["lower"] > exact_normals.SECOND_ERROR


@pytest.mark.deep
def test_optimised_programs_keep_to_the_proved_errors():
    """Compiled as users compile."""
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    command = [sys.executable, exact_normals.__file__, "5000"]
    ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found = json.loads(ran.stdout)
    assert found["settled"] > 0.5 * found["pairs"]
    assert 0.01 < found["first"] < 1
    assert 0.001 < found["second"] < 1
    assert found["low words"] > 2.0**30  # Control: without them, the error is far larger.


# Every draw.


def replayed(seed, size, deviation):
    """Return the words of all pairs as `integers` draws them, and where the second level was asked."""
    key = jax.random.key(seed)
    columns = min((size + 1) // 2, 16)
    rows = -(-((size + 1) // 2) // columns)
    words = np.asarray(jax.random.bits(key, (4, rows, columns), jnp.uint32))
    normal, settled = jax.jit(integer_noise.first_level)(words)
    product = deviation * np.asarray(normal)
    sure = abs(product - np.rint(product)) < 0.5 - (deviation * integer_noise.FIRST_ERROR + 2.0**-50)
    left = ~(np.asarray(settled) & sure.all(0))
    more = np.zeros((8, rows, columns), np.uint32)
    for turn in range(left.sum(0).max()):
        fresh = np.asarray(jax.random.bits(jax.random.fold_in(key, turn), (8, columns), jnp.uint32))
        for column in range(columns):
            asked = np.flatnonzero(left[:, column])
            if turn < len(asked):
                more[:, asked[turn], column] = fresh[:, column]
    return words.reshape(4, -1), more.reshape(8, -1), left.reshape(-1)


@pytest.mark.parametrize("deviation", [0.3, 2.0**20, 2.0**44, 2.0**46])
def test_every_draw_is_the_rounded_exact_normal(deviation):
    """Where the first level is sure, also for all values of the bits that it did not draw."""
    size = 600
    words, more, left = replayed(3, size, deviation)
    drawn = draw(3, (size,), deviation)
    values = np.concatenate([drawn, np.zeros(2 * len(left) - size, np.int64)]).reshape(2, -1)
    for i in range(len(left)):
        for end in (0, 1):
            exact = exact_normals.pair(words[:, i], more[:, i] if left[i] else (), end)
            for j in range(2):
                if j * len(left) + i < size:
                    assert values[j, i] == int(mpmath.nint(deviation * exact[j]))
    if deviation >= 2.0**44:
        assert left.mean() > 0.3
    if deviation == 2.0**46:
        assert left.all()


def test_the_second_level_agrees_wherever_the_first_is_sure():
    words = np.random.default_rng(0).integers(0, 2**32, (12, 100_000), np.uint32)
    deviation = 2.0**28
    normal, settled = map(np.asarray, jax.jit(integer_noise.first_level)(words[:4]))
    product = deviation * normal
    sure = settled & (abs(product - np.rint(product)) < 0.5 - (deviation * integer_noise.FIRST_ERROR + 2.0**-50))

    def second(words, deviation):
        exact = integer_noise.second_level(words[:4], words[4:])
        return integer_noise.rounded(Double(deviation * exact.hi, deviation * exact.lo))

    precise = second(words, deviation)
    assert np.array_equal(precise[sure], np.rint(product)[sure])
    assert 0.999 < sure.mean() < 1
    # Control: without the margin the first level would be wrong.
    assert not np.array_equal(second(words, 2.0**44), np.rint(2.0**44 * normal))


def test_ties_are_decided_by_the_low_word():
    hi = np.array([0.5, 0.5, 1.5, 1.5, -0.5, -0.5, 2.0**50, 2.0**50 + 0.5, -3.0, 0.25])
    lo = np.array([1e-40, -1e-40, 1e-30, -1e-30, -1e-40, 1e-40, -0.1, 0.05, -1e-17, 0.0])
    expected = [1, 0, 2, 1, -1, 0, 2**50, 2**50 + 1, -3, 0]
    assert integer_noise.rounded(Double(hi, lo)).tolist() == expected


# The law.


def chi_square(counts, probabilities):
    """Return the p-value, with cells of fewer than ten expected draws in one."""
    expected = probabilities * counts.sum()
    large = expected >= 10
    counts = np.append(counts[large], counts[~large].sum())
    expected = np.append(expected[large], expected[~large].sum())
    return stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue


def cell_p_value(values, deviation):
    largest = int(40 * deviation) + 1
    cells = np.arange(-largest, largest + 1)
    # Both from the lower tail, which has relative precision.
    probabilities = stats.norm.cdf((0.5 - abs(cells)) / deviation) - stats.norm.cdf((-0.5 - abs(cells)) / deviation)
    counts = np.bincount(np.clip(values, -largest, largest) + largest, minlength=2 * largest + 1)
    return chi_square(counts, probabilities)


def test_tails_do_not_end_where_uniforms_of_32_bits_end_them():
    """The least of 2^32 uniforms has a radius of 6.8; the rest, 1e-10 of all, would tell tables apart."""
    least = integer_noise.second_level(np.zeros((4, 1), np.uint32), np.zeros((8, 1), np.uint32))
    assert np.max(np.abs(least.hi)) > 14.0
    short = np.sqrt(-2 * np.log(2.0**-33))  # the control: half a unit of 32 bits
    assert short < 7 < stats.norm.isf(2.0**-60)


@pytest.mark.deep
@pytest.mark.parametrize("deviation", [0.5, 3.0])
def test_cells_have_their_probabilities(deviation):
    n = 4_000_000
    assert cell_p_value(draw(5, (n,), deviation), deviation) > SIGNIFICANT
    # Control: tails that end at three deviations.
    short = np.clip(np.random.default_rng(5).standard_normal(n), -2.99, 2.99)
    assert cell_p_value(np.rint(deviation * short).astype(np.int64), deviation) < SIGNIFICANT


def test_low_bits_are_uniform_and_moments_right():
    n, deviation = 2_000_000, 2.0**30
    values = draw(7, (n,), deviation)
    for selected in (values, values[abs(values) < deviation], values[abs(values) > 3 * deviation]):
        assert stats.chisquare(np.bincount(selected & 255, minlength=256)).pvalue > SIGNIFICANT
    z = values / deviation
    assert abs(z.mean()) < 5 / np.sqrt(n)
    assert abs(z.var() - 1) < 5 * np.sqrt(2 / n)
    assert abs((z**3).mean()) < 5 * np.sqrt(15 / n)
    assert abs(np.corrcoef(z[: n // 2], z[n // 2 :])[0, 1]) < 5 / np.sqrt(n / 2)


def test_normals_are_what_the_integers_round():
    z = np.asarray(jax.jit(lambda key: integer_noise.normals(key, (1001,)))(jax.random.key(2)))
    assert z.dtype == np.float64
    assert np.array_equal(np.rint(2.0**20 * z), draw(2, (1001,), 2.0**20))


# Shapes and transformations.


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 5), (2, 0, 3)])
def test_all_shapes_are_drawn(shape):
    values = draw(1, shape, 100.0)
    assert values.shape == shape
    assert values.dtype == np.int64


def test_deviation_zero_gives_zeros():
    assert not draw(1, (40_000,), 0.0).any()


@pytest.mark.deep
def test_transformations_change_no_draw():
    keys = jax.random.split(jax.random.key(4), 8)
    one = functools.partial(integer_noise.integers, shape=(33,), deviation=jnp.float64(2.0**44))
    each = np.stack([jax.jit(one)(key) for key in keys])
    assert np.array_equal(jax.jit(jax.vmap(one))(keys), each)

    def store(i, rows):
        return rows.at[i].set(one(keys[i]))

    assert np.array_equal(jax.jit(lambda: jax.lax.fori_loop(0, 8, store, jnp.zeros((8, 33), jnp.int64)))(), each)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
    for check in (True, False):
        sharded = jax.shard_map(jax.vmap(one), mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=check)
        assert np.array_equal(jax.jit(sharded)(keys), each)


def test_other_keys_draw_other_integers():
    assert not np.array_equal(draw(1, (10,), 1e6), draw(2, (10,), 1e6))
    assert len(np.unique(draw(1, (10_000,), 2.0**44))) == 10_000
