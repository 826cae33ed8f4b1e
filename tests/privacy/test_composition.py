"""gs.compose: the joint cost of releases that were fixed beforehand."""

import dataclasses
import math

import numpy as np
import pytest
from scipy import optimize
from testkit.selecting import gaussian

import gossamer as gs
from gossamer.objectives.erm import ERM
from gossamer.privacy.certificate import certify
from gossamer.privacy.schedule import Query, Schedule


def certificate(method=None, n=5000, budget=gs.Budget(1.0, 1e-5)):  # noqa: B008
    method = gs.methods.GD(steps=20) if method is None else method
    return certify(gs.plan(method, n, budget), ERM(lambda params, record: 0.0), None, False)


def test_full_passes_are_one_gaussian():
    one = certificate()
    (query,) = one.schedule
    mu = 2 * math.sqrt(3 * query.count) / query.noise_multiplier * 1.0012
    exact = optimize.brentq(lambda e: math.log(float(gaussian(mu)(e)) / 1e-5), 0.5, 5.0)
    assert gs.compose([one, one, one], 1e-5) == pytest.approx(exact, rel=2e-3)
    assert gs.compose([one], 1e-5) == pytest.approx(1.0, rel=2e-3)
    assert gs.compose([one, one], 2e-5) < 2.0


def test_truncated_samples_are_charged_at_the_joint_epsilon():
    one = certificate(gs.methods.SGD(steps=20, batch_size=250))
    careless = dataclasses.replace(one, capacities={name: one.n for name in one.capacities})
    wasteful = dataclasses.replace(one, capacities={name: int(1.2 * one.n * 0.05) for name in one.capacities})
    costs = [gs.compose([each, each], 1e-5) for each in (careless, one, wasteful)]
    assert costs[0] <= costs[1] < 1.01 * costs[0]
    assert costs[2] == math.inf


def test_blocks_of_two_runs_overlap():
    """Within a run a record meets one block; two runs are two."""

    @dataclasses.dataclass(frozen=True)
    class OneBlockEach:
        def schedule(self, n):
            return Schedule((Query("block", 4, gs.Blocks(n // 4)),))

    one = certificate(OneBlockEach())
    joint = gs.compose([one, one], 1e-5)
    assert joint == pytest.approx(gs.compose([certificate(), certificate()], 1e-5), rel=2e-3)


def test_what_was_bought_is_charged():
    one = certificate()
    (query,) = one.schedule
    bought = dataclasses.replace(query, name="share", count=1)
    both = dataclasses.replace(one, schedule=Schedule((bought, query)))
    assert gs.compose([both, one], 1e-5) > gs.compose([one, one], 1e-5) + 0.01


def test_no_privacy_in_one_is_no_privacy_in_all():
    assert gs.compose([certificate(), certificate(budget=gs.Budget(math.inf, 1e-5))], 1e-5) == math.inf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 4999}, "different numbers of records"),
        ({"neighbors": "add_remove"}, "different neighbours"),
    ],
)
def test_what_does_not_add_up_is_refused(change, message):
    one = certificate()
    with pytest.raises(ValueError, match=message):
        gs.compose([one, dataclasses.replace(one, **change)], 1e-5)


def test_what_is_no_list_of_certificates_is_refused():
    for wrong in ([], [1.0]):
        with pytest.raises(TypeError, match="must be a list of certificates"):
            gs.compose(wrong, 1e-5)
    for delta in (0.0, 1.0, np.nan):
        with pytest.raises(ValueError, match="delta = "):
            gs.compose([certificate()], delta)
