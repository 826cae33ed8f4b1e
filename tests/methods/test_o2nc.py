"""O2NC: conformance, attacks on a whole stream, the method against a NumPy loop, its theorem's K and T."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.engine import loop
from gossamer.engine.opening import open_run
from gossamer.experiments.sweep import sweep
from gossamer.oracle import Oracle
from gossamer.oracle.correlation import nodes_over_leaves, strategy_matrix

BUDGET = gs.Budget(2.0, 1e-2)
TABLE = jnp.array(
    [[1.0, 0.0], [0.0, 1.0], [0.3, 0.2], [-0.5, 0.4], [0.1, 0.1], [0.9, -0.2], [0.2, 0.0], [0.4, 0.4]] * 2
)
START = jnp.array([0.3, -0.2])
SHORT = gs.methods.O2NC(steps=2, inner_steps=4, learning_rate=2.0)
CASES = {"O2NC": SHORT, "naive": dataclasses.replace(SHORT, variance_reduction=False, directions=1)}
HOSTILE = {
    "opposite": jnp.array([-1.0, 0.0]),
    "huge": jnp.array([1e6, -1e6]),
    "beyond float32 squares": jnp.array([1e30, 1e30]),
    "infinite": jnp.array([jnp.inf, 0.0]),
    "not a number": jnp.array([jnp.nan, 0.0]),
}


def bent(x, z):
    """Gradients that change with x, beyond any smoothness that the method was told of, and a kink."""
    return jnp.abs(jnp.dot(z, x + 15.0 * x**2))


BENT = gs.BlackBox(bent)


@pytest.fixture(params=CASES, scope="module")
def method(request):
    return CASES[request.param]


@pytest.mark.deep
def test_replay(method):
    report = gs.audit.replay(BENT, TABLE, 3.0 - TABLE, method, BUDGET, init=START)
    assert report, report.differing


@pytest.mark.hostile
@pytest.mark.deep
def test_sensitivity():
    worst = {}
    for name, record in HOSTILE.items():
        report = gs.audit.sensitivity(BENT, TABLE, 5, record, SHORT, BUDGET, init=START)
        assert report, (name, report.worst)
        worst[name] = max(report.worst.values())
    assert worst["huge"] > 0.2  # the record was met


@pytest.mark.deep
def test_asks_exactly_what_it_scheduled_with_no_key_twice_and_compiles_once(method):
    planned = gs.plan(method, len(TABLE), BUDGET)

    def run(table, seed):
        return open_run(planned, BENT, table, init=START, key=new_key(seed)).finish()

    with jax.debug_key_reuse(True):
        first = run(TABLE, 3)
        compiled = loop.advance._cache_size()
        again, other = run(TABLE, 3), run(TABLE + 1.0, 4)
    assert loop.advance._cache_size() == compiled
    asked = {name: int(count) for name, count in first.ledger.counts.items()}
    assert asked == {query.name: query.count for query in planned.schedule}
    assert np.asarray(first.choice.params).tobytes() == np.asarray(again.choice.params).tobytes()
    assert np.all(np.isfinite(other.choice.params)) and np.any(other.choice.params != first.choice.params)


def distance_to(x, z):
    return jnp.abs(x[0] - z)


def textbook(order, public, z, start, method):
    """O2NC without noise on |x − z|, in float64; one parameter has no direction to choose but ±1."""
    K, T, r = method.steps, method.inner_steps, method.radius
    rows, x, out = iter(z[order]), start, []
    B2 = len(z) // (2 * K * T)
    gradients, D = np.array([next(rows) for _ in range(K * (T + 1) * B2)]), r / T

    def grad(x, records):
        return np.mean((np.abs(x + r - records) - np.abs(x - r - records)) / (2 * r))

    eta = method.learning_rate * D / (method.clip * math.sqrt(T))
    for k in range(K):
        _, s_key = jax.random.split(jax.random.fold_in(public, k))
        s = np.asarray(jax.random.uniform(s_key, (T,)), np.float64)
        w, move = x, 0.0
        g = grad(w, gradients[k * (T + 1) * B2 : (k + 1) * (T + 1) * B2])
        points = [w]
        for t in range(1, T):
            move = np.clip(move - eta * g, -D, D)
            before, w = w, x + s[t] * move
            x = x + move
            batch = np.array([next(rows) for _ in range(B2)])
            g = g + grad(w, batch) - grad(before, batch)
            points.append(w)
        out.append(np.mean(points))
    return np.array(out)


@pytest.mark.slow
def test_without_noise_it_is_the_textbook_method():
    method = gs.methods.O2NC(steps=3, inner_steps=5, learning_rate=300.0, clip=100.0, smoothness=1e4, output="last")
    z = np.random.default_rng(0).normal(size=70)
    result = gs.solve(
        gs.BlackBox(distance_to),
        jnp.asarray(z, jnp.float32),
        method,
        gs.Budget(np.inf, 1e-5),
        init=jnp.array([0.5]),
        seed=1,
    )
    order = np.asarray(jax.random.permutation(loop.split(new_key(1)).order, jnp.arange(70, dtype=jnp.int32)))
    public = jax.random.fold_in(loop.split(new_key(1)).output, loop._STEPS)
    expected = textbook(order, public, z, 0.5, method)
    assert abs(expected[-1] - 0.5) > 0.05  # it moved
    np.testing.assert_allclose(result.params, expected[-1:], atol=2e-5)


@pytest.mark.deep
def test_scaling_values_and_thresholds_changes_nothing():
    """The learning rate is in units of the clip: the same moves, noise included."""
    scaled = dataclasses.replace(SHORT, clip=3.0, smoothness=3.0 * SHORT.smoothness)
    one = gs.solve(BENT, TABLE, SHORT, BUDGET, init=START, seed=4).params
    three = gs.solve(gs.BlackBox(lambda x, z: 3.0 * bent(x, z)), TABLE, scaled, BUDGET, init=START, seed=4).params
    np.testing.assert_allclose(three, one, rtol=1e-4, atol=1e-6)


class KnownOrder(Oracle):
    """The attacker knows in which order records are met: the accountant gives no credit for it."""

    def __init__(self, door, secrets):
        super().__init__(door, secrets._replace(order=jnp.arange(door.n)))


class PrintedNoise(KnownOrder):
    """Noise for √(2 ln T) instead of the root of the number of nodes over a leaf (paper ZO, Corollary 4.4)."""

    def noise_multiplier(self, query):
        T = query.sampling.stream.length
        return super().noise_multiplier(query) * math.sqrt(2 * math.log(T) / max(nodes_over_leaves(T)))


def attack(oracle, rounds, correlation, runs=8_192):
    """Attack a block with all of its answers, for a record that the first of them meets.

    With y the answers in units of their thresholds and C the strategy, C y = C x + σ z: the best statistic for a change
    of x_1 is the inner product of C y with C's first column. The loss is linear, so all other x are constants.
    """
    method = gs.methods.O2NC(steps=1, inner_steps=rounds, smoothness=1e-3, correlation=correlation)
    assert method.thresholds()[0] == pytest.approx(1.0)  # the record's ±1 is clipped nowhere
    C = jnp.asarray(strategy_matrix(correlation, rounds), jnp.float32)

    def score(params, answers):
        gradient, difference = method.thresholds()
        sums = jnp.append((rounds + 1) / gradient * answers["gradient"], answers["difference"] / difference)
        return jnp.dot(C @ sums, C[:, 0])

    table = jnp.zeros((2 * rounds, 1)).at[0].set(1.0)
    return gs.audit.empirical_epsilon(
        gs.BlackBox(jnp.dot),
        table,
        0,
        jnp.array([-1.0]),
        method,
        BUDGET,
        init=jnp.zeros(1),
        runs=runs,
        score=score,
        oracle=oracle,
    )


@pytest.mark.deep
@pytest.mark.parametrize(("rounds", "correlation"), [(4, "factorization"), (2, "tree")])
def test_audit(rounds, correlation):
    """The attacker who knows everything but one record does not beat the certificate, and comes near it."""
    audit = attack(KnownOrder, rounds, correlation)
    assert audit, audit
    assert audit.lower_bound > 0.5 * BUDGET.epsilon


@pytest.mark.deep
def test_the_printed_noise_at_two_rounds_is_caught():
    audit = attack(PrintedNoise, 2, "tree", runs=40_960)
    assert not audit, audit


def test_fewer_records_than_rounds_are_refused():
    method = gs.methods.O2NC(steps=20, inner_steps=25)
    with pytest.raises(ValueError, match=r"n ≥ 2·steps·inner_steps = 1000 records.*n = 999"):
        method.schedule(999)
    assert method.schedule(1000)["difference"].sampling.rows == 1


def test_neighbours_by_adding_or_removing_are_refused():
    with pytest.raises(gs.AccountingError, match="replace_one"):
        gs.plan(SHORT, 100, gs.Budget(1.0, 1e-5, "add_remove"))


@pytest.mark.parametrize(
    "bad",
    [{"radius": 0.0}, {"directions": 0}, {"correlation": "bush"}, {"learning_rate": lambda t: t}, {"inner_steps": 1}],
)
def test_what_makes_no_sense_is_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        gs.methods.O2NC(**bad)


def test_the_theorems_choice_grows_as_it_should():
    """T ∝ n^⅔ without privacy and ∝ n^½ when noise dominates, K what is left of n/2."""
    free = gs.Budget(math.inf, 1e-5)
    small, large = (gs.methods.O2NC.for_problem(n, 10, free, radius=0.1, gap=0.5) for n in (1_000, 1_000_000))
    assert large.inner_steps / small.inner_steps == pytest.approx(100, rel=0.05)
    tight = gs.Budget(1e-4, 1e-5)
    small, large = (gs.methods.O2NC.for_problem(n, 10, tight, radius=0.1, gap=0.5) for n in (1_000_000, 100_000_000))
    assert large.inner_steps / small.inner_steps == pytest.approx(10, rel=0.05)
    assert large.steps == 100_000_000 // (2 * large.inner_steps)


@pytest.mark.deep
def test_it_finds_a_minimum_behind_a_kink():
    """|x − z| with z around 1 from a start at 0: the median, to within the radius; the start is ten times as far."""
    z = jax.random.normal(jax.random.key(0), (4_000,)) * 0.2 + 1.0
    method = gs.methods.O2NC(steps=20, inner_steps=20, radius=0.1, learning_rate=2.0, output="last")
    found = sweep(gs.BlackBox(distance_to), z, method, gs.Budget(4.0, 1e-5), init=jnp.zeros(1), seed=0, runs=16)
    assert np.all(np.abs(np.asarray(found)[:, 0] - np.median(z)) < 0.2)


@pytest.mark.deep
def test_a_set_is_not_left_and_no_value_is_asked_outside():
    """|x − 2| on [−1, 1]: the answer is inside, and a value that is huge outside is never met."""

    def value(x, z):
        return jnp.where(jnp.max(jnp.abs(x)) > 1.0, 1e9, 0.0) + jnp.abs(x[0] - z)

    method = gs.methods.O2NC(steps=8, inner_steps=8, radius=0.3, learning_rate=2.0, clip=2.0, output="last")
    table = jnp.full(200, 2.0)
    run = {"init": jnp.full(1, 0.5), "seed": 0, "progress": False}
    boxed = gs.BlackBox(value, constraint=gs.Box(-1.0, 1.0))
    inside = gs.solve(boxed, table, method, gs.Budget(math.inf, 1e-3), **run).params
    assert 0.9 < float(inside[0]) <= 1.0
    free = gs.solve(gs.BlackBox(value), table, method, gs.Budget(math.inf, 1e-3), **run).params
    assert float(free[0]) < 0.9  # the control: the wall at 1 turns it back
