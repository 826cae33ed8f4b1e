"""The phase diagram: its recursions against simulated noise, its schedules, and what is committed."""

import csv
import itertools
import math
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from gossamer.engine.forecast import DIFFERENCES_FROM, differences_pay
from gossamer.experiments import noise_model as model
from gossamer.experiments import variance_reduction
from gossamer.experiments.noise_model import Points, Setting
from gossamer.experiments.variance_reduction import as_method, boundary, settings_of

POINTS = Points(np.array(["alike", "rows"]), np.array([50.0, 200.0]), np.array([10.0, 20.0]), np.array([10.0, 30.0]))
NOISE = {"gradient": np.array([2.0, 3.0]), "difference": np.array([1.0, 2.0])}
RUNS = 4000
EXAMPLES = (
    Setting("SGD", 12, 0, 0.5, 0.3, 0.5),
    Setting("SGD", 12, 0, 0.5, 0.3, 0.5, decays=True),
    Setting("Spider", 12, 4, 0.5, 0.3, 1.0),
    Setting("Spider", 12, 4, 0.5, 0.3, 1.0, decays=True),
    Setting("SVRG", 3, 4, 0.5, 0.3, 1.0),
)


def simulated(place, setting, rng):
    """Return the excess risks of runs with drawn errors: an oracle as the recursions take it to be, step by step."""
    h = np.repeat(POINTS.curvatures()[place], int(POINTS.d[place]) // model.GROUPS)
    n, d, q, eta = POINTS.n[place], len(h), setting.rate, setting.step / h.max()
    of_record = h if POINTS.family[place] == "rows" else h**2
    noise = {name: value[place] for name, value in NOISE.items()}

    def error(sigma, threshold, rate, square):
        variance = (sigma * threshold / (rate * n)) ** 2 + (1 - rate) / (rate * n) * square / d
        return np.sqrt(variance)[:, None] * rng.normal(size=(RUNS, d))

    def gradient(x, rate):
        # The length of records is taken at its mean over runs, as the recursion does.
        square = np.full(RUNS, np.mean((of_record * x**2).sum(axis=1)) + (model.SPREAD * model.CLIP) ** 2)
        return h * x + error(noise["gradient"], model.CLIP * np.ones(RUNS), rate, square)

    def difference(x, y):
        moved = x - y
        threshold = np.minimum(2 * model.CLIP, model.SMOOTHNESS * np.linalg.norm(moved, axis=1))
        return h * moved + error(noise["difference"], threshold, q, (of_record * moved**2).sum(axis=1))

    x = np.full((RUNS, d), model.START / math.sqrt(d))
    direction, before = np.zeros_like(x), x
    for t in range(setting.steps):
        if setting.method == "SVRG":
            anchor, whole, iterates = x, gradient(x, 1.0), []
            for _ in range(setting.length):
                x = x - eta * (whole + difference(x, anchor))
                iterates.append(x)
            x = np.mean(iterates, axis=0)
            continue
        if setting.method == "SGD":
            direction = setting.extra * direction + gradient(x, q)
        elif t % setting.length == 0:
            direction = gradient(x, 1.0)
        else:
            direction = direction + difference(x, before)
        before, x = x, x - setting.at(t) / h.max() * direction
    return 0.5 * (h * x**2).sum(axis=1)


@pytest.mark.parametrize("setting", EXAMPLES, ids=lambda each: each.method)
def test_the_recursion_is_the_mean_of_simulated_runs(setting):
    """To four standard errors of 4000 runs, which is below 5 %; without an answer's noise it would be far off."""
    computed = model.excess(POINTS, setting, NOISE)
    quiet = model.excess(POINTS, setting, {name: 0 * value for name, value in NOISE.items()})
    for place, expected in enumerate(computed):
        risks = simulated(place, setting, np.random.default_rng(place))
        error = risks.std() / math.sqrt(RUNS)
        assert error < 0.0125 * expected
        assert risks.mean() == pytest.approx(expected, abs=4 * error)
        assert abs(quiet[place] - expected) > 8 * error


def test_what_diverges_is_infinite():
    assert np.isinf(model.excess(POINTS, Setting("SGD", 1000, 0, 1.0, 30.0, 0.0), NOISE)).all()


def test_all_have_the_same_effort_and_look_at_no_more_than_300_passes():
    tried = {method: settings_of(method) for method in ("SGD", "Spider", "SVRG")}
    assert [len(set(each)) for each in tried.values()] == [96] * 3
    for setting in itertools.chain(*tried.values()):
        schedule = as_method(setting, 10**6).schedule(10**6)
        passes = sum(query.count * query.gradients * query.sampling.size(1) for query in schedule)
        assert passes <= 300


def test_the_boundary_is_wrong_as_seldom_as_can_be():
    assert boundary([(1.0, 2.0), (2.0, 1.5), (3.0, 0.9), (4.0, 0.5)]) == 3.0
    assert boundary([(1.0, 2.0), (2.0, 1.5)]) is None
    assert boundary([(1.0, 0.5), (2.0, 1.5), (3.0, 0.9), (4.0, 0.5)]) == 1.0


FOLDER = Path(__file__).parents[2] / "docs" / "variance_reduction"


def test_the_committed_table_is_made_of_the_committed_runs(tmp_path, monkeypatch):
    with (FOLDER / "runs.csv").open(encoding="utf-8") as file:
        rows = [[*row[:1], *map(float, row[1:11]), *row[11:]] for row in list(csv.reader(file))[1:]]
    monkeypatch.setattr(variance_reduction, "save_figure", lambda *args: None)
    variance_reduction.write_summary(variance_reduction.Settings(None, tmp_path), rows)
    assert (tmp_path / "variance_reduction.md").read_text() == (FOLDER / "variance_reduction.md").read_text()
    assert len(rows) == 486


def test_plans_speak_of_the_committed_boundary():
    """Its least and its largest value, over families and condition numbers, to one digit."""
    with (FOLDER / "variance_reduction.csv").open(encoding="utf-8") as file:
        found = [float(row["from a signal of about"]) for row in csv.DictReader(file)]
    assert tuple(float(f"{each:.0e}") for each in (min(found), max(found))) == DIFFERENCES_FROM
    low, high = DIFFERENCES_FROM
    for signal, pays in ((0.99 * low, False), (1.01 * low, None), (1.01 * high, True)):
        assert differences_pay(round(signal * 1000 / 4), 100, 1.0)[1] is pays


def test_noise_of_three_points_is_that_of_plans():
    """What the diagram rests on: multipliers of a full pass have a closed form, 2√T/μ."""
    noise = variance_reduction.noise_of(Setting("SGD", 100, 0, 1.0, 1.0, 0.0), 1.0, {})
    from gossamer.privacy.gaussian import mu

    assert noise["gradient"] == pytest.approx(2 * 10 / mu(1.0, variance_reduction.DELTA), rel=5e-3)
    assert jnp.isfinite(noise["gradient"])
