"""What is bought of columns before a training, attacked: bounds by bisection and histograms, of rows and of persons."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.engine import bounds, counting
from gossamer.engine.bounds import Bisection, Cells, on_scale
from gossamer.engine.counting import Counting
from gossamer.oracle import Oracle
from gossamer.oracle.people import OwnMean, Person

BUDGET = gs.Budget(2.0, 1e-3)
COLUMNS, PERSONS, CAP = 3, 6, 4
IDS = np.repeat(np.arange(PERSONS), [4, 1, 2, 3, 4, 2])
ENDS = jnp.full((2, COLUMNS), 64.0)
RNG = np.random.default_rng(0)


def cells(numbers, state=0):
    return Cells(on_scale(numbers), np.full(np.shape(numbers), state, np.int8))


PURCHASES = {
    "bounds": (
        gs.ERM(bounds._misplaced),
        cells(RNG.normal(40, 10, (len(IDS), COLUMNS))),
        (-ENDS, ENDS, jnp.zeros(COLUMNS), jnp.zeros(COLUMNS), jnp.ones(COLUMNS)),
        Bisection(3),
        (cells(np.full((CAP, COLUMNS), -1e300)), cells(np.full((CAP, COLUMNS), 1e300))),
    ),
    "histograms": (
        gs.ERM(counting._nothing),
        RNG.uniform(size=(len(IDS), COLUMNS)).astype(np.float32),
        jnp.zeros((COLUMNS, 32)),
        Counting(COLUMNS),
        (np.zeros((CAP, COLUMNS), np.float32), np.ones((CAP, COLUMNS), np.float32)),
    ),
}
"""Problem, rows, start, method, and two records that are as far apart as can be."""


class HalfOracle(Oracle):
    """Adds half of the calibrated noise."""

    def noise_multiplier(self, query):
        return 0.5 * super().noise_multiplier(query)


def posed(name, unit):
    """Return a purchase as an audit takes it: record 0 is one of the two."""
    problem, rows, start, method, (here, there) = PURCHASES[name]
    if unit == "rows":
        first = [jax.tree.map(lambda leaf: leaf[0], record) for record in (here, there)]
        data = jax.tree.map(lambda leaf, own: np.concatenate([own[:1], leaf[1:]]), rows, here)
        return problem, data, first[1], {"method": method, "init": start}
    data = gs.by_person(rows, IDS, CAP).with_room().replaced(0, here)
    return problem, data, there, {"method": method, "init": start}


@pytest.mark.deep
@pytest.mark.parametrize("unit", ["rows", "persons"])
@pytest.mark.parametrize("name", PURCHASES)
def test_a_purchase_is_moved_as_far_as_it_is_charged_for_and_no_further(name, unit):
    """Every row of a record on the other side: the bound is attained; and the answers do not follow the records."""
    problem, data, record, how = posed(name, unit)
    method, init = how["method"], how["init"]
    moved = gs.audit.sensitivity(problem, data, 0, record, method, BUDGET, init=init)
    assert moved
    assert moved.worst["counts"] == pytest.approx(2.0, rel=2e-3)  # of 2, what is charged for
    other = data.replaced(0, record) if unit == "persons" else jax.tree.map(lambda leaf: leaf[::-1], data)
    assert gs.audit.replay(problem, data, other, method, BUDGET, init=init)


@pytest.mark.deep
@pytest.mark.parametrize("oracle", [Oracle, HalfOracle])
@pytest.mark.parametrize("name", PURCHASES)
def test_an_attack_on_a_purchase_of_persons_and_its_twin(name, oracle):
    """Lower bounds of ε with 95 % confidence: a twin with less noise is found out.

    By one statistic of many answers, of which bounds of columns have 13, so that less than half of ε may be seen.
    """
    problem, data, record, how = posed(name, "persons")
    found = gs.audit.empirical_epsilon(
        problem, data, 0, record, how["method"], BUDGET, init=how["init"], runs=16_384, oracle=oracle
    )
    assert bool(found) == (oracle is Oracle)
    assert found.lower_bound > 0.4 * BUDGET.epsilon


HOSTILE = [
    (np.float32(place), np.int8(state))
    for place in ([-64.0] * 3, [64.0] * 3, [np.nan] * 3, [np.inf, -np.inf, 1e30])
    for state in ([0] * 3, [1] * 3, [2] * 3, [0, 1, 2])
]


@pytest.mark.parametrize("first", [True, False])
def test_whatever_rows_a_person_has_it_adds_no_more_than_one_row(first):
    """The mean over its own rows is that of a loop, and no longer than √(c/2); their sum would be as long as its rows.

    Rows that are not there count for nothing.
    """
    side = bounds._Sides(jnp.zeros((2, 3)), jnp.ones(3), jnp.bool_(first))
    rng = np.random.default_rng(1)
    longest = 0.0
    for own in (1, 2, 10):
        rows = [HOSTILE[i] for i in rng.integers(len(HOSTILE), size=own)]
        filled = rows + rows[:1] * (10 - own)
        person = Person(tuple(jnp.stack(part) for part in zip(*filled, strict=True)), jnp.arange(10) < own)
        answer = np.asarray(OwnMean(side)(person))
        looped = [np.asarray(side(row)) for row in rows]
        np.testing.assert_allclose(answer, np.mean(looped, axis=0), atol=1e-6)
        assert np.linalg.norm(answer) <= np.sqrt(3 / 2) * (1 + 1e-6)
        longest = max(longest, np.linalg.norm(np.sum(looped, axis=0)))
    assert longest > 2 * np.sqrt(3 / 2)
