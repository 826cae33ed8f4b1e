"""A method from outside the package: a sound one passes conformance, and each unsound twin fails where it should."""

import itertools
from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import optax
import pytest
from testkit.twins import BatchMeanOracle, QuietOracle

import gossamer as gs
from gossamer.methods import Method, Report, fields, sampling_rate


@dataclass(frozen=True)
class SignDescent(Method[gs.ERM]):
    """x ← x − η·sign(Q(∇f(x))), with steps that shrink: nobody's method, written with public names alone."""

    steps: fields.Count = 3
    learning_rate: fields.Positive = 0.1
    decay: Annotated[float, fields.Number(above=0, most=1)] = 0.9
    clip: fields.Clip = 1.0
    batch_size: fields.Count = 8

    def schedule(self, n):
        return gs.Schedule((gs.Query("gradient", self.steps, gs.Poisson(sampling_rate(self.batch_size, n))),))

    def init(self, problem, params):
        return params

    def step(self, problem, ask, state, t):
        gradient = ask("gradient", gs.Gradient(problem.loss, state), clip=self.clip)
        eta = self.learning_rate * self.decay**t
        return jax.tree.map(lambda x, g: x - eta * jnp.sign(g), state, gradient), Report(
            state, optax.tree.norm(gradient)
        )

    def params(self, state):
        return state


class Greedy(SignDescent):
    """Asks twice in every step and scheduled it once."""

    def step(self, problem, ask, state, t):
        state, _ = super().step(problem, ask, state, t)
        return super().step(problem, ask, state, t)


class Idle(SignDescent):
    """Asks in every other step, and has paid for all."""

    def step(self, problem, ask, state, t):
        def rest(ask):
            return state, Report(state, jnp.float32(0))

        return ask.cond(t % 2 == 0, lambda ask: super(Idle, self).step(problem, ask, state, t), rest)


def records_behind(ask):
    """What Python cannot stop a method from reaching for."""
    return getattr(ask._oracle, "inner", ask._oracle)._secrets.data


class Peeking(SignDescent):
    """Moves by a ten-thousandth of the first record, past the oracle."""

    def step(self, problem, ask, state, t):
        after, report = super().step(problem, ask, state, t)
        return after + 1e-4 * records_behind(ask)[0], report


class MeanClipping(SignDescent):
    """Clips the mean of the records' gradients itself, instead of each record at the door."""

    def step(self, problem, ask, state, t):
        _, report = super().step(problem, ask, state, t)
        mean = jax.grad(lambda x: jnp.mean(jax.vmap(lambda z: problem.loss(x, z))(records_behind(ask))))(state)
        return state - self.learning_rate * mean * jnp.minimum(1.0, self.clip / optax.tree.norm(mean)), report


class Remembering(SignDescent):
    """Counts its runs in a variable of Python, and moves by the count."""

    def init(self, problem, params):
        return params + 1e-3 * next(_RUNS)


class OneKey(SignDescent):
    """Draws twice with one key."""

    def step(self, problem, ask, state, t):
        after, report = super().step(problem, ask, state, t)
        key = jax.random.key(t)
        return after + 1e-3 * (jax.random.normal(key, after.shape) - jax.random.normal(key, after.shape)), report


class Mutable(SignDescent):
    """Is equal to nothing but itself."""

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__


_RUNS = itertools.count()
TABLE = jnp.eye(8)
LINEAR = gs.ERM(lambda x, record: -(record @ x))


def conform(method, **options):
    return gs.audit.conformance(method, LINEAR, TABLE, init=jnp.zeros(8), **{"runs": 512, **options})


@pytest.mark.deep
def test_a_sound_method_passes():
    report = conform(SignDescent(), runs=2048)
    assert report.passed and report, str(report)
    assert str(report).startswith("SignDescent: passed\n  ok    settings ")
    assert report["sensitivity, opposite"].evidence.worst["gradient"] == pytest.approx(2.0)
    assert report["audit, replace_one"].evidence.lower_bound > 0.3
    assert {check.name.partition(",")[0] for check in report.checks} == {
        *("settings", "asks", "keys", "purity", "compiles once", "replay", "sensitivity", "audit")
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("twin", "kind", "caught"),
    [
        (Greedy, "asks", "asks"),
        (Idle, "asks", "asks"),
        (Peeking, "replay", "replay"),
        (MeanClipping, "replay", "replay"),
        (Remembering, "repeats", "purity"),
        (OneKey, "repeats", "keys"),
        (Mutable, "settings", "settings"),
    ],
)
def test_an_unsound_twin_fails_where_it_should(twin, kind, caught):
    report = conform(twin(), only=[kind])
    assert report.failed == (caught,), str(report)
    assert not report.passed and not report
    assert "FAILED" in str(report)


@pytest.mark.slow
def test_a_method_that_may_end_early_may_ask_less():
    assert conform(Idle(), ends_early=True, only=["asks"]).passed


@pytest.mark.deep
@pytest.mark.parametrize(
    ("oracle", "caught"), [(BatchMeanOracle, "sensitivity, huge"), (QuietOracle, "audit, replace_one")]
)
def test_an_unsound_oracle_is_caught(oracle, caught):
    """Clipping the mean of a batch; 0.7 times the noise."""
    report = conform(SignDescent(steps=1), runs=16_384, oracle=oracle, only=[caught.partition(",")[0]])
    assert caught in report.failed, str(report)


@pytest.mark.slow
def test_the_target_says_which_record_is_attacked_and_by_what():
    far = gs.audit.Target(row=3, record=-2.0 * TABLE[3], hostile={"doubled": 2.0 * TABLE[3]})
    report = conform(SignDescent(steps=1), target=far, only=["sensitivity"])
    assert [check.name for check in report.checks] == ["sensitivity, opposite", "sensitivity, doubled"]
    moved = [check.evidence.worst["gradient"] for check in report.checks]
    assert moved == pytest.approx([2.0, 0.0], abs=1e-5)  # from e₃ to its opposite; beyond the threshold it is cut off


def test_what_is_to_be_checked_must_be_known():
    with pytest.raises(ValueError, match=r"only = \['speed'\] must be some of 'settings', 'asks'"):
        conform(SignDescent(), only=["speed"])


def test_a_problem_of_another_kind_is_refused_at_once():
    with pytest.raises(TypeError, match="SignDescent cannot solve a problem of type Minimax"):
        gs.audit.conformance(SignDescent(), gs.Minimax(lambda x, y, z: x), TABLE, init=jnp.zeros(8))
