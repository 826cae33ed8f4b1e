"""Sums on a lattice: what one record can do to them, and what can be released at all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit.rings import deep_but

import gossamer as gs
from gossamer.oracle import lattice as lattices
from gossamer.oracle.clipping import clip_and_sum
from gossamer.oracle.lattice import BLOCK, Lattice
from gossamer.privacy import arithmetic

LATTICE = Lattice(arithmetic.LATTICE_BITS)
POINTS = 2.0**LATTICE.bits
ROWS, WIDTH = 3 * BLOCK + 17, 12
HIDDEN = 6


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def network(params, record):
    x, y = record
    score = params["out"] @ jnp.tanh(params["in"] @ x + params["bias"])
    return jax.nn.softplus(score) - y * score


def positions(params, record):
    """Many positions of one large site: Gram matrices, added up in float64."""
    x, y = record
    return jnp.sum(jnp.tanh(jnp.outer(jnp.stack([x[0], -x[0], x[1]]), numbers(40)) @ params["wide"])) * y


def lookup(params, record):
    x, y = record
    rows = jnp.stack([jnp.int32(3 * jnp.abs(x[0])) % 4, 1, jnp.int32(5 * jnp.abs(x[1])) % 4])
    return jnp.sum(jnp.tanh(params["table"][rows] * x)) * y


NETWORK = {"in": numbers(HIDDEN, WIDTH), "bias": numbers(HIDDEN, seed=1), "out": numbers(HIDDEN, seed=2)}
LINEAR = {"weights": numbers(WIDTH, seed=3), "intercept": np.float32(0.3)}
QUERIES = {
    "linear": (gs.Gradient(gs.objectives.logistic, LINEAR), "linear"),
    "linear difference": (
        gs.Difference(gs.objectives.logistic, LINEAR, jax.tree.map(lambda x: x + 0.1, LINEAR)),
        "linear",
    ),
    "ghost": (gs.Gradient(network, NETWORK), "ghost"),
    "ghost difference": (gs.Difference(network, NETWORK, jax.tree.map(lambda x: x + 0.1, NETWORK)), "ghost"),
    "ghost positions": (gs.Gradient(positions, {"wide": numbers(40, 30)}), "ghost"),
    "ghost lookup": (gs.Gradient(lookup, {"table": numbers(4, WIDTH)}), "ghost"),
    "vmap": (gs.Gradient(network, NETWORK), "vmap"),
    "vmap value": (gs.Value(lambda record: record[0]), "vmap"),
}
CLIP = 0.5
HOSTILE = {"nan": np.nan, "infinite": np.inf, "huge": 1e30, "tiny": 1e-30, "opposite": -3.0}


def table(seed=4):
    return numbers(ROWS, WIDTH, seed=seed), (numbers(ROWS, seed=seed + 1) > 0).astype(np.float32)


def summed(name, clip=CLIP):
    query, backend = QUERIES[name]

    @jax.jit
    def total(batch, mask):
        return clip_and_sum(query, batch, mask, jnp.float32(clip), backend, lattice=LATTICE)

    return lambda batch, mask: np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(total(batch, mask))])


def replaced(batch, row, value):
    x, y = batch[0].copy(), batch[1].copy()
    x[row] = value if value != -3.0 else -3.0 * x[row]
    return x, y


@pytest.fixture(params=deep_but(QUERIES, "linear", "ghost difference", "ghost positions", "vmap"), scope="module")
def case(request):
    return request.param, summed(request.param)


pytestmark = [pytest.mark.slow, pytest.mark.hostile]


def test_sums_are_whole_numbers_of_points_and_near_the_plain_ones(case):
    name, total = case
    query, backend = QUERIES[name]
    points = total(table(), np.ones(ROWS, bool))
    assert points.dtype == np.float64
    np.testing.assert_array_equal(points, np.rint(points))
    plain = clip_and_sum(query, table(), np.ones(ROWS, bool), CLIP, backend)
    plain = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(plain)])
    assert np.linalg.norm(points * CLIP / POINTS - plain) <= 1e-5 * ROWS * CLIP


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_record_changes_no_bit_outside_its_block(case, hostile):
    """Its own block is masked: the rest of the sum must not move at all, whatever the record holds."""
    _, total = case
    batch = table()
    for row in (5, BLOCK + 63, ROWS - 1):
        others = np.arange(ROWS) // BLOCK != row // BLOCK
        here, there = total(batch, others), total(replaced(batch, row, HOSTILE[hostile]), others)
        np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_record_moves_the_sum_by_no_more_than_is_charged(case, hostile):
    """In points, with the record, without it and with another in its place; also where many records pull one way."""
    _, total = case
    everyone = np.ones(ROWS, bool)
    for batch in (table(), (np.repeat(numbers(1, WIDTH), ROWS, axis=0), np.ones(ROWS, np.float32))):
        for row in (5, ROWS - 1):
            full = total(batch, everyone)
            without = total(batch, np.arange(ROWS) != row)
            other = total(replaced(batch, row, HOSTILE[hostile]), everyone)
            most = POINTS * (1 + arithmetic.INFLATION)
            assert np.linalg.norm(full - without) <= most
            assert np.linalg.norm(other - without) <= most
            assert np.linalg.norm(full - other) <= 2 * most


def test_where_chunks_are_cut_does_not_matter(case):
    name, total = case
    query, backend = QUERIES[name]
    batch, mask = table(), np.arange(ROWS) % 5 != 0
    chunked = jax.jit(
        lambda batch, mask: clip_and_sum(
            query, batch, mask, jnp.float32(CLIP), backend, microbatch=BLOCK, lattice=LATTICE
        )
    )
    chunked = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(chunked(batch, mask))])
    # Vectors may have other bits in a batch of another shape; sums of the same vectors may not.
    assert np.linalg.norm(chunked - total(batch, mask)) <= 1e-5 * ROWS * POINTS


def test_the_bound_on_rounding_is_not_far_from_what_hostile_blocks_do():
    """Terms of one sign and growing partial sums: within the bound, and more than a hundredth of it."""
    worst = 0.0
    for seed in range(20):
        rows = np.abs(numbers(BLOCK, 200, seed=seed))
        rows *= (1.0 / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
        got = np.asarray(LATTICE.add_up(lambda x: jnp.ones(BLOCK, jnp.float32) @ x, (jnp.asarray(rows),), 1.0))
        worst = max(worst, np.linalg.norm(got / POINTS - rows.astype(np.float64).sum(axis=0)))
    bound = BLOCK * (BLOCK + 1) * 2.0**-24 + np.sqrt(200) / POINTS
    assert bound / 300 < worst <= bound


def test_forms_whose_terms_cancel_are_added_up_in_float64():
    """A thousand positions that cancel: rounding them in float32 moves the sum by more than is charged."""
    positions, size = 1000, 8
    half = 1e3 * numbers(size, 1, positions // 2, 40)
    a = np.concatenate([half, -half], axis=2)
    d = np.ones((size, 1, positions, 5), np.float32)

    def error(wide):
        operands = jnp.asarray(a), jnp.asarray(d)
        points = LATTICE.add_up(lambda a, d: jnp.einsum("bhtn,bhtm->hnm", a, d), operands, 1.0, wide=wide)
        return float(np.linalg.norm(np.asarray(points)) / POINTS)

    assert error(True) < 1e-6
    assert error(False) > arithmetic.INFLATION


def released(total, noise, clip=1.0, size=4.0, bits=3):
    points = jnp.asarray(total, jnp.float64)
    return np.asarray(Lattice(bits).released(points, jnp.asarray(noise, jnp.int64), jnp.float32(clip), size))


@pytest.mark.parametrize("clip", [0.0, 1e-12, 1e-9, 1.0, 1e30])
def test_what_can_be_released_does_not_depend_on_the_table(clip):
    """All noise, all sums on a tiny lattice: the same set of bit patterns for every sum, up to where noise reaches."""
    with jax.enable_x64(True):
        noise = np.arange(-40, 41)
        sets = []
        for total in (-3.0, -0.0, 0.0, 1.0, 7.0):
            bits = released(np.full(81, total), noise, clip).view(np.int32)
            inside = np.abs(total + noise) <= 30
            sets.append(frozenset(bits[inside].tolist()))
        assert len(set(sets)) == 1

        # The control: whole numbers held in float64 have two zeros.
        def careless(total):
            return frozenset((np.float32(np.full(81, total) - np.abs(noise) * 0.0)).view(np.int32).tolist())

        assert careless(-0.0) != careless(0.0)


def test_a_sum_that_makes_no_sense_is_withheld():
    with jax.enable_x64(True):
        assert np.all(np.isnan(released([np.nan, np.inf, 2.0**53], [0, 0, 0])))
        assert np.all(np.isfinite(released([2.0**53 - 1], [5])))


def test_negative_zeros_and_empty_slots_add_nothing():
    """Masked rows, rows of negative zeros, and no row at all: the same points."""
    query, backend = QUERIES["linear"]
    batch = (np.full((BLOCK, WIDTH), -0.0, np.float32), np.ones(BLOCK, np.float32))
    for mask in (np.zeros(BLOCK, bool), np.ones(BLOCK, bool)):
        params = {"weights": np.zeros(WIDTH, np.float32)}
        points = clip_and_sum(gs.Gradient(query.loss, params), batch, mask, 1.0, backend, lattice=LATTICE)["weights"]
        assert np.all(np.asarray(points) == 0)
        with jax.enable_x64(True):
            answer = np.asarray(LATTICE.released(points, jnp.zeros(WIDTH, jnp.int64), jnp.float32(1.0), 64.0))
        assert not np.any(np.signbit(answer))


def test_the_charge_is_what_the_proof_adds_up():
    unit = 2.0**-24
    block = 2 * BLOCK * (BLOCK + 2) * 2 * unit
    lattice = np.sqrt(arithmetic.MOST_COORDINATES) * 2.0**-arithmetic.LATTICE_BITS
    assert block + lattice + 1e-6 <= arithmetic.INFLATION <= 1.1 * (block + lattice + 1e-6)
    for n in (10, 2**26, 2**28):
        bits = arithmetic.lattice_bits(n)
        assert n * 2.0**bits * 1.01 < 2.0**53
        assert np.sqrt(arithmetic.most_coordinates(bits)) * 2.0**-bits <= lattice
    with pytest.raises(ValueError, match="n = "):
        arithmetic.lattice_bits(2**40)


def test_answers_with_too_many_numbers_are_refused(monkeypatch):
    monkeypatch.setattr(lattices.arithmetic, "MOST_COORDINATES", 10)
    with pytest.raises(ValueError, match="an answer has 11 numbers"):
        LATTICE.check(np.zeros(11))


def test_more_noise_than_the_sampler_is_charged_for_is_withheld():
    with jax.enable_x64(True):
        assert LATTICE.affords(200.0, 10**12)
        assert not LATTICE.affords(200.0, 10**13)
        assert not LATTICE.affords(3e6, 1)
        assert not LATTICE.affords(1e-9, 10**14)
