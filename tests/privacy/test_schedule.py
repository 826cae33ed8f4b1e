"""Schedules: what may be declared."""

import dataclasses
import math

import pytest

import gossamer as gs
from gossamer.privacy import arithmetic
from gossamer.privacy.perturbed import PerturbedObjective
from gossamer.privacy.saddle_point import Cost
from gossamer.privacy.sampling import All, Blocks, Poisson, Stream
from gossamer.privacy.schedule import Query, Schedule


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(count=0), "count = 0 must be a whole number"),
        (dict(count=True), "count = True must be a whole number"),
        (dict(count=2, gradients=0), "gradients = 0 must be a whole number"),
        (dict(count=2, weight=0.0), "weight = 0.0 must be a finite number above 0"),
        (dict(count=2, noise=-1.0), "noise = -1.0 must be a finite number above 0"),
    ],
)
def test_bad_queries_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Query("q", **options)


def test_names_are_unique():
    with pytest.raises(ValueError, match="query names must differ"):
        Schedule((Query("q", 1), Query("q", 2)))


def test_noise_is_given_for_all_queries_or_none():
    with pytest.raises(ValueError, match=r"given for \['a'\] but not for \['b'\]"):
        Schedule((Query("a", 1, noise=1.0), Query("b", 1)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Poisson(0.0), r"rate = 0.0 must be in \(0, 1\]"),
        (lambda: Poisson(1.5), r"rate = 1.5 must be in \(0, 1\].*at most n"),
        (lambda: Blocks(0), "rows = 0 must be a whole number of at least 1"),
        (lambda: Blocks(2.5), "rows = 2.5 must be a whole number of at least 1"),
        (lambda: Blocks(True), "rows = True must be a whole number"),
    ],
)
def test_bad_samplings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_query_takes_only_samplings_whose_cost_is_proved():
    @dataclasses.dataclass(frozen=True)
    class Free(Poisson):
        def cost(self, noise_multiplier, count):
            return Cost(1e-9, noise_multiplier, 1)

    for wrong in (0.5, "poisson", None, Free(0.5)):
        with pytest.raises(TypeError, match=r"query 'q': sampling = .* must be gs.All\(\), gs.Poisson\(rate\)"):
            Query("q", 1, wrong)


def test_a_poisson_sample_at_rate_one_is_all_records():
    assert Query("q", 1, Poisson(1.0)) == Query("q", 1, All()) == Query("q", 1)


def test_of_disjoint_blocks_the_least_noisy_counts_once():
    full, sampled = Query("a", 3, noise_multiplier=9.0), Query("b", 4, Poisson(0.5), noise_multiplier=1.0)
    loud, quiet = (Query(name, 5, Blocks(2), noise_multiplier=s) for name, s in (("c", 7.0), ("d", 2.0)))
    schedule = Schedule((loud, full, quiet, sampled))
    assert schedule.at_worst() == (full, sampled, quiet)
    paid = 1 + arithmetic.INFLATION  # what rounding takes of the noise
    expected = [Cost(1.0, 9.0 / paid, 3), Cost(0.5, 1.0 / paid, 4), Cost(1.0, 2.0 / paid, 1)]
    assert [query.cost() for query in schedule.at_worst()] == expected


ROWS_OF_0_1 = [
    dict(name="a", count=3, rate=1.0, disjoint=False, clip="1", weight=1.0, noise=None, noise_multiplier=2.0),
    dict(name="b", count=3, rate=0.5, disjoint=False, clip="1", weight=1.0, noise=None, noise_multiplier=2.0),
    dict(name="c", count=3, rate=1 / 49, disjoint=True, clip="1", weight=1.0, noise=None, noise_multiplier=2.0),
]
STREAM_OF_0_1 = dict(strategy="tree", length=4, first=1, share=3)


def test_rows_of_the_first_version_are_read():
    old = [{**row, "jacobian": None, "stream": None} for row in ROWS_OF_0_1]
    old.append({**old[2], "name": "d", "stream": STREAM_OF_0_1})
    old.append({**old[0], "name": "e", "jacobian": 0.25})
    schedule = Schedule.from_dicts(old, 49)
    blocks = Blocks(1), Blocks(1, Stream("tree", 4, 1, 3))  # 1/49·49 is below 1 in float64
    assert [query.sampling for query in schedule] == [All(), Poisson(0.5), *blocks, PerturbedObjective(0.25)]
    assert [query.noise_multiplier for query in schedule] == [2.0] * 5
    assert Schedule.from_dicts(schedule.to_dicts()) == schedule


@pytest.mark.parametrize(
    ("changes", "n"),
    [
        (dict(stream=STREAM_OF_0_1), 49),
        (dict(jacobian=0.1, disjoint=True), 49),
        (dict(jacobian=0.1, rate=0.5), 49),
        (dict(disjoint=True, rate=0.001), 49),
        (dict(disjoint=True, rate=0.5), None),
        (dict(rate=math.nan), 49),
    ],
)
def test_rows_that_the_first_version_did_not_write_are_refused(changes, n):
    with pytest.raises(ValueError):
        Schedule.from_dicts([{**ROWS_OF_0_1[0], **changes}], n)


def test_an_uncalibrated_schedule_has_no_event():
    with pytest.raises(ValueError, match="not calibrated yet"):
        Schedule((Query("a", 1),)).dp_event()


def test_plan_needs_no_data():
    plan = gs.plan(gs.methods.SGD(steps=10, batch_size=50), n=1000, budget=gs.Budget(1.0, 1e-5))
    assert plan.schedule["gradient"].sampling == Poisson(0.05)
    assert plan.schedule.is_calibrated
    assert "10 times, of a Poisson sample at rate 0.05; noise multiplier" in str(plan)


def test_a_plan_needs_a_schedule():
    class Lists(gs.methods.GD):
        def schedule(self, n):
            return [Query("gradient", 1)]

    with pytest.raises(TypeError, match=r"Lists\.schedule\(n\) returned \[Query\]; it must return gs\.Schedule\(\("):
        gs.plan(Lists(), n=10, budget=gs.Budget(1.0, 1e-5))
    assert Schedule([Query("gradient", 1)]) == Schedule((Query("gradient", 1),))
    with pytest.raises(TypeError, match=r"queries = Query must be a tuple of gs\.Query"):
        Schedule(Query("gradient", 1))


@pytest.mark.parametrize("n", [0, -3, 2.5, True])
def test_plan_refuses_a_size_that_is_none(n):
    with pytest.raises(ValueError, match=r"n = .* must be a whole number of at least 1"):
        gs.plan(gs.methods.GD(), n=n, budget=gs.Budget(1.0, 1e-5))
