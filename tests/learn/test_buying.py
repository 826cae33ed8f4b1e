"""What is bought before the training: within the budget, once, and all that the training knows of it."""

import contextlib
import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from testkit.rings import deep_but

import gossamer as gs
from gossamer.engine.checkpoints import Checkpoints
from gossamer.engine.solving import run_ready
from gossamer.learn import PrivateAUCClassifier, PrivateDROClassifier
from gossamer.privacy.facts import Bought
from gossamer.runs.auditing import training_budget

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1200, 2))
Y = (X[:, 0] > 0).astype(int)
MEMBERS = np.arange(1200) % 4 % 3
"""Half of the records are of group 0, the rest of groups 1 and 2."""
NEIGHBOUR = np.where(np.arange(1200) == 1, 0, MEMBERS)
PUBLIC = {"epsilon": 20.0, "delta": 1e-4, "data_norm": 4.0, "classes": [0, 1], "groups": [0, 1, 2], "random_state": 0}


def quick(default):
    """Return the method that suits, with a user's settings."""
    return dataclasses.replace(default, steps=2, clip_x=0.25)


class Stop(BaseException):
    """What keeps the training from beginning."""


def handed(kind, members):
    """Return what the training is handed besides the records, when one answer is replayed whatever the records."""
    task = kind(**PUBLIC).pose(X, Y, members)
    *_, training = task.stages()
    posed = training.pose({"shares of groups": jnp.array([0.2, -0.1, -0.11])})
    x, y = posed.init
    start = np.asarray(x[0]["weights"]).tolist(), y.tolist()
    return posed.problem, posed.method, training.share, start


@contextlib.contextmanager
def killed_before_training(monkeypatch):
    """Kill a run between what it buys and its training."""

    def run(ready, planned, *rest, **options):
        if type(planned.method).__name__ == "SGDA":
            raise Stop
        return run_ready(ready, planned, *rest, **options)

    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr("gossamer.engine.stages.run_ready", run)
        yield


class ReadsShares(PrivateDROClassifier):
    """Unsound: it takes the exact shares for those that were bought."""

    def _task_at(self, shares, arrays, start, person):
        return super()._task_at(np.bincount(arrays[2]) / len(arrays[2]), arrays, start, person)


def test_the_training_knows_the_groups_by_the_answer_alone():
    """Problem, method, share and start are the same for neighbours; the twin's problem and method are not."""
    assert handed(PrivateDROClassifier, MEMBERS) == handed(PrivateDROClassifier, NEIGHBOUR)
    one, other = handed(ReadsShares, MEMBERS), handed(ReadsShares, NEIGHBOUR)
    assert one[0] != other[0]
    assert one[1].clip_y != other[1].clip_y
    assert one[2:] == other[2:]


def test_the_plan_knows_nothing_of_the_groups():
    """Not even from a table where every record is of one group; the twin's plan shows it."""

    def plans(kind):
        tasks = [kind(**PUBLIC).pose(X, Y, members) for members in (MEMBERS, NEIGHBOUR, 0 * MEMBERS + 1)]
        return [(task.problem, task.method, [(each.name, each.share) for each in task.bought]) for task in tasks]

    one, other, third = plans(PrivateDROClassifier)
    assert one == other == third
    assert one[1].clip_y == pytest.approx(3)
    assert plans(ReadsShares)[0] != plans(ReadsShares)[1]


@pytest.mark.deep
@pytest.mark.parametrize("neighbors", deep_but(["replace_one", "add_remove"], "replace_one"))
def test_shares_of_groups_are_bought_within_the_budget(neighbors):
    """The certificate states all of the budget and holds when it is recomputed; a user's settings outlive the purchase.

    The answer's deviation is about 0.001 in each share.
    """
    fitted = PrivateDROClassifier(**PUBLIC, neighbors=neighbors, method=quick).fit(X, Y, groups=MEMBERS)
    certificate = fitted.certificate_
    assert (certificate.epsilon, certificate.delta, certificate.neighbors) == (20.0, 1e-4, neighbors)
    assert [query.name for query in certificate.schedule] == ["shares of groups", "gradient"]
    outcome = certificate.verify()
    assert outcome
    assert outcome.epsilon > 0.9 * 20
    assert certificate.leaks == ()
    (bought,) = certificate.purchases
    assert bought == Bought("shares of groups", ("shares of groups",), 0.05)
    cheaper = dataclasses.replace(certificate, purchases=(dataclasses.replace(bought, share=0.04),))
    (wrong,) = cheaper.verify().wrong
    assert "'shares of groups' had 0.04 of the cost, and it had 0.05" in wrong
    assert fitted.group_shares_ == pytest.approx([0.5, 0.25, 0.25], abs=0.01)
    assert np.abs(fitted.group_shares_ - [0.5, 0.25, 0.25]).max() > 1e-6
    settings = certificate.configuration
    assert (settings["steps"], settings["clip_x"]) == (2, 0.25)
    assert settings["clip_y"] == pytest.approx(1 / min(fitted.group_shares_))
    planned = gs.plan(gs.methods.SGDA(**settings), 1200, training_budget(certificate))
    noise = certificate.schedule["gradient"].noise_multiplier
    assert planned.schedule["gradient"].noise_multiplier == pytest.approx(noise, rel=1e-3)
    given = PrivateDROClassifier(**PUBLIC, neighbors=neighbors, group_shares=[0.5, 0.25, 0.25], method=quick)
    whole = given.fit(X, Y, groups=MEMBERS).certificate_
    assert training_budget(whole).epsilon == 20.0
    assert whole.schedule["gradient"].noise_multiplier < certificate.schedule["gradient"].noise_multiplier


@pytest.mark.slow
def test_a_killed_run_does_not_buy_twice(tmp_path, monkeypatch):
    """And on other groups it goes on from nothing that was bought."""
    options = {**PUBLIC, "method": quick, "random_state": None}
    with killed_before_training(monkeypatch):
        PrivateDROClassifier(**options, checkpoints=Checkpoints(tmp_path)).fit(X, Y, groups=MEMBERS)
    bought = (tmp_path / "stage 0" / "run.npz").read_bytes()
    resumed = {**options, "checkpoints": Checkpoints(tmp_path, resume=True)}
    with pytest.raises(ValueError, match="another table of records"):
        PrivateDROClassifier(**resumed).fit(X, Y, groups=NEIGHBOUR)
    with pytest.raises(ValueError, match="was begun"):
        PrivateDROClassifier(**options, checkpoints=Checkpoints(tmp_path)).fit(X, Y, groups=MEMBERS)
    shares = [PrivateDROClassifier(**resumed).fit(X, Y, groups=MEMBERS).group_shares_.tolist() for _ in range(2)]
    assert shares[0] == shares[1]
    assert (tmp_path / "stage 0" / "run.npz").read_bytes() == bought


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "groups"), [(PrivateDROClassifier, {"groups": MEMBERS}), (PrivateAUCClassifier, {})], ids=["DRO", "AUC"]
)
def test_nothing_is_bought_for_a_training_that_cannot_be(kind, groups, monkeypatch):
    """Neither for a method of another problem, nor for a batch beyond the table, nor for a tiny δ."""
    monkeypatch.setattr("gossamer.engine.stages.run_ready", None)
    public = {name: value for name, value in PUBLIC.items() if groups or name != "groups"}
    for changes, message in (
        ({"method": gs.methods.GD()}, "GD cannot solve a problem of type Minimax"),
        ({"method": gs.methods.SGDA(batch_size=1201)}, "batch_size = 1201 exceeds n = 1200"),
        ({"delta": 9e-11}, "is below 1e-10"),
        ({"method": gs.methods.SGDA}, "must be an instance of a class in gs.methods"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            kind(**{**public, **changes}).fit(X, Y, **groups)
