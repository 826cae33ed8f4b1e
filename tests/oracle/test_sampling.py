"""The Poisson sampler's law: each test states its standard error and has a control that must fail it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from testkit.rings import deep_but

from gossamer.oracle import sampling

DRAWS = 20_000


def poisson_memberships(n, rate, capacity, draws=DRAWS, seed=0):
    """Return a (draws, n) matrix: which records each draw included."""

    def one(key):
        sample = sampling.poisson(key, n, rate, capacity)
        return jnp.zeros(n, jnp.int32).at[sample.rows].add(sample.mask.astype(jnp.int32))

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(seed), draws)))


def fixed_size_memberships(n, size, draws=DRAWS, seed=0):
    """The control: exactly `size` distinct records, what many libraries call Poisson."""

    def one(key):
        return jnp.zeros(n, jnp.int32).at[jax.random.permutation(key, n)[:size]].add(1)

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(seed), draws)))


def inclusion_z(members, rate):
    """Largest deviation of a record's inclusion frequency in standard errors √(q(1−q)/draws)."""
    error = np.sqrt(rate * (1 - rate) / len(members))
    return np.abs(members.mean(0) - rate).max() / error


def pairwise_z(members, rate):
    """Deviation of the mean pairwise covariance from 0 in standard errors.

    Over all pairs, Σ_{i≠j}(m_i − q)(m_j − q) = (Σ(m_i − q))² − Σ(m_i − q)²; its standard deviation is estimated
    from the draws.
    """
    centred = members - rate
    cross = centred.sum(1) ** 2 - (centred**2).sum(1)
    return abs(cross.mean()) / (cross.std(ddof=1) / np.sqrt(len(cross)))


def size_chi_square(members, rate):
    """p-value of the batch sizes against Binomial(n, q), pooled to expected counts of at least 20."""
    n = members.shape[1]
    sizes = members.sum(1)
    low, high = (int(stats.binom.ppf(p, n, rate)) for p in (0.005, 0.995))
    observed = [np.sum(sizes <= low), *(np.sum(sizes == k) for k in range(low + 1, high)), np.sum(sizes >= high)]
    expected = [
        stats.binom.cdf(low, n, rate),
        *(stats.binom.pmf(k, n, rate) for k in range(low + 1, high)),
        stats.binom.sf(high - 1, n, rate),
    ]
    return stats.chisquare(observed, np.array(expected) * len(members)).pvalue


SHAPES = [(50, 0.1), (300, 0.05), (40, 0.9), (400, 0.01)]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "rate"), deep_but(SHAPES, SHAPES[0], SHAPES[2]))
def test_every_record_is_included_with_the_stated_probability(n, rate):
    members = poisson_memberships(n, rate, n)
    assert members.max() == 1, "a record was drawn twice"
    assert inclusion_z(members, rate) < 5
    assert inclusion_z(poisson_memberships(n, 1.3 * rate if rate < 0.8 else 0.95, n), rate) > 5


@pytest.mark.slow
@pytest.mark.parametrize(("n", "rate"), deep_but(SHAPES, SHAPES[0], SHAPES[2]))
def test_records_are_independent_of_each_other(n, rate):
    assert pairwise_z(poisson_memberships(n, rate, n), rate) < 5
    assert pairwise_z(fixed_size_memberships(n, round(n * rate)), rate) > 5


@pytest.mark.slow
@pytest.mark.parametrize(("n", "rate"), [(300, 0.05), (40, 0.9)])
def test_sizes_are_binomial(n, rate):
    # 5 standard errors: p = 5.7e-7.
    assert size_chi_square(poisson_memberships(n, rate, n), rate) > 5.7e-7
    assert size_chi_square(poisson_memberships(n, 1.06 * rate, n), rate) < 5.7e-7


@pytest.mark.slow
def test_gaps_are_geometric_in_a_table_of_ten_million():
    """P(first row ≥ k) = (1−q)^k, for k on either side of each digit's boundary; 5 standard errors each."""
    n, rate, draws = 10_000_000, 3e-5, 100_000
    first = jax.jit(jax.vmap(lambda key: sampling.poisson(key, n, rate, 8).rows[0]))(
        jax.random.split(jax.random.key(1), draws)
    )
    first = np.asarray(first)
    for k in (1, 255, 256, 257, 5_000, 65_535, 65_536, 65_537, 100_000, 200_000):
        expected = (1 - rate) ** k
        error = np.sqrt(expected * (1 - expected) / draws)
        assert abs(np.mean(first >= k) - expected) < 5 * error
    # Control: the same frequencies at a rate 3 % off leave that band.
    wrong = (1 - 1.03 * rate) ** 50_000
    assert abs(np.mean(first >= 50_000) - wrong) > 5 * np.sqrt(wrong * (1 - wrong) / draws)


def test_thresholds_hold_each_digit_to_two_to_the_minus_32():
    """The tables against exact probabilities in 50 digits."""
    import mpmath

    mpmath.mp.dps = 50
    n, rate = 10_000_000, 2.56e-5
    tables = sampling._digit_tables(n, rate)
    assert len(tables) == 3
    for place, table in enumerate(tables):
        r = (1 - mpmath.mpf(rate)) ** (256**place)
        for k in (1, 2, 100, 255):
            below = 1 - r**k if place == 2 else (1 - r**k) / (1 - r**256)
            assert abs(mpmath.mpf(int(table[k - 1])) / 2**32 - below) <= mpmath.mpf(1) / 2**32


@pytest.mark.slow
def test_rows_are_sorted_and_padding_is_masked():
    sample = sampling.poisson(jax.random.key(0), 100, 0.3, 64)
    rows = np.asarray(sample.rows)[np.asarray(sample.mask)]
    assert np.all(np.diff(rows) > 0)
    assert rows.max() < 100
    assert np.all(np.asarray(sample.rows)[~np.asarray(sample.mask)] == 0)


def test_a_sample_may_be_empty():
    masks = [sampling.poisson(jax.random.key(seed), 3, 0.01, 3).mask.any() for seed in range(20)]
    assert not all(masks)


def test_a_full_sample_is_cut_at_its_capacity_in_row_order():
    """500 rows are expected and 16 fit: all of them count, and they are the first ones met, near the table's top."""
    small = sampling.poisson(jax.random.key(2), 1000, 0.5, 16)
    assert small.rows.shape == (16,)
    assert bool(small.mask.all())
    assert np.all(np.diff(np.asarray(small.rows)) > 0)
    # The 16th of gaps with mean 2 and variance 2 is at 31 ± 5.7: 5 standard errors.
    assert abs(int(small.rows[-1]) - 31) < 5 * np.sqrt(32)


@pytest.mark.parametrize("shards", [1, 3, 8])
def test_blocks_are_disjoint_and_cover(shards):
    """Blocks of 6 places from place 2 on, over shards of which some have a row more than others."""
    n = 20
    sizes = [n // shards + (k < n % shards) for k in range(shards)]
    orders = [jax.random.permutation(jax.random.key(k), size) for k, size in enumerate(sizes)]
    drawn = []
    for i in range(3):
        parts = [sampling.block(jnp.int32(2 + 6 * i), 6, order, k, shards) for k, order in enumerate(orders)]
        rows = [(k, int(row)) for k, part in enumerate(parts) for row in np.asarray(part.rows)[np.asarray(part.mask)]]
        assert len(rows) == 6
        drawn += rows
    assert len(set(drawn)) == 18
    if shards == 1:
        assert [row for _, row in drawn] == np.asarray(orders[0])[2:20].tolist()
