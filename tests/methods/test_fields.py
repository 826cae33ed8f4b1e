"""Fields say what they may be, and problems are types: what an author of a method can rely on."""

import dataclasses
import inspect
from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from testkit.tables import LINEAR, START, TABLE, linear_loss

import gossamer as gs
from gossamer.methods import GD, O2NC, RGDA, SVRG, AdaSpider, StoSpider, SVRGpp, fields


@dataclass(frozen=True)
class Own(GD):
    """A method with fields of its own, which no prefix of their names describes."""

    clip_mode: str = "flat"
    share: Annotated[float, fields.Number(least=0, most=1, because="it is a share")] = 0.5
    sizes: tuple[fields.Count, ...] | None = None
    shift: float = 0.0
    inner: SVRG | None = None


def test_a_field_is_what_its_type_says():
    own = Own(clip_mode="per layer", share=np.float32(0.25), sizes=[1, 2], shift=-3, inner=SVRG())
    assert (own.share, own.sizes, own.shift) == (0.25, (1, 2), -3)
    assert hash(own) == hash(dataclasses.replace(own))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"clip_mode": 3}, r"clip_mode = 3 must be a text\."),
        ({"share": 1.5}, r"share = 1\.5 must be a finite number of at least 0 and of at most 1 \(it is a share\)\."),
        ({"share": True}, "share = True must be a finite number"),
        (
            {"sizes": (1, 0)},
            r"sizes = \(int, int\) must be a tuple of values, each a whole number of at least 1",
        ),
        ({"shift": jnp.inf}, r"shift = inf must be a finite number\."),
        ({"inner": GD()}, r"inner = GD must be a SVRG, or None\."),
        ({"clip": 0}, r"clip = 0 must be a finite number above 0 \(it bounds what one record can do\)\."),
        ({"steps": 0}, r"steps = 0 must be a whole number of at least 1\."),
    ],
)
def test_another_value_is_refused_by_name_value_and_bound(bad, message):
    with pytest.raises(ValueError, match=message):
        Own(**bad)


@pytest.mark.parametrize("kind", [SVRG, SVRGpp, StoSpider, AdaSpider, O2NC])
def test_a_function_of_the_step_is_refused_where_the_method_cannot_use_it(kind):
    with pytest.raises(ValueError, match="learning_rate = function must be a finite number above 0"):
        kind(learning_rate=optax.constant_schedule(0.1))


@pytest.mark.parametrize("side", ["x", "y"])
def test_rgda_takes_no_function_of_the_step_either(side):
    with pytest.raises(ValueError, match=f"learning_rate_{side} = function must be"):
        RGDA(**{f"learning_rate_{side}": optax.constant_schedule(0.1)})


def test_what_the_loop_relies_on_is_checked_whatever_a_subclass_annotates():
    @dataclass(frozen=True)
    class Loose(GD):
        steps: float = 2
        output: str = "last"

    with pytest.raises(ValueError, match=r"steps = 2\.5 must be a whole number"):
        Loose(steps=2.5)
    with pytest.raises(ValueError, match="output = 'best' must be one of 'last'"):
        Loose(output="best")


@dataclass(frozen=True)
class Weighted(gs.ERM):
    """An average loss with a field of its own."""

    weight: float = 2.0


@pytest.mark.slow
def test_a_subclass_of_a_problem_is_one():
    """Kinds of problem are types: what solves ERM solves what inherits from it."""
    budget = gs.Budget(2.0, 1e-2)
    runs = [gs.solve(p, TABLE, GD(steps=2), budget, init=START, seed=0) for p in (LINEAR, Weighted(linear_loss))]
    assert jax.tree.all(jax.tree.map(np.array_equal, runs[0].params, runs[1].params))
    with pytest.raises(TypeError, match=r"SGDA cannot solve a problem of type Weighted\. These can: GD, SGD, SVRG"):
        gs.solve(Weighted(linear_loss), TABLE, gs.methods.SGDA(), budget, init=START)


def test_for_problem_has_one_signature():
    """Records, dimension and budget by place; the constants of the theorem by name; then any field."""
    makers = [kind.for_problem for kind in gs.methods.ALL if hasattr(kind, "for_problem")]
    assert len(makers) == 11
    for maker in makers:
        first, *_ = parameters = list(inspect.signature(maker).parameters.values())
        assert [p.name for p in parameters[:3]] == ["n", "d", "budget"]
        assert {p.kind for p in parameters[3:-1]} == {first.KEYWORD_ONLY}
        assert (parameters[-1].name, parameters[-1].kind) == ("options", first.VAR_KEYWORD)
