"""Noise that is correlated along a stream: its privacy by exact columns, its law by simulation."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.oracle import Ask, Oracle
from gossamer.oracle.ask import Ledger
from gossamer.oracle.correlation import (
    STRATEGIES,
    mixed,
    mixture,
    nodes_over_leaves,
    running_noise,
    scale,
    strategy_matrix,
)
from gossamer.oracle.door import Door, Secrets
from gossamer.privacy import accounting
from gossamer.privacy.sampling import Blocks, Poisson, Stream
from gossamer.privacy.schedule import Query, Schedule


def printed_nodes(t):
    """NODE(t) of paper ZO, Algorithm 5, line by line: the nodes (first leaf, last leaf) of a prefix."""
    k, nodes = 0, set()
    for i in range(math.ceil(math.log2(t)) + 1):
        if k >= t:
            break
        after = k + 2 ** (math.ceil(math.log2(t)) - i)
        if after <= t:
            nodes.add((k + 1, after))
            k = after
    return nodes


@pytest.mark.parametrize("length", range(1, 65))
def test_the_nodes_over_each_leaf_are_counted(length):
    used = set().union(*(printed_nodes(t) for t in range(1, length + 1)))
    counted = [sum(first <= leaf <= last for first, last in used) for leaf in range(1, length + 1)]
    np.testing.assert_array_equal(nodes_over_leaves(length), counted)
    assert max(counted) == math.floor(math.log2(length)) + 1
    # The noise of a prefix is that of its nodes, each of which pays for the most nodes over any leaf.
    expected = [math.sqrt(max(counted) * len(printed_nodes(t))) for t in range(1, length + 1)]
    np.testing.assert_allclose(running_noise("tree", length), expected, rtol=1e-12)


def test_the_printed_number_of_nodes_is_caught_where_it_is_too_small():
    """Noise for √(2 ln T) instead of the root of the nodes costs more than its ε at T = 1, 2 and 4, and only there."""
    (query,) = accounting.calibrate(Schedule((Query("g", 1, Blocks(50)),)), gs.Budget(1.0, 1e-5), 100)

    def cost(length):
        share = math.sqrt(2 * math.log(length) / max(nodes_over_leaves(length)))
        printed = Query("g", 1, Blocks(50), noise_multiplier=share * query.noise_multiplier)
        return accounting.pld_epsilon(Schedule((printed,)), 1e-5, "replace_one")

    assert cost(1) == math.inf
    assert cost(2) > 1.2
    assert cost(4) > 1.03
    too_small = [t for t in range(1, 65) if 2 * math.log(t) < max(nodes_over_leaves(t))]
    assert too_small == [1, 2, 4]
    assert all(cost(t) <= 1.0 for t in (3, 5, 8, 9, 16))


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 2, 3, 7, 64, 200])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_column_of_the_strategy_is_longer_than_one(strategy, length):
    """Also of the strategy that the mixture of draws amounts to: this is all that the proof needs of it."""
    C = strategy_matrix(strategy, length)
    assert np.all(np.tril(C) == C) and np.all(np.diag(C) > 0)
    mixed = mixture(strategy, length)
    effective = np.linalg.inv(scale(Stream(strategy, length, 0, 1)) * mixed.astype(np.float64))
    longest = np.linalg.norm(effective, axis=0).max()
    assert 1 - 1e-5 < longest <= 1 + 1e-12


def test_the_factorization_does_not_depend_on_the_precision_around_it():
    """Its matrix is the square root of that of prefix sums to float64, wherever a program first asks for it."""
    with jax.enable_x64(True):
        wide = strategy_matrix("factorization", 200)
    C = strategy_matrix("factorization", 200)
    np.testing.assert_array_equal(C, wide)
    prefix = C @ C / C[0, 0] ** 2
    np.testing.assert_allclose(prefix, np.tri(200), rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 3, 7, 64, 200])
def test_the_tree_mixes_whole_numbers(length):
    """So that answers are whole: its matrix and the inverse have whole entries, whose product is 1."""
    inverse = mixture("tree", length)
    assert inverse.dtype == np.int64
    nodes = np.rint(strategy_matrix("tree", length) * scale(Stream("tree", length, 0, 1))).astype(np.int64)
    np.testing.assert_array_equal(nodes @ inverse, np.eye(length, dtype=np.int64))


def test_a_tree_mixes_draws_exactly():
    """Whole numbers far beyond what float32 or float64 hold: every answer is the integer that the proof is about."""
    length, size = 7, 3
    draws = np.random.default_rng(0).integers(-(2**60), 2**60, (length, size)) // length
    with jax.enable_x64(True):
        held = jnp.asarray(draws)
        answers = [
            mixed(Stream("tree", length, 0, length), jnp.int32(place), lambda j: held[j], jnp.zeros(size))
            for place in range(length)
        ]
        np.testing.assert_array_equal(np.stack(answers), mixture("tree", length) @ draws)


@pytest.mark.slow
def test_the_factorization_is_less_noisy_than_the_tree():
    def rms(strategy, length):
        return np.sqrt(np.mean(running_noise(strategy, length) ** 2))

    assert rms("factorization", 1024) < 0.75 * rms("tree", 1024)
    assert all(rms("factorization", t) < rms("tree", t) for t in (2, 3, 16))


def two_streams(strategy):
    """Two streams of four answers: one by "first" and three by "rest"."""
    return (
        Query("first", 2, Blocks(1, Stream(strategy, 4, first=0, share=1))),
        Query("rest", 6, Blocks(1, Stream(strategy, 4, first=1, share=3))),
    )


def noises(strategy, runs):
    """Return the noise of two streams of four answers in many runs: (runs, 2, 4)."""
    door = Door(12, Schedule(two_streams(strategy)), ())

    def run(key):
        secrets = Secrets(jnp.zeros((12, 1)), {"first": 2.0, "rest": 2.0}, key, jnp.arange(12))
        ask = Ask(Oracle(door, secrets), Ledger.empty(door.schedule), new_key(0))
        asked = [ask(name, lambda z: z, clip=1.0) for name in ("first", *("rest",) * 3) * 2]
        return jnp.concatenate(asked).reshape(2, 4)

    return np.asarray(jax.jit(jax.vmap(run))(jax.random.split(new_key(1), runs)))


@pytest.mark.deep
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_door_draws_the_noise_that_the_proof_is_about(strategy):
    """The covariance of a stream's answers is σ² C⁻¹C⁻ᵀ, and another stream's noise is independent of it."""
    runs = 20_000
    drawn = noises(strategy, runs)
    inverse = np.linalg.inv(strategy_matrix(strategy, 4))
    expected = np.kron(np.eye(2), 4.0 * inverse @ inverse.T)
    flat = drawn.reshape(runs, 8)
    measured = flat.T @ flat / runs
    # The standard error of an empirical covariance is ((Σ_ii Σ_jj + Σ_ij²)/runs)^½.
    error = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / runs)
    assert np.all(np.abs(measured - expected) < 5 * error)
    independent = 4.0 * np.eye(8)  # the control: uncorrelated noise is not what was drawn
    assert np.max(np.abs(measured - independent) / error) > 20


@pytest.mark.slow
def test_all_draws_of_a_stream_count_as_noise(monkeypatch):
    """A stream that is left after its first answer has drawn for all of its places."""
    query = Query("first", 2, Blocks(1, Stream("tree", 5, first=0, share=1)))
    door = Door(12, Schedule((query,)), ())
    secrets = Secrets(jnp.zeros((12, 1)), {"first": 2.0}, new_key(1), jnp.arange(12))
    asked = []
    monkeypatch.setattr(type(door.lattice), "affords", lambda self, sigma, numbers: asked.append(numbers) or True)
    Ask(Oracle(door, secrets), Ledger.empty(door.schedule), new_key(0))("first", lambda z: z, 1.0)
    assert asked == [2 * 5]


def test_streams_that_would_repeat_noise_are_refused():
    first, rest = two_streams("factorization")
    with pytest.raises(TypeError, match="stream"):  # only disjoint blocks have one
        Poisson(0.1, stream=Stream("tree", 4, 0, 1))
    for first_place, share in ((2, 3), (0, 5), (-1, 2), (0, 0), (0, 1.5)):
        with pytest.raises(ValueError, match="beyond its length"):
            Stream("tree", 4, first_place, share)
    with pytest.raises(ValueError, match="no place twice"):
        Schedule((first, Query("again", 2, first.sampling)))
    with pytest.raises(ValueError, match="one strategy"):
        Schedule((first, Query("other", 2, Blocks(1, Stream("tree", 4, 1, 1)))))
    with pytest.raises(ValueError, match="strategy = 'bush'"):
        strategy_matrix("bush", 4)
    assert Schedule.from_dicts(Schedule((first, rest)).to_dicts()) == Schedule((first, rest))


def test_a_block_of_b_rows_has_b_rows():
    """b/n·n is not b in float64 for every b and n, and the first version wrote b/n: rounding down would lose rows."""
    short = 0
    for n in range(1, 2000, 7):
        for b in range(1, n + 1, 11):
            (query,) = Schedule.from_dicts([dict(name="g", count=1, rate=b / n, disjoint=True)], n)
            assert query.sampling == Blocks(b)
            short += int(b / n * n) < b
    assert short > 0


@pytest.mark.slow(each=True)
@pytest.mark.parametrize(("strategy", "most"), [("tree", 2.0), ("factorization", 33.0)])
def test_an_answer_draws_no_more_than_it_mixes(strategy, most):
    """64 answers: two draws each on average of the tree, and those up to its place of the factorization."""
    length, drawn = 64, []

    def draw(j):
        jax.debug.callback(lambda j: drawn.append(int(j)), j)
        return jnp.ones((1 << 18,), jnp.int64)

    with jax.enable_x64(True):
        answer = jax.jit(lambda place: mixed(Stream(strategy, length, 0, length), place, draw, jnp.zeros(1 << 18)))
        for place in range(length):
            jax.block_until_ready(answer(place))
    jax.effects_barrier()
    assert length < len(drawn) <= most * length
    assert max(drawn) == length - 1
