"""The Poisson sampler's law: each test states its standard error and has a control that must fail it."""

from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from testkit.rings import deep_but

from gossamer.base.entropy import new_key
from gossamer.oracle import sampling
from gossamer.oracle.shards import Shards
from gossamer.privacy.sampling import Poisson

DRAWS = 8_000
drawn = jax.jit(sampling.poisson, static_argnums=(1, 2, 3))
scattered = jax.jit(sampling.scattered)


def poisson_memberships(n, rate, capacity, draws=DRAWS, seed=0):
    """Return a (draws, n) matrix: which records each draw included."""

    def one(key):
        sample = sampling.poisson(key, n, rate, capacity)
        return jnp.zeros(n, jnp.int32).at[sample.rows].add(sample.mask.astype(jnp.int32))

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(new_key(seed), draws)))


def fixed_size_memberships(n, size, draws=DRAWS, seed=0):
    """The control: exactly `size` distinct records, what many libraries call Poisson."""

    def one(key):
        return jnp.zeros(n, jnp.int32).at[jax.random.permutation(key, n)[:size]].add(1)

    return np.asarray(jax.jit(jax.vmap(one))(jax.random.split(new_key(seed), draws)))


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


@pytest.mark.deep
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


@pytest.mark.deep
@pytest.mark.parametrize(("n", "rate"), [(300, 0.05), (40, 0.9)])
def test_sizes_are_binomial(n, rate):
    # 5 standard errors: p = 5.7e-7.
    assert size_chi_square(poisson_memberships(n, rate, n), rate) > 5.7e-7
    assert size_chi_square(poisson_memberships(n, 1.06 * rate, n), rate) < 5.7e-7


@pytest.mark.deep
def test_gaps_are_geometric_in_a_table_of_ten_million():
    """P(first row ≥ k) = (1−q)^k, for k on either side of each digit's boundary; 5 standard errors each."""
    n, rate, draws = 10_000_000, 3e-5, 100_000
    first = jax.jit(jax.vmap(lambda key: sampling.poisson(key, n, rate, 8).rows[0]))(
        jax.random.split(new_key(1), draws)
    )
    first = np.asarray(first)
    for k in (1, 255, 256, 257, 5_000, 65_535, 65_536, 65_537, 100_000, 200_000):
        expected = (1 - rate) ** k
        error = np.sqrt(expected * (1 - expected) / draws)
        assert abs(np.mean(first >= k) - expected) < 5 * error
    # Control: the same frequencies at a rate 3 % off leave that band.
    wrong = (1 - 1.03 * rate) ** 50_000
    assert abs(np.mean(first >= 50_000) - wrong) > 5 * np.sqrt(wrong * (1 - wrong) / draws)


def exact_thresholds(n, rate, places):
    """P(digit < k) for k = 1, …, 255 as fractions without rounding; few places, as they are long."""
    r, found = 1 - Fraction(rate), []
    for place in range(places):
        powers = [r**k for k in range(1, 257)]
        whole = 1 if place == places - 1 else 1 - powers[-1]
        found.append([(1 - power) / whole for power in powers[:-1]])
        r = powers[-1]
    return found


def largest_error(thresholds, exact, bits):
    return max(
        abs(Fraction(t, 2**bits) - p)
        for digit, ps in zip(thresholds, exact, strict=True)
        for t, p in zip(digit, ps, strict=True)
    )


@pytest.mark.slow(each=True)
@pytest.mark.parametrize(("n", "rate"), [(200, 0.9), (255, 2.0**-70), (3_000, 2.0**-4)])
def test_each_threshold_is_within_one_unit_of_its_exact_probability(n, rate):
    """The control, thresholds made in float64, is not."""
    thresholds = sampling._thresholds(n, rate)
    exact = exact_thresholds(n, rate, len(thresholds))
    assert largest_error(thresholds, exact, 128) <= Fraction(1, 2**128)
    rounded = [[int(float(p) * 2.0**64) << 64 for p in digit] for digit in exact]
    assert largest_error(rounded, exact, 128) > Fraction(1, 2**128)


def test_thresholds_of_a_table_of_ten_million():
    """Three digits, against 90 decimals."""
    import mpmath

    n, rate = 10_000_000, 2.56e-5
    thresholds = sampling._thresholds(n, rate)
    assert len(thresholds) == 3
    with mpmath.workdps(90):
        for place, digit in enumerate(thresholds):
            r = (1 - mpmath.mpf(rate)) ** (256**place)
            for k in (1, 2, 100, 255):
                below = 1 - r**k if place == 2 else (1 - r**k) / (1 - r**256)
                assert abs(mpmath.mpf(digit[k - 1]) / 2**128 - below) <= mpmath.mpf(2) ** -128


def test_words_of_a_table_are_its_thresholds():
    table, thresholds = sampling._digit_table(3_000, 0.01), sampling._thresholds(3_000, 0.01)
    together = sum(table[i].astype(object) << 32 * (3 - i) for i in range(4))
    assert together[:, :-1].tolist() == thresholds


def test_a_shard_of_two_to_the_31_rows_is_refused():
    with pytest.raises(ValueError, match=r"n = 2147483648 rows"):
        sampling._thresholds(2**31, 0.5)


@pytest.mark.slow
def test_numbers_are_compared_by_all_of_their_bits():
    """Numbers on a threshold, and one below and above it; and those whose leading words alone would be wrong."""
    table, thresholds = sampling._digit_table(3_000, 0.01), sampling._thresholds(3_000, 0.01)
    places, expected, numbers = len(thresholds), [], []
    for k in (1, 15, 16, 17, 200, 255):
        for step in (-1, 0, 1):
            numbers.append([min(thresholds[place][k - 1] + step, 2**128 - 1) for place in range(places)])
            expected.append(
                [sum(number >= t for t in digit) for number, digit in zip(numbers[-1], thresholds, strict=True)]
            )
    words = [
        [[number >> 32 * (3 - i) & 0xFFFFFFFF for number in column] for column in zip(*numbers, strict=True)]
        for i in range(4)
    ]
    digits = np.asarray(sampling._digits(jnp.array(words, jnp.uint32), jnp.asarray(table)))
    np.testing.assert_array_equal(digits, np.transpose(expected))
    leading = np.asarray(sampling._digits(jnp.array(words[:1], jnp.uint32), jnp.asarray(table[:1])))
    assert np.any(leading != np.transpose(expected)), "where they are equal the others decide"


@pytest.mark.slow
def test_undecided_words_are_decided_by_the_rest(monkeypatch):
    """If all leading words are those of P(gap < 1) = 0.3, the next 32 bits f of that threshold decide: gap 0 or 1.

    4000 gaps, of which a share f/2^32 is 0, within 5 standard errors.
    """
    real, (leading, rest) = jax.random.bits, (int(word) for word in sampling._digit_table(200, 0.3)[:2, 0, 0])

    def bits(key, shape, dtype):
        return jnp.full(shape, leading, dtype) if shape[0] == 1 else real(key, shape, dtype)

    monkeypatch.setattr(jax.random, "bits", bits)
    draw = jax.jit(jax.vmap(lambda key: sampling.poisson(key, 200, 0.3, 200)))
    rows, masks = map(np.asarray, draw(jax.random.split(new_key(0), 40))[:2])
    gaps = np.concatenate([np.diff(r[m], prepend=-1) - 1 for r, m in zip(rows, masks, strict=True)])
    share = rest / 2**32
    assert 0.05 < share < 0.95
    assert set(gaps) == {0, 1}
    assert abs(np.mean(gaps == 0) - share) < 5 * np.sqrt(share * (1 - share) / len(gaps))


def coarse_inclusion(rate, bits, draws, seed=0):
    """The control: whether a row is included by a word of so few bits, rounded as a table would be."""
    words = np.random.default_rng(seed).integers(0, 1 << bits, draws)
    return words < round(rate * (1 << bits))


@pytest.mark.slow
def test_eight_bits_are_caught():
    """Inclusion of 2^17 rows at q = 0.0059: 5 standard errors are 0.0011; 8 bits can only say 2/256 = 0.0078."""
    n, rate = 1 << 17, 0.0059
    error = np.sqrt(rate * (1 - rate) / n)
    share = int(drawn(new_key(4), n, rate, 1200).mask.sum()) / n
    assert abs(share - rate) < 5 * error
    assert abs(coarse_inclusion(rate, 8, n).mean() - rate) > 5 * error


def test_the_error_of_a_sample_is_charged():
    """It covers all words and all pairs of slots of a table on one shard or on as many as it has rows."""
    for n in (3, 1000, 10**6):
        for shards in (1, 2, n):
            rows = -(-n // shards)
            words = 4 * rows * shards * 255 * Fraction(1, 2**128)
            ties = shards * Fraction(rows * (rows - 1), 2) / 2**128
            assert words + ties <= Fraction(Poisson(0.1).sampling_error(n))


def placed(key, rows, capacity):
    """Return the slot of each of these rows; in a sample they come first, in row order."""
    packed = jnp.zeros(capacity, jnp.int32).at[: len(rows)].set(jnp.asarray(rows))
    sample = sampling.scattered(key, sampling.Sample(packed, jnp.arange(capacity) < len(rows)))
    return jnp.stack([jnp.argmax(sample.mask & (sample.rows == row)) for row in rows])


def by_rank(key, rows, capacity):
    """The control: packed in row order, the first slots first."""
    return jnp.arange(len(rows))


def pair_chi_square(place, rows, capacity=6, draws=12_000):
    """p-value of the slots of the first two rows against all capacity·(capacity − 1) pairs being equally probable."""
    keys = jax.random.split(new_key(3), draws)
    slots = np.asarray(jax.jit(jax.vmap(lambda key: place(key, rows, capacity)[:2]))(keys))
    counts = np.bincount(slots[:, 0] * capacity + slots[:, 1], minlength=capacity**2).reshape(capacity, capacity)
    assert np.all(np.diag(counts) == 0)
    return stats.chisquare(counts[~np.eye(capacity, dtype=bool)]).pvalue


@pytest.mark.slow
def test_slots_are_uniform_whatever_else_is_in_the_sample():
    """Pairs of slots of rows 5 and 9, with row 7 between them and without it: the same law. 5 standard errors."""
    assert pair_chi_square(placed, (5, 9)) > 5.7e-7
    assert pair_chi_square(placed, (5, 9, 7)) > 5.7e-7
    assert pair_chi_square(by_rank, (5, 9)) < 5.7e-7


@pytest.mark.slow
def test_removing_a_row_leaves_the_others_where_they_are():
    """With the same order of slots, a row that becomes absent leaves an empty slot; packed by rank, others move up."""
    rows, capacity = jnp.arange(10, 18), 12
    packed = jnp.pad(rows, (0, capacity - len(rows)))
    mask = jnp.arange(capacity) < len(rows)
    whole = scattered(new_key(0), sampling.Sample(packed, mask))
    without = mask & (packed != 13)
    less = scattered(new_key(0), sampling.Sample(jnp.where(without, packed, 0), without))
    others = np.asarray(whole.rows != 13)
    np.testing.assert_array_equal(np.asarray(whole.rows)[others], np.asarray(less.rows)[others])
    assert not less.mask[~others].any()
    assert np.sum(np.asarray(packed)[:7] != np.delete(np.asarray(packed), 3)[:7]) == 4


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 340, 4097])
def test_scattering_loses_nothing(size):
    sample = scattered(new_key(1), sampling.Sample(jnp.arange(size), jnp.arange(size) % 3 == 0))
    np.testing.assert_array_equal(np.sort(np.asarray(sample.rows)), np.arange(size))
    np.testing.assert_array_equal(np.asarray(sample.mask), np.asarray(sample.rows) % 3 == 0)


@pytest.mark.parametrize(("size", "words"), [(50, 1), (600, 2)])
def test_slots_that_begin_alike_are_ordered_by_all_bits(size, words, monkeypatch):
    """With equal leading bits for all slots, 32 or 64, the others make an order, and not that of the rows."""
    real = jax.random.bits
    calls = []

    def bits(key, shape, dtype):
        calls.append(shape)
        return jnp.zeros(shape, dtype) if len(calls) == 1 else real(key, shape, dtype)

    monkeypatch.setattr(jax.random, "bits", bits)
    sample = sampling.scattered(new_key(1), sampling.Sample(jnp.arange(size), jnp.ones(size, bool)))
    assert sorted(np.asarray(sample.rows)) == list(range(size))
    assert np.asarray(sample.rows).tolist() != list(range(size))
    assert calls == [(words, size), (4 - words, size)]


@pytest.mark.slow
def test_empty_slots_show_the_first_row():
    """Also where a row was drawn that is absent from the table."""
    sampler = sampling.Sampler(
        Shards(100), jnp.arange(0), jnp.arange(100) % 2 == 0, new_key(0), capacity=64, first=jnp.int32(0)
    )
    sample = jax.jit(lambda: sampler.poisson(0.3))()
    assert np.all(np.asarray(sample.rows)[~np.asarray(sample.mask)] == 0)
    assert np.all(np.asarray(sample.rows)[np.asarray(sample.mask)] % 2 == 0)
    assert 0 < sample.mask.sum() < 64
    assert not np.all(np.diff(np.asarray(sample.rows)[np.asarray(sample.mask)]) > 0)


@pytest.mark.slow
def test_rows_are_sorted_and_padding_is_masked():
    sample = drawn(new_key(0), 100, 0.3, 64)
    rows = np.asarray(sample.rows)[np.asarray(sample.mask)]
    assert np.all(np.diff(rows) > 0)
    assert rows.max() < 100
    assert np.all(np.asarray(sample.rows)[~np.asarray(sample.mask)] == 0)


@pytest.mark.slow
def test_a_sample_may_be_empty():
    masks = [drawn(new_key(seed), 3, 0.01, 3).mask.any() for seed in range(20)]
    assert not all(masks)


@pytest.mark.slow
def test_a_full_sample_is_cut_at_its_capacity_in_row_order():
    """500 rows are expected and 16 fit: all of them count, and they are the first ones met, near the table's top."""
    small = drawn(new_key(2), 1000, 0.5, 16)
    assert small.rows.shape == (16,)
    assert bool(small.mask.all())
    assert np.all(np.diff(np.asarray(small.rows)) > 0)
    # The 16th of gaps with mean 2 and variance 2 is at 31 ± 5.7: 5 standard errors.
    assert abs(int(small.rows[-1]) - 31) < 5 * np.sqrt(32)


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 3, 8])
def test_blocks_are_disjoint_and_cover(shards):
    """Blocks of 6 places from place 2 on, over shards of which some have a row more than others."""
    n = 20
    sizes = [n // shards + (k < n % shards) for k in range(shards)]
    orders = [jax.random.permutation(new_key(k), size) for k, size in enumerate(sizes)]
    drawn = []
    for i in range(3):
        parts = [sampling.block(jnp.int32(2 + 6 * i), 6, order, k, shards) for k, order in enumerate(orders)]
        rows = [(k, int(row)) for k, part in enumerate(parts) for row in np.asarray(part.rows)[np.asarray(part.mask)]]
        assert len(rows) == 6
        drawn += rows
    assert len(set(drawn)) == 18
    if shards == 1:
        assert [row for _, row in drawn] == np.asarray(orders[0])[2:20].tolist()
