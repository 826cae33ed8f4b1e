"""The door: what an answer is made of, and what is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.engine import loop
from gossamer.oracle import Ask, Door, Ledger, Oracle, Secrets
from gossamer.oracle.door import Question
from gossamer.privacy.perturbed import PerturbedObjective
from gossamer.privacy.sampling import Blocks, Poisson
from gossamer.privacy.schedule import Query, Schedule

DATA = jnp.arange(12.0).reshape(6, 2) / 10


def door(*queries, n=6, capacity=6, **options):
    sizes = tuple((query.name, capacity) for query in queries if query.sampling.has_capacity)
    return Door(n, Schedule(queries), sizes, **options)


def make_ask(door, sigma=0.0, key=0, data=DATA):
    noise = {query.name: jnp.float32(sigma) for query in door.schedule}
    keys = loop.split(new_key(key))
    return Ask(Oracle(door, loop.make_secrets(door, data, noise, keys)), Ledger.empty(door.schedule), new_key(0))


def identity(record):
    return record


@pytest.mark.slow
def test_a_full_pass_without_noise_is_the_mean():
    ask = make_ask(door(Query("mean", 1)))
    np.testing.assert_allclose(ask("mean", identity, clip=100.0), DATA.mean(0), rtol=1e-6)


@pytest.mark.slow
def test_noise_has_the_stated_deviation_and_is_gaussian():
    """σ·C/(q·n), in every coordinate; 5 standard errors of a variance: 5·√(2/N)."""
    d = 40_000
    data = jnp.zeros((6, d))
    sigma, clip = 3.0, 0.5
    answer = np.asarray(make_ask(door(Query("mean", 1)), sigma, data=data)("mean", identity, clip=clip))
    deviation = sigma * clip / 6
    assert abs(answer.var() / deviation**2 - 1) < 5 * np.sqrt(2 / d)
    assert stats.kstest(answer / deviation, "norm").pvalue > 1e-6
    # Controls: 5 % less noise, and a uniform law of the same variance, are told apart.
    assert abs((0.95 * answer).var() / deviation**2 - 1) > 5 * np.sqrt(2 / d)
    uniform = np.random.default_rng(0).uniform(-np.sqrt(3), np.sqrt(3), d)
    assert stats.kstest(uniform, "norm").pvalue < 1e-6


@pytest.mark.slow
def test_joint_blocks_get_noise_by_their_weights():
    d = 40_000
    data = jnp.zeros((6, d))
    ask = make_ask(door(Query("joint", 2)), 2.0, data=data)
    h = gs.Joint((gs.Value(identity), gs.Value(lambda z: {"a": z, "b": z})))
    error = 5 * np.sqrt(2 / d)
    first, second = ask("joint", h, clip=(1.0, 0.25))
    assert abs(np.var(first) / (2 * np.sqrt(2) * 1.0 / 6) ** 2 - 1) < error
    assert abs(np.var(second["a"]) / (2 * np.sqrt(2) * 0.25 / 6) ** 2 - 1) < error
    assert abs(np.corrcoef(second["a"], second["b"])[0, 1]) < 5 / np.sqrt(d)
    first, _ = ask("joint", h, clip=(1.0, 0.25), weights=(1.25, 5 / 3))
    assert abs(np.var(first) / (2 * 1.25 / 6) ** 2 - 1) < error


def test_weights_that_cost_more_than_scheduled_are_refused():
    ask = make_ask(door(Query("joint", 1)))
    h = gs.Joint((gs.Value(identity), gs.Value(identity)))
    with pytest.raises(ValueError, match=r"above 1: the joint query would cost more"):
        ask("joint", h, clip=(1.0, 1.0), weights=(1.0, 2.0))
    with pytest.raises(ValueError, match="one number for each of the 2 blocks"):
        ask("joint", h, clip=(1.0, 1.0), weights=(2.0,))


@pytest.mark.slow
def test_what_was_not_scheduled_is_not_answered():
    ask = make_ask(door(Query("mean", 2)))
    answers = [ask("mean", identity, clip=1.0) for _ in range(3)]
    assert np.all(np.isfinite(answers[:2]))
    assert np.all(np.isnan(answers[2]))
    with pytest.raises(KeyError, match="'median' was not scheduled"):
        ask("median", identity, clip=1.0)


@pytest.mark.parametrize("clip", [-1.0, np.inf, np.nan, 1e35])
def test_a_threshold_that_bounds_nothing_answers_nothing(clip):
    assert np.all(np.isnan(make_ask(door(Query("mean", 1)))("mean", identity, clip=clip)))


def test_a_threshold_is_one_number():
    with pytest.raises(ValueError, match=r"clip has shape \(6,\)"):
        make_ask(door(Query("mean", 1)))("mean", identity, clip=jnp.ones(6))


@pytest.mark.slow
def test_every_query_draws_fresh_noise_and_a_fresh_sample():
    queries = (Query("a", 3, Poisson(0.5)), Query("b", 3, Poisson(0.5)))
    ask = make_ask(door(*queries), sigma=1.0)
    answers = [np.asarray(ask(name, identity, clip=1.0)) for name in "abab"]
    assert len({answer.tobytes() for answer in answers}) == 4


@pytest.mark.deep
def test_a_poisson_answer_is_unbiased_and_divided_by_a_public_number():
    """Mean over 4000 samples of one record's contribution: 5 standard errors."""
    query = Query("mean", 4000, Poisson(0.3))
    ask = make_ask(door(query))
    record = jnp.zeros(6).at[2].set(1.0)[:, None]
    ask = make_ask(door(query), data=record)
    answers = np.asarray(jax.vmap(lambda i: _answer_at(ask, query, i))(jnp.arange(4000)))
    included = 1 / (0.3 * 6)
    assert set(np.round(np.unique(answers), 5)) == {0.0, np.float32(round(included, 5))}
    error = included * np.sqrt(0.3 * 0.7 / 4000)
    assert abs(answers.mean() - 1 / 6) < 5 * error


def _answer_at(ask, query, index):
    return ask._oracle.answer(Question(query, index, identity, jnp.float32(1.0), (1.0,)), None)[0][0]


@pytest.mark.slow
def test_an_empty_sample_answers_pure_noise():
    query = Query("mean", 1, Poisson(1e-6))
    answer = make_ask(door(query, capacity=1), sigma=1.0)("mean", identity, clip=1.0)
    assert np.all(np.isfinite(answer))
    assert np.any(answer != 0)


@pytest.mark.slow
def test_disjoint_blocks_meet_every_record_once():
    """Two kinds of disjoint queries share one partition: 2 blocks of 2 rows and 1 of 2."""
    first, second = Query("a", 2, Blocks(2)), Query("b", 1, Blocks(2))
    ask = make_ask(door(first, second))
    one_hot = make_ask(door(first, second), data=jnp.eye(6))
    seen = sum(2 * np.asarray(one_hot(name, identity, clip=10.0)) for name in "aab")
    np.testing.assert_allclose(seen, np.ones(6), rtol=1e-6)
    assert ask._oracle.door.first_row(second) == 4


def test_a_perturbed_objective_is_not_answered_as_a_mean():
    ask = make_ask(door(Query("objective", 1, PerturbedObjective(0.1))), sigma=1.0)
    with pytest.raises(TypeError, match="no mean query"):
        ask("objective", identity, clip=1.0)


def test_absent_rows_do_not_count():
    d = door(Query("mean", 1))
    secrets = Secrets(DATA, {"mean": jnp.float32(0)}, new_key(0), jnp.arange(0), jnp.arange(6) != 2)
    answer = Ask(Oracle(d, secrets), Ledger.empty(d.schedule), new_key(0))("mean", identity, clip=100.0)
    np.testing.assert_allclose(answer, (DATA.sum(0) - DATA[2]) / 6, rtol=1e-6)


@pytest.mark.slow
def test_asking_in_branches_and_loops_is_counted():
    d = door(Query("a", 5), Query("b", 1))

    @jax.jit
    def run(flag):
        ask = make_ask(d)
        total = ask.loop(4, lambda ask, i, x: x + ask("a", identity, clip=1.0), jnp.zeros(2))
        total = ask.cond(
            flag,
            lambda ask, x: x + ask("a", identity, clip=1.0),
            lambda ask, x: x + ask("b", identity, clip=1.0),
            total,
        )
        return total, ask.ledger.counts

    total, counts = run(True)
    assert (int(counts["a"]), int(counts["b"])) == (5, 0)
    assert np.all(np.isfinite(total))
    _, counts = run(False)
    assert (int(counts["a"]), int(counts["b"])) == (4, 1)


def test_asking_inside_a_bare_transformation_is_refused():
    ask = make_ask(door(Query("a", 9)))

    def body(i, x):
        return x + ask("a", identity, clip=1.0)

    for transformed in (
        lambda: jax.lax.fori_loop(0, 3, body, jnp.zeros(2)),
        lambda: jax.vmap(lambda x: ask("a", lambda z: x * z, clip=1.0))(jnp.ones(2)),
        lambda: jax.lax.cond(True, lambda: ask("a", identity, clip=1.0), lambda: jnp.zeros(2)),
    ):
        with pytest.raises(RuntimeError, match=r"Use ask.cond and ask.loop"):
            transformed()
    assert int(ask.ledger.counts["a"]) == 0


def test_a_door_is_a_compile_time_constant():
    a, b = door(Query("a", 1)), door(Query("a", 1))
    assert a == b
    assert hash(a) == hash(b)
    assert dataclasses.replace(a, n=7) != a


@pytest.mark.deep
def test_an_answer_has_no_digits_beyond_those_of_its_noise():
    """With 64-bit numbers a sum has twice the digits of float32 noise: the rest would be as clear as without it."""

    def loss(params, record):  # for ghost arithmetic, whose sums are as wide as parameters
        return jnp.sum((params["w"] @ record) ** 2)

    with jax.enable_x64(True):
        data = jnp.asarray(np.random.default_rng(0).normal(size=(8, 3)))
        params = {"w": data[:3]}
        ask = make_ask(door(Query("gradient", 1), n=8, capacity=8), sigma=1.0, data=data)
        answer = 8 * np.asarray(ask("gradient", gs.oracle.Gradient(loss, params), clip=1.0)["w"])
        exact = np.asarray(gs.clipped_sum(loss, params, data)["w"])
    assert (exact != exact.astype(np.float32)).all()
    assert (answer == answer.astype(np.float32)).all()
