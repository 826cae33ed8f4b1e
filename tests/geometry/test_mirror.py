"""Mirror maps: gradient against differentiation, inverse against identity, divergence against its lower bound."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gossamer.geometry import Entropy, Euclidean, PNorm

DRAW = np.random.default_rng(0)


def vector(d, scale=1.0):
    return jnp.asarray(scale * DRAW.normal(size=d), jnp.float32)


def distribution(d):
    return jnp.asarray(DRAW.dirichlet(np.full(d, 0.5)) + 1e-9, jnp.float32)


CASES = [
    *((Euclidean(), vector(d), vector(d)) for d in (6,)),
    *((PNorm(d), vector(d), vector(d)) for d in (2, 6, 100_000)),
    *((Entropy(), distribution(d), distribution(d)) for d in (1, 6)),
]


def name(value):
    return f"{value}" if not hasattr(value, "size") else f"{value.size}"


@pytest.mark.parametrize(("mirror", "x", "z"), CASES, ids=name)
def test_gradient_is_the_derivative_of_the_potential(mirror, x, z):
    expected = jax.jit(jax.grad(mirror.potential))(x)
    np.testing.assert_allclose(mirror.gradient(x), expected, rtol=1e-5, atol=1e-5 * jnp.abs(expected).max())


@pytest.mark.parametrize(("mirror", "x", "z"), CASES, ids=name)
def test_inverse_undoes_the_gradient(mirror, x, z):
    np.testing.assert_allclose(mirror.inverse(mirror.gradient(x)), x, rtol=2e-5, atol=2e-6 * jnp.abs(x).max())


@pytest.mark.parametrize(("mirror", "x", "z"), CASES, ids=name)
def test_divergence_is_its_definition(mirror, x, z):
    w_z, w_x = (reference_potential(mirror, np.float64(point)) for point in (z, x))
    slope = np.float64(mirror.gradient(x)) @ (np.float64(z) - np.float64(x))
    # The last term: entries of a float32 distribution sum to one only up to rounding.
    assert float(mirror.divergence(z, x)) == pytest.approx(
        w_z - w_x - slope, rel=1e-4, abs=2e-6 * (abs(w_z) + abs(w_x))
    )


def reference_potential(mirror, x):
    match mirror:
        case Euclidean():
            return 0.5 * np.sum(x**2)
        case PNorm(d):
            a = 1 + 1 / max(1, math.log(d))
            return np.sum(np.abs(x) ** a) ** (2 / a) / (2 * (a - 1))
        case Entropy():
            return np.sum(x * np.log(x))


@pytest.mark.parametrize(("mirror", "x", "z"), CASES, ids=name)
def test_potential_is_the_formula(mirror, x, z):
    assert float(mirror.potential(x)) == pytest.approx(reference_potential(mirror, np.float64(x)), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize(("mirror", "x", "z"), CASES, ids=name)
def test_potential_is_strongly_convex_in_its_norm(mirror, x, z):
    for weight in (1.0, 0.1):
        other = x + weight * (z - x)
        bound = 0.5 * float(mirror.norm(other - x)) ** 2
        rounding = 1e-6 * abs(float(mirror.potential(x)))
        assert float(mirror.divergence(other, x)) >= bound * (1 - 1e-5) - rounding


entries = st.floats(-10, 10, width=32).filter(lambda x: x == 0 or abs(x) > 1e-3)
pairs = st.sampled_from([2, 6]).flatmap(lambda d: st.tuples(*(2 * [st.lists(entries, min_size=d, max_size=d)])))


@settings(max_examples=60, deadline=None)
@given(pairs)
def test_pnorm_is_strongly_convex_also_on_sparse_and_equal_vectors(pair):
    z, x = (jnp.asarray(v, jnp.float32) for v in pair)
    mirror = PNorm(x.size)
    rounding = 1e-6 * float(mirror.potential(x) + mirror.potential(z))
    assert float(mirror.divergence(z, x)) >= 0.5 * float(mirror.norm(z - x)) ** 2 - rounding
    # Hence e⁻² in the 1-norm.
    assert float(mirror.norm(z - x)) >= math.exp(-1) * float(jnp.sum(jnp.abs(z - x))) * (1 - 1e-6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 20), min_size=6, max_size=6), st.randoms(use_true_random=False))
def test_entropy_satisfies_pinsker_also_at_zeros(counts, random):
    counts[0] += 1
    z = np.asarray(counts, np.float32) / sum(counts)
    x = np.asarray(random.sample(list(z), len(z)), np.float32) + np.float32(1e-3)
    x = x / x.sum(dtype=np.float32)
    divergence = float(Entropy().divergence(jnp.asarray(z), jnp.asarray(x)))
    assert math.isfinite(divergence)
    assert divergence >= 0.5 * float(np.abs(z - x).sum()) ** 2 - 2e-7
    support = z > 0
    expected = np.sum(np.float64(z[support]) * np.log(np.float64(z[support]) / x[support]))
    assert divergence == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_entropy_at_the_boundary():
    corner, edge, inside = (jnp.asarray(v) for v in ([1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]))
    entropy = Entropy()
    assert float(entropy.potential(corner)) == 0.0
    assert float(entropy.divergence(corner, corner)) == 0.0
    assert float(entropy.divergence(corner, edge)) == pytest.approx(math.log(2), rel=1e-6)
    assert float(entropy.divergence(edge, corner)) == math.inf
    assert float(entropy.divergence(edge, inside)) == pytest.approx(math.log(2), rel=1e-6)
    np.testing.assert_allclose(entropy.inverse(entropy.gradient(edge)), edge, rtol=1e-6)
    tiny = jnp.asarray([1.0, 1e-41, 1e-30])
    assert 0 <= float(entropy.divergence(tiny, inside)) < 2


def test_entropy_divergence_keeps_its_digits_for_near_points():
    z, x = (np.asarray(v, np.float32) for v in ([0.3, 0.2, 0.5], [0.3 + 1e-4, 0.2 - 1e-4, 0.5]))
    expected = np.sum(z * (np.log(np.float64(z)) - np.log(np.float64(x))) - z + np.float64(x))
    assert float(Entropy().divergence(jnp.asarray(z), jnp.asarray(x))) == pytest.approx(expected, rel=2e-3)


def test_entropy_inverse_ignores_a_shift_and_survives_large_duals():
    y = jnp.asarray([1000.0, 999.0, -1000.0])
    x = Entropy().inverse(y)
    np.testing.assert_allclose(x, [1 / (1 + math.exp(-1)), 1 / (1 + math.exp(1)), 0.0], rtol=1e-6)
    np.testing.assert_allclose(Entropy().inverse(y - 500.0), x, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-20, 1e-3, 1e6, 1e25])
def test_pnorm_survives_every_scale(scale):
    d = 100_000
    x = vector(d, scale)
    mirror = PNorm(d)
    dual = mirror.gradient(x)
    assert jnp.all(jnp.isfinite(dual))
    np.testing.assert_allclose(mirror.inverse(dual), x, rtol=2e-5, atol=2e-6 * jnp.abs(x).max())


def test_pnorm_at_zero():
    zero, x = jnp.zeros(6), vector(6)
    mirror = PNorm(6)
    np.testing.assert_array_equal(mirror.gradient(zero), zero)
    np.testing.assert_array_equal(mirror.inverse(zero), zero)
    assert float(mirror.divergence(x, zero)) == pytest.approx(float(mirror.potential(x)), rel=1e-6)
    assert float(mirror.divergence(x, x)) <= 1e-6 * float(mirror.potential(x))


@pytest.mark.slow
def test_a_tree_is_one_vector():
    tree = {"a": vector(2), "b": [vector(4).reshape(2, 2)]}
    flat = jnp.concatenate([tree["a"], tree["b"][0].ravel()])
    for mirror in (Euclidean(), PNorm(6), Entropy()):
        x, y = (jax.nn.softmax(flat), flat) if mirror == Entropy() else (flat, flat)
        as_tree = {"a": x[:2], "b": [x[2:].reshape(2, 2)]}
        for operation, point, branch in ((mirror.gradient, x, as_tree), (mirror.inverse, y, tree)):
            result = jax.jit(operation)(branch)
            np.testing.assert_allclose(result["a"], operation(point)[:2], rtol=1e-5)
            np.testing.assert_allclose(result["b"][0].ravel(), operation(point)[2:], rtol=1e-5)
        assert float(jax.jit(mirror.potential)(as_tree)) == pytest.approx(float(mirror.potential(x)), rel=1e-6)
        other = jax.tree.map(lambda leaf: leaf[..., ::-1], as_tree)
        flat_other = jnp.concatenate([other["a"], other["b"][0].ravel()])
        assert float(jax.jit(mirror.divergence)(other, as_tree)) == pytest.approx(
            float(mirror.divergence(flat_other, x)), rel=1e-5
        )


@pytest.mark.parametrize("mirror", [Euclidean(), PNorm(6), Entropy()], ids=str)
def test_vmap(mirror):
    rows = jnp.stack([distribution(6) for _ in range(3)])
    batched = jax.jit(jax.vmap(mirror.divergence))(rows, rows[::-1])
    single = [mirror.divergence(z, x) for z, x in zip(rows, rows[::-1], strict=True)]
    np.testing.assert_allclose(batched, jnp.stack(single), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dimension", [0, -3, 2.5, None])
def test_pnorm_refuses_a_bad_dimension(dimension):
    with pytest.raises(ValueError, match=f"dimension={dimension!r} must be an int >= 1; use"):
        PNorm(dimension)


def test_pnorm_exponent():
    assert PNorm(1000).exponent == pytest.approx(1 + 1 / math.log(1000))
    assert PNorm(2).exponent == 2.0
