"""Runs in stages: keys of their own, nothing asked that was not planned, one certificate, nothing bought twice."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.engine import stages
from gossamer.engine.stages import Posed, Stage, solve_stages
from gossamer.privacy.stages import TRAINING

N = 400
VALUES = np.linspace(-1.0, 1.0, N, dtype=np.float32)
BUDGET = gs.Budget(2.0, 1e-4)
ONCE = gs.methods.GD(steps=1, learning_rate=1.0, clip=1.0)


def mean_of(values, method=ONCE):
    """Pose the question of a mean: one step from 0 along −v gives it."""
    return Posed(gs.ERM(_pull), values, jnp.zeros(1), method)


def _pull(x, value):
    return -x[0] * value


def stage(name, share, pose):
    return Stage(name, ONCE, share, pose)


THREE = (
    stage("middle", 0.2, lambda answers: mean_of(VALUES)),
    stage(TRAINING, 0.5, lambda answers: mean_of(VALUES - np.asarray(answers["middle"]))),
    stage("score", 0.3, lambda answers: mean_of(VALUES * np.sign(np.asarray(answers[TRAINING])))),
)


@pytest.fixture(scope="module")
def outcome():
    return solve_stages(THREE, N, BUDGET, seed=0, progress=False)


@pytest.mark.slow
def test_answers_come_with_the_noise_of_one_plan(outcome):
    """Errors of three answers, each about a mean that is known, within 4 deviations; with one key for all of them the
    first two would be alike, up to their multipliers.
    """
    certificate = outcome.result.certificate
    assert certificate.verify() and (certificate.epsilon, certificate.delta) == (2.0, 1e-4)
    assert [query.name for query in certificate.schedule] == ["middle", "gradient", "score"]
    assert [(each.name, each.share, each.after) for each in certificate.purchases] == [
        ("middle", 0.2, False),
        ("score", 0.3, True),
    ]
    found = {name: float(answer[0]) for name, answer in outcome.answers.items()}
    true = {
        "middle": VALUES.mean(),
        TRAINING: (VALUES - found["middle"]).mean(),
        "score": (VALUES * np.sign(found[TRAINING])).mean(),
    }
    noise = [
        (found[name] - true[name]) * N / query.noise_multiplier
        for name, query in zip(found, certificate.schedule, strict=True)
    ]
    assert max(map(abs, noise)) < 4
    assert len({round(each, 2) for each in noise}) == 3


@pytest.mark.slow
def test_a_fixed_seed_is_reproducible_and_another_one_differs(outcome):
    again, other = (solve_stages(THREE, N, BUDGET, seed=seed, progress=False) for seed in (0, 1))
    assert jax.tree.map(np.array_equal, outcome.answers, again.answers) == dict.fromkeys(outcome.answers, True)
    assert not any(np.array_equal(other.answers[name], outcome.answers[name]) for name in outcome.answers)
    assert outcome.result.certificate.reproducible
    assert not solve_stages(THREE, N, BUDGET, progress=False).result.certificate.reproducible


@pytest.mark.slow
def test_one_stage_alone_is_a_run_of_solve():
    alone = solve_stages([stage(TRAINING, 1.0, lambda answers: mean_of(VALUES))], N, BUDGET, seed=3, progress=False)
    posed = mean_of(VALUES)
    plain = gs.solve(posed.problem, posed.data, posed.method, BUDGET, init=posed.init, seed=3, progress=False)
    assert np.array_equal(alone.result.params, plain.params)
    assert alone.result.certificate == plain.certificate


class Keys:
    """Remembers the keys that stages were run with."""

    def __init__(self, monkeypatch):
        self.seen, run = [], stages.run_ready

        def remember(ready, planned, key, **options):
            self.seen.append(jax.random.key_data(key).tolist())
            return run(ready, planned, key, **options)

        monkeypatch.setattr("gossamer.engine.stages.run_ready", remember)


@pytest.mark.slow
def test_no_key_is_used_twice(monkeypatch):
    keys = Keys(monkeypatch)
    for seed in (0, 1, None, None):
        solve_stages(THREE, N, BUDGET, seed=seed, progress=False)
    assert len(set(map(tuple, keys.seen))) == 12


@pytest.mark.parametrize(
    ("posed", "error", "message"),
    [
        (mean_of(VALUES, gs.methods.GD(steps=2)), gs.OverspentError, "asks something else"),
        (mean_of(VALUES, gs.methods.SGD(steps=1, batch_size=8)), gs.OverspentError, "asks something else"),
        (mean_of(VALUES[1:]), ValueError, "the plan is for n = 400 records, but the table has 399"),
        (mean_of(VALUES)._replace(method=gs.methods.SGDA()), TypeError, "SGDA cannot solve"),
    ],
    ids=["more", "samples", "records", "problem"],
)
def test_what_was_not_planned_is_refused_before_it_is_asked(posed, error, message, monkeypatch):
    asked = []
    monkeypatch.setattr("gossamer.engine.loop.advance", lambda *_, **__: asked.append(1))
    with pytest.raises(error, match=message):
        solve_stages([stage(TRAINING, 1.0, lambda answers: posed)], N, BUDGET, progress=False)
    assert not asked


@pytest.mark.slow
def test_thresholds_may_follow_answers_and_the_certificate_shows_them(outcome):
    def pose(answers):
        clip = float(np.clip(np.abs(answers["middle"])[0], 0.25, 0.5))
        return mean_of(VALUES, dataclasses.replace(ONCE, clip=clip))

    found = solve_stages([THREE[0], stage(TRAINING, 0.5, pose), THREE[2]], N, BUDGET, seed=0, progress=False)
    assert found.result.certificate.schedule["gradient"].clip == f"{pose(found.answers).method.clip:g}"
    assert found.result.certificate.configuration["clip"] == pose(found.answers).method.clip


class Killed(BaseException):
    """What ends a run."""


def killed_in(name):
    """Return the stages, of which one dies before it is posed."""

    def die(answers):
        raise Killed

    return tuple(dataclasses.replace(each, pose=die) if each.name == name else each for each in THREE)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["score", TRAINING])
def test_a_killed_run_goes_on_where_it_was(name, outcome, tmp_path, monkeypatch):
    """With a seed it ends like one that was never killed; without one, what was bought is not bought again."""
    for seed in (0, None):
        folder = tmp_path / str(seed)
        with pytest.raises(Killed):
            solve_stages(killed_in(name), N, BUDGET, seed=seed, progress=False, checkpoints=gs.Checkpoints(folder))
        bought = {path: path.read_bytes() for path in folder.rglob("*.npz")}
        assert len(bought) == [each.name for each in THREE].index(name)
        resume = gs.Checkpoints(folder, resume=True)
        ended = [solve_stages(THREE, N, BUDGET, seed=seed, progress=False, checkpoints=resume) for _ in range(2)]
        assert all(path.read_bytes() == content for path, content in bought.items())
        expected = outcome if seed == 0 else ended[1]
        for each in THREE:
            assert np.array_equal(ended[0].answers[each.name], expected.answers[each.name])
        assert ended[0].result.certificate == expected.result.certificate
    other = (stage("middle", 0.2, lambda answers: mean_of(-VALUES)), *THREE[1:])
    with pytest.raises(ValueError, match="another table of records"):
        solve_stages(other, N, BUDGET, seed=0, progress=False, checkpoints=gs.Checkpoints(tmp_path / "0", resume=True))
    with pytest.raises(ValueError, match="another configuration"):  # another share: other noise on the same records
        shares = (stage("middle", 0.3, THREE[0].pose), stage(TRAINING, 0.4, THREE[1].pose), THREE[2])
        solve_stages(shares, N, BUDGET, seed=0, progress=False, checkpoints=gs.Checkpoints(tmp_path / "0", resume=True))


def test_all_stages_share_what_the_samplers_error_is_charged_for(monkeypatch):
    doors = []

    def look(setup, *rest):
        doors.append(setup.door)
        raise Killed

    monkeypatch.setattr("gossamer.engine.loop.start", look)
    with pytest.raises(Killed):
        solve_stages(THREE, N, BUDGET, seed=0, progress=False)
    assert doors[0].elsewhere == 2
