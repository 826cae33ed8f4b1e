"""Schedules: what may be declared."""

import pytest

import gossamer as gs
from gossamer.schedule import Query, Schedule


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(count=0), "count = 0 must be a whole number"),
        (dict(count=True), "count = True must be a whole number"),
        (dict(count=2, rate=0.0), r"rate = 0.0 must be in \(0, 1\]"),
        (dict(count=2, rate=1.5), r"rate = 1.5 must be in \(0, 1\].*at most n"),
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


def test_sampling_follows_from_the_rate():
    assert [q.sampling for q in (Query("a", 1), Query("b", 1, 0.5), Query("c", 1, 0.5, disjoint=True))] == [
        "full",
        "poisson",
        "partition",
    ]


def test_an_uncalibrated_schedule_has_no_event():
    with pytest.raises(ValueError, match="not calibrated yet"):
        Schedule((Query("a", 1),)).dp_event()


def test_plan_needs_no_data():
    plan = gs.plan(gs.methods.SGD(steps=10, batch_size=50), n=1000, budget=gs.Budget(1.0, 1e-5))
    assert plan.schedule["gradient"].rate == 0.05
    assert plan.schedule.is_calibrated
    assert "10 × poisson, rate 0.05, noise multiplier" in str(plan)


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
