"""Penalty and constraint together, against numerical minimisation; and refusal of what has no closed form."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from testkit import convex

from gossamer.geometry import (
    L1,
    L2,
    Box,
    Constraint,
    ElasticNet,
    GroupLasso,
    L1Ball,
    L2Ball,
    Simplex,
    Zero,
    check,
    prox,
)

PLAIN = [Zero(), L2(0.7), L1(0.5), ElasticNet(0.4, 0.9), GroupLasso(0.5), GroupLasso(0.5, groups="rows")]
EXCLUDING = [
    L2(0.7, exclude=("bias",)),
    L1(0.5, exclude=("bias",)),
    ElasticNet(0.4, 0.9, exclude=("bias",)),
    GroupLasso(0.5, exclude=("bias",)),
]
SETS = [L2Ball(1.2), L1Ball(1.5), Box(-0.3, 0.6), Box(0.0, None), Box(0.2, 0.8), Simplex(1.3)]
DRAW = np.random.default_rng(3)


def random_tree(draw, scale):
    shapes = {"bias": (2,), "weight": (3, 2)}
    return {name: jnp.asarray(scale * draw.normal(size=shape), jnp.float32) for name, shape in shapes.items()}


TREES = [random_tree(DRAW, scale) for scale in (0.2, 0.5, 1.0, 3.0)]
MASK = np.repeat([0.0, 1.0], [2, 6])
LEAVES = [np.arange(0, 2), np.arange(2, 8)]
ROWS = [np.array([0]), np.array([1]), np.arange(2, 4), np.arange(4, 6), np.arange(6, 8)]


def composes(penalty, constraint):
    """The table of pairs, written out here a second time on purpose."""
    match penalty, constraint, bool(penalty.exclude):
        case (Zero() | L1(), _, _) | (L2() | ElasticNet(), _, False):
            return True
        case (L2() | ElasticNet(), Box(), True) | (GroupLasso(), L2Ball(), _):
            return True
    return False


PAIRS = list(itertools.product([*PLAIN, *EXCLUDING], SETS))
GOOD = [pair for pair in PAIRS if composes(*pair)]
BAD = [pair for pair in PAIRS if not composes(*pair)]


def minimise(penalty, constraint, tree, step):
    mask = MASK if penalty.exclude else np.ones(8)
    groups = ROWS if getattr(penalty, "groups", "leaves") == "rows" else LEAVES
    return convex.minimise(penalty, constraint, ravel_pytree(tree)[0], step, mask=mask, groups=groups)


@pytest.mark.slow
@pytest.mark.parametrize(("penalty", "constraint"), GOOD, ids=str)
def test_prox_is_the_numerical_minimiser(penalty, constraint):
    check(penalty, constraint)
    for tree, step in itertools.product(TREES, (0.2, 1.0)):
        x = prox(penalty, constraint, tree, step)
        assert jax.tree.map(jnp.shape, x) == jax.tree.map(jnp.shape, tree)
        assert constraint.contains(x)
        np.testing.assert_allclose(ravel_pytree(x)[0], minimise(penalty, constraint, tree, step), atol=3e-6)


@pytest.mark.parametrize(("penalty", "constraint"), BAD, ids=str)
def test_a_pair_without_closed_form_is_refused(penalty, constraint):
    with pytest.raises(ValueError, match="no closed-form") as error:
        check(penalty, constraint)
    message = str(error.value)
    assert repr(penalty) in message and repr(constraint) in message
    assert ("drop exclude" in message) == isinstance(penalty, L2 | ElasticNet)
    with pytest.raises(ValueError, match="no closed-form"):
        prox(penalty, constraint, TREES[0], 0.1)


@pytest.mark.slow(each=True)
@pytest.mark.parametrize(("penalty", "constraint"), BAD, ids=str)
def test_a_refused_pair_is_not_projection_after_prox(penalty, constraint):
    # Otherwise the refusal would be needless.
    draw = np.random.default_rng(0)

    def gap():
        tree = random_tree(draw, 1.0)
        naive = ravel_pytree(constraint.project(penalty.prox(tree, 0.7)))[0]
        return np.abs(np.float64(naive) - minimise(penalty, constraint, tree, 0.7)).max()

    assert any(gap() > 1e-3 for _ in range(30))


def test_the_refusal_names_what_composes():
    with pytest.raises(ValueError, match=r"a constraint among: None, L2Ball;.*among: Zero, L2, L1, ElasticNet$"):
        check(GroupLasso(1.0), Simplex())


@pytest.mark.parametrize("penalty", [*PLAIN, *EXCLUDING], ids=str)
def test_without_constraint_it_is_the_prox(penalty):
    check(penalty, None)
    x, expected = prox(penalty, None, TREES[1], 0.3), penalty.prox(TREES[1], 0.3)
    jax.tree.map(np.testing.assert_array_equal, x, expected)


def test_l1_is_constant_on_the_simplex_where_projection_after_soft_threshold_is_wrong():
    v = jnp.asarray([0.1, -0.2, 0.05])
    x = prox(L1(1.0), Simplex(), v, 5.0)
    np.testing.assert_array_equal(x, Simplex().project(v))
    assert jnp.max(jnp.abs(x - Simplex().project(L1(1.0).prox(v, 5.0)))) > 0.01


def test_a_set_unknown_to_the_table_is_refused():
    class Line(Constraint):
        def project(self, tree):
            return tree

        def contains(self, tree, tolerance=1e-5):
            return jnp.asarray(True)

        def norm_bound(self, dimension):
            return 1.0

    with pytest.raises(ValueError, match="no closed-form"):
        check(L1(1.0), Line())


@pytest.mark.parametrize(
    ("penalty", "constraint"), [(L1(0.5), L1Ball(1.5)), (L1(0.5), Simplex()), (L2(1.0), L2Ball(1.0))]
)
def test_jit_with_static_configuration_and_traced_step(penalty, constraint):
    jitted = jax.jit(prox, static_argnums=(0, 1))
    x = jitted(penalty, constraint, TREES[2], jnp.asarray(0.3))
    expected = prox(penalty, constraint, TREES[2], 0.3)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7), x, expected)
