"""Settings that follow from the sizes of the parameters: `gs.solve` counts them, and the certificate shows them."""

import dataclasses

import jax.numpy as jnp
import pytest
from testkit.games import GAME, ROWS
from testkit.games import START as PAIR
from testkit.tables import linear_params, logistic_table

import gossamer as gs
from gossamer.base import trees
from gossamer.methods import GD, DoubleSpider, PrivateDiff

BUDGET = gs.Budget(2.0, 1e-3)
DIFF, SPIDER = PrivateDiff(steps=4, batch_size=4), DoubleSpider(steps=4, batch_size=50)


def test_coordinates_are_counted():
    assert SPIDER.sized(linear_params(4)).dimension_ratio == 1 / 5
    assert DIFF.sized((jnp.zeros((3, 2)), jnp.zeros(()))).dimension_ratio == 1 / 6
    assert GD().sized(jnp.zeros(3)) == GD()
    for method in (DIFF, SPIDER):
        given = dataclasses.replace(method, dimension_ratio=0.3)
        assert given.sized(PAIR) is given


@pytest.mark.parametrize(("method", "assumed"), [(DIFF, 1.0), (SPIDER, 0.01)], ids=["PrivateDiff", "DoubleSpider"])
def test_a_plan_without_parameters_assumes_what_it_says(method, assumed):
    assert method.schedule(1000) == dataclasses.replace(method, dimension_ratio=assumed).schedule(1000)
    assert method.schedule(1000) != dataclasses.replace(method, dimension_ratio=0.3).schedule(1000)


CASES = {
    "PrivateDiff": (GAME, ROWS, DIFF, PAIR, trees.count(PAIR[1]) / trees.count(PAIR[0])),
    "DoubleSpider": (
        gs.DRO(gs.objectives.logistic, penalty=1.0),
        logistic_table(),
        SPIDER,
        linear_params(),
        1 / 5,
    ),
}


@pytest.mark.deep
@pytest.mark.parametrize("name", CASES)
def test_the_certificate_is_of_the_plan_that_was_run(name):
    problem, data, method, init, ratio = CASES[name]
    certificate = gs.solve(problem, data, method, BUDGET, init=init, seed=0).certificate
    assert certificate.configuration["dimension_ratio"] == ratio
    assert certificate.schedule == gs.plan(method.sized(init), certificate.n, BUDGET).schedule
    assert certificate.verify()
