"""Proximal operators against numerical minimisation and against their optimality conditions."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree
from testkit import convex

from gossamer.geometry import L1, L2, ElasticNet, GroupLasso, Zero

PENALTIES = [Zero(), L2(0.7), L1(0.7), ElasticNet(0.4, 0.9), GroupLasso(0.7), GroupLasso(0.7, groups="rows")]
DRAW = np.random.default_rng(0)
TREE = {
    "bias": jnp.asarray(DRAW.normal(size=2), jnp.float32),
    "weight": jnp.asarray(DRAW.normal(size=(3, 2)), jnp.float32),
}
LEAVES = [np.arange(0, 2), np.arange(2, 8)]
ROWS = [np.array([0]), np.array([1]), np.arange(2, 4), np.arange(4, 6), np.arange(6, 8)]


def with_exclude(penalty, *names):
    return type(penalty)(**{**vars(penalty), "exclude": names})


def groups_of(penalty):
    return ROWS if getattr(penalty, "groups", "leaves") == "rows" else LEAVES


CASES = [(p, np.ones(8)) for p in PENALTIES] + [
    (with_exclude(p, "bias"), np.repeat([0.0, 1.0], [2, 6])) for p in PENALTIES
]


@pytest.mark.parametrize(("penalty", "mask"), CASES, ids=str)
@pytest.mark.parametrize("step", [0.0, 0.3, 2.0])
def test_prox_is_the_numerical_minimiser(penalty, mask, step):
    x = penalty.prox(TREE, step)
    assert jax.tree.map(jnp.shape, x) == jax.tree.map(jnp.shape, TREE)
    expected = convex.minimise(penalty, None, ravel_pytree(TREE)[0], step, mask=mask, groups=groups_of(penalty))
    np.testing.assert_allclose(ravel_pytree(x)[0], expected, atol=3e-6)


@pytest.mark.parametrize(("penalty", "mask"), CASES, ids=str)
def test_value_is_the_formula(penalty, mask):
    flat = np.float64(ravel_pytree(TREE)[0])
    assert float(penalty.value(TREE)) == pytest.approx(
        convex.penalty(penalty, flat, mask, groups_of(penalty)), rel=1e-6
    )


finite = st.floats(-50, 50, width=32).filter(lambda x: x == 0 or abs(x) > 1e-4)


@settings(max_examples=60, deadline=None)
@given(st.lists(finite, min_size=5, max_size=5), st.floats(0.01, 10), st.floats(0, 5), st.floats(0, 5))
def test_elastic_net_prox_satisfies_the_subgradient_condition(values, step, l1, l2):
    # v − x − step·l2·x ∈ step·l1·∂|x|, coordinate by coordinate.
    v = np.asarray(values, np.float32)
    x = np.float64(ElasticNet(l1, l2).prox(jnp.asarray(v), step))
    residual = v - (1 + step * l2) * x
    tolerance = 1e-5 * (1 + np.abs(v) + step * l1)
    assert np.all(np.abs(residual) <= step * l1 + tolerance)
    assert np.all((x == 0) | (np.abs(residual - step * l1 * np.sign(x)) <= tolerance))


@settings(max_examples=60, deadline=None)
@given(st.lists(finite, min_size=5, max_size=5), st.floats(0.01, 10))
def test_group_lasso_prox_satisfies_the_subgradient_condition(values, step):
    v = np.asarray(values, np.float32)
    x = np.float64(GroupLasso(1.5).prox(jnp.asarray(v), step))
    radius, tolerance = 1.5 * step, 1e-5 * (1 + np.linalg.norm(v))
    assert np.linalg.norm(v - x) <= radius + tolerance
    if np.any(x != 0):
        np.testing.assert_allclose(v - x, radius * x / np.linalg.norm(x), atol=2 * tolerance)
    else:
        assert np.linalg.norm(v) <= radius + tolerance


@pytest.mark.parametrize("penalty", [L1(2.0), GroupLasso(2.0, groups="rows")], ids=str)
def test_moreau_decomposition(penalty):
    # For a norm, v − prox(v) is the projection of v on the ball of radius step·strength of the dual norm.
    v = {"w": jnp.asarray([[3.0, -4.0], [0.1, 0.2], [0.0, 0.0], [1e6, 1.0]])}
    dual = np.asarray(v["w"] - penalty.prox(v, 0.5)["w"], np.float64)
    if isinstance(penalty, L1):
        expected = np.clip(v["w"], -1.0, 1.0)
    else:
        expected = np.stack([convex.project(convex.L2Ball(1.0), row) for row in v["w"]])
    np.testing.assert_allclose(dual[:3], expected[:3], atol=1e-6)
    np.testing.assert_allclose(dual[3], expected[3], atol=0.1)  # float32 has steps of 0.06 at 1e6


def test_group_lasso_groups():
    tree = {"a": jnp.asarray([[3.0, 4.0], [0.3, 0.4]]), "b": jnp.asarray([0.6, 0.8])}
    leaves = GroupLasso(1.0).prox(tree, 1.0)
    rows = GroupLasso(1.0, groups="rows").prox(tree, 1.0)
    np.testing.assert_allclose(leaves["b"], 0.0, atol=1e-7)
    np.testing.assert_allclose(leaves["a"], tree["a"] * (1 - 1 / math.sqrt(25.25)), rtol=1e-6)
    np.testing.assert_allclose(rows["a"], [[2.4, 3.2], [0.0, 0.0]], rtol=1e-6)
    np.testing.assert_allclose(rows["b"], 0.0, atol=1e-7)
    np.testing.assert_array_equal(GroupLasso(1.0).prox({"z": jnp.zeros(3)}, 1.0)["z"], 0.0)


def test_group_lasso_survives_squares_beyond_float32():
    v = jnp.asarray([3e25, 4e25], jnp.float32)
    np.testing.assert_allclose(GroupLasso(1e25).prox(v, 1.0), [2.4e25, 3.2e25], rtol=1e-6)
    assert float(GroupLasso(1.0).value(v)) == pytest.approx(5e25, rel=1e-6)


@pytest.mark.parametrize("penalty", [Zero(), L2(0.7), L2(0.7, exclude=("bias",))], ids=str)
def test_gradient_is_the_derivative_of_the_value(penalty):
    expected = jax.grad(penalty.value)(TREE)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), penalty.gradient(TREE), expected)


class Linear(NamedTuple):
    weight: jax.Array
    intercept: jax.Array


def test_exclude_finds_keys_and_attributes_at_any_depth():
    tree = {
        "layers": [Linear(jnp.ones(2), jnp.ones(1)), Linear(jnp.ones(2), jnp.ones(1))],
        "head": {"scale": jnp.ones(3)},
    }
    penalty = L2(1.0, exclude=("intercept", "head"))
    shrunk = penalty.prox(tree, 1.0)
    assert float(penalty.value(tree)) == pytest.approx(2.0)
    for layer in shrunk["layers"]:
        np.testing.assert_array_equal(layer.weight, 0.5)
        np.testing.assert_array_equal(layer.intercept, 1.0)
    np.testing.assert_array_equal(shrunk["head"]["scale"], 1.0)


@pytest.mark.parametrize("call", [lambda p: p.value(TREE), lambda p: p.prox(TREE, 0.1)])
def test_a_misspelt_exclude_is_refused(call):
    with pytest.raises(ValueError, match=r"'intercpt'.*\['bias', 'weight'\]"):
        call(L1(1.0, exclude=("intercpt",)))


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_jit_vmap_and_dtype(penalty):
    rows = jnp.asarray(DRAW.normal(size=(4, 5)), jnp.float32)
    steps = jnp.asarray([0.0, 0.1, 1.0, 10.0])
    single = [penalty.prox(row, float(step)) for row, step in zip(rows, steps, strict=True)]
    batched = jax.jit(lambda p, v, step: jax.vmap(p.prox)(v, step), static_argnums=0)(penalty, rows, steps)
    np.testing.assert_allclose(batched, jnp.stack(single), rtol=1e-6, atol=1e-7)
    narrow = jax.eval_shape(penalty.prox, {"a": rows.astype(jnp.bfloat16), "b": rows}, steps[1])
    assert (narrow["a"].dtype, narrow["b"].dtype) == (jnp.bfloat16, jnp.float32)


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: L2(-1.0), ["L2", "strength=-1.0", ">= 0", "use 0.0"]),
        (lambda: L1(math.nan), ["L1", "strength=nan"]),
        (lambda: ElasticNet(0.1, -0.2), ["ElasticNet", "l2=-0.2", ">= 0"]),
        (lambda: GroupLasso(math.inf), ["GroupLasso", "strength=inf"]),
        (lambda: GroupLasso(1.0, groups="columns"), ["groups='columns'", "'rows'"]),
        (lambda: L2(1.0, exclude="intercept"), ["exclude='intercept'", "('intercept',)"]),
    ],
)
def test_bad_parameters_are_named(make, parts):
    with pytest.raises(ValueError, match="must be") as error:
        make()
    for part in parts:
        assert part in str(error.value)


def test_exclude_given_as_a_list_is_still_hashable():
    assert hash(L2(1.0, exclude=["bias"])) == hash(L2(1.0, exclude=("bias",)))
