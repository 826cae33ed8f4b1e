"""Projections against bisection on the KKT multiplier, on easy and hostile inputs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree
from testkit import convex

from gossamer.geometry import Box, L1Ball, L2Ball, Simplex

SETS = [
    L2Ball(1.0),
    L2Ball(1e-3),
    L2Ball(2e4),
    L1Ball(1.0),
    L1Ball(1e-3),
    L1Ball(2e4),
    Simplex(),
    Simplex(1e-3),
    Simplex(2e4),
    Box(0.0, None),
    Box(None, 0.5),
    Box(-0.25, 0.75),
    Box(2.0, 2.0),
    Box(None, None),
]
DRAW = np.random.default_rng(0)
# Few distinct lengths: each is compiled anew.
INPUTS = {
    "random": DRAW.normal(size=20),
    "many": DRAW.normal(size=5000),
    "ties": [1.0, 1.0, 1.0, -1.0, 0.5, 0.5],
    "zeros": np.zeros(6),
    "tiny": 1e-5 * DRAW.normal(size=20),
    "just outside": [0.8, -0.7, 0.0, 0.0, 0.0, 0.0],
    "one": [3.0],
    "minus one": [-3.0],
    "huge": 1e6 * DRAW.normal(size=20),
    "huge ties": [1e6, 1e6, 1e6 - 0.5, -1e6, 0.0, 0.0],
    "one giant": [1e6, *DRAW.normal(size=19)],
    "beyond the squares of float32": [3e25, -4e25, 1.0, 0.0, 0.0, 0.0],
    "beneath the squares of float32": [3e-25, -4e-25, 0.0, 0.0, 0.0, 0.0],
}


def scale_of(constraint):
    match constraint:
        case Box():
            return 1.0
        case Simplex(total):
            return total
        case _:
            return constraint.radius


@pytest.mark.slow(each=True)
@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("constraint", SETS, ids=str)
def test_projection_is_that_of_bisection(constraint, name):
    v = jnp.asarray(INPUTS[name], jnp.float32)
    x = constraint.project(v)
    assert x.dtype == v.dtype and x.shape == v.shape
    expected = convex.project(constraint, v)
    # float32 cannot hold the answer more closely than this, relative to the answer's own size.
    np.testing.assert_allclose(x, expected, rtol=2e-6, atol=1e-6 * min(scale_of(constraint), np.abs(expected).max()))
    assert constraint.contains(x)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-100, 100, width=32).filter(lambda x: x == 0 or abs(x) > 1e-6), min_size=6, max_size=6),
    st.sampled_from([L2Ball(3.0), L1Ball(3.0), Simplex(3.0), Box(-1.0, 2.0)]),
)
def test_projection_satisfies_the_obtuse_angle_condition(values, constraint):
    # ⟨v − x, y − x⟩ ≤ 0 for all y in the set characterises the projection.
    v = jnp.asarray(values, jnp.float32)
    x = np.asarray(constraint.project(v), np.float64)
    others = np.random.default_rng(1).normal(size=(10, len(values)))
    feasible = [convex.project(constraint, y) for y in [*others, *(5 * others), *(x + 0.01 * others)]]
    angle = max(np.dot(np.float64(v) - x, y - x) for y in feasible)
    assert angle <= 3e-6 * (1 + np.linalg.norm(v)) * 10


@pytest.mark.parametrize("constraint", [L2Ball(5.0), L1Ball(5.0), Box(-5.0, 5.0)], ids=str)
def test_a_point_inside_is_returned_bit_for_bit(constraint):
    v = jnp.asarray(DRAW.normal(size=6) / 3, jnp.float32)
    np.testing.assert_array_equal(constraint.project(v), v)


ONE_OF_EACH = [L2Ball(1.0), L1Ball(1.0), Simplex(), Box(-0.25, 0.75)]


@pytest.mark.slow
@pytest.mark.parametrize("constraint", ONE_OF_EACH, ids=str)
def test_a_tree_is_one_vector(constraint):
    tree = {
        "matrix": jnp.asarray(DRAW.normal(size=(3, 4)), jnp.float32),
        "rest": (jnp.asarray(DRAW.normal(size=5), jnp.float32), jnp.asarray(2.0)),
        "empty": jnp.zeros((0, 2)),
    }
    projected = jax.jit(constraint.project)(tree)
    assert jax.tree.map(jnp.shape, projected) == jax.tree.map(jnp.shape, tree)
    np.testing.assert_allclose(
        ravel_pytree(projected)[0], constraint.project(ravel_pytree(tree)[0]), rtol=1e-6, atol=1e-7
    )
    assert constraint.contains(projected)


@pytest.mark.parametrize("constraint", ONE_OF_EACH, ids=str)
def test_jit_vmap_and_dtype(constraint):
    rows = jnp.asarray(DRAW.normal(size=(4, 6)), jnp.float32)
    single = jnp.stack([constraint.project(row) for row in rows])
    batched = jax.jit(lambda c, v: jax.vmap(c.project)(v), static_argnums=0)(constraint, rows)
    np.testing.assert_allclose(batched, single, rtol=1e-6, atol=1e-7)
    narrow = jax.eval_shape(constraint.project, {"a": rows.astype(jnp.bfloat16), "b": rows})
    assert (narrow["a"].dtype, narrow["b"].dtype) == (jnp.bfloat16, jnp.float32)


@pytest.mark.parametrize(
    ("constraint", "inside", "outside"),
    [
        (L2Ball(5.0), [3.0, -4.0], [3.0, -4.001]),
        (L1Ball(7.0), [3.0, -4.0], [3.0, -4.001]),
        (Simplex(2.0), [0.5, 1.5], [0.5, 1.501]),
        (Simplex(2.0), [0.0, 2.0], [-0.001, 2.001]),
        (Box(0.0, None), [0.0, 1e9], [-0.001, 1e9]),
        (Box(None, 1.0), [-1e9, 1.0], [0.0, 1.001]),
        (L2Ball(1e6), [1e6, 0.0], [1.001e6, 0.0]),
    ],
)
def test_contains(constraint, inside, outside):
    assert constraint.contains(jnp.asarray(inside))
    assert not constraint.contains(jnp.asarray(outside))
    assert constraint.contains(jnp.asarray(outside), tolerance=0.01)
    assert not constraint.contains(jnp.asarray([math.nan, 0.0]))


def test_contains_looks_at_the_whole_tree():
    tree = {"a": jnp.asarray([3.0]), "b": jnp.asarray([4.0])}
    assert not L2Ball(4.9).contains(tree)
    assert not L1Ball(6.9).contains(tree)
    assert not Box(None, 3.5).contains(tree)


@pytest.mark.parametrize("constraint", [L2Ball(3.0), L1Ball(3.0), Simplex(3.0), Box(-1.0, 2.0)], ids=str)
def test_norm_bound_is_attained_and_not_exceeded(constraint):
    d = 6
    points = [constraint.project(jnp.asarray(100 * DRAW.normal(size=d), jnp.float32)) for _ in range(20)]
    extreme = jnp.full(d, 2.0) if isinstance(constraint, Box) else jnp.zeros(d).at[2].set(3.0)
    assert constraint.contains(extreme)
    assert max(float(jnp.linalg.norm(x)) for x in points) <= constraint.norm_bound(d) * (1 + 1e-6)
    assert float(jnp.linalg.norm(extreme)) == pytest.approx(constraint.norm_bound(d), rel=1e-6)


def test_norm_bound_of_an_unbounded_box():
    assert Box(0.0, None).norm_bound(3) == math.inf


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        (lambda: L2Ball(0.0), ["L2Ball", "radius=0.0", "> 0", "constraint=None"]),
        (lambda: L2Ball(math.inf), ["radius=inf", "finite"]),
        (lambda: L1Ball(-1.0), ["L1Ball", "radius=-1.0", "> 0"]),
        (lambda: L1Ball(math.nan), ["radius=nan"]),
        (lambda: L1Ball(jnp.ones(2)), ["radius", "Python number"]),
        (lambda: Simplex(0), ["Simplex", "total=0", "> 0"]),
        (lambda: Box(1.0, 0.0), ["Box", "lower=1.0", "<=", "upper=0.0", "swap"]),
        (lambda: Box(-math.inf, 0.0), ["lower=-inf", "lower=None"]),
        (lambda: Box(0.0, "1"), ["upper='1'", "upper=None"]),
    ],
)
def test_bad_parameters_are_named(make, parts):
    with pytest.raises(ValueError, match="must be") as error:
        make()
    for part in parts:
        assert part in str(error.value)


def test_numbers_become_python_floats():
    assert L2Ball(np.float32(0.5)) == L2Ball(0.5)
    assert type(L2Ball(np.float32(0.5)).radius) is float
    assert hash(Box(0, None)) == hash(Box(0.0, None))
