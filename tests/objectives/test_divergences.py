"""Divergences against what defines them: a numerical supremum, a derivative, a convex solver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize

import gossamer as gs

DIVERGENCES = {
    "chi-square": gs.ChiSquare(),
    "KL": gs.KL(),
    "KL-CVaR": gs.KLCVaR(0.3),
    "Cressie-Read 1.5": gs.CressieRead(1.5),
    "Cressie-Read 3": gs.CressieRead(3.0),
}


@pytest.fixture(params=DIVERGENCES.values(), ids=DIVERGENCES)
def divergence(request):
    return request.param


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def _points(seed=0):
    return np.random.default_rng(seed).uniform(-3.0, 3.0, 1_000)


def _supremum(divergence, points):
    """sup_t s·t − ψ(t) for each s: on a grid, then by golden section around the best node, in NumPy's float64."""
    psi = jax.jit(divergence)
    grid = np.concatenate([[0.0], np.geomspace(1e-6, 60.0, 4_000)])
    values = np.asarray(psi(jnp.asarray(grid)))
    best = np.argmax(points[:, None] * grid - values, axis=1)
    low, high = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, len(grid) - 1)]
    shrink = (np.sqrt(5) - 1) / 2
    for _ in range(80):
        left, right = high - shrink * (high - low), low + shrink * (high - low)
        at_left, at_right = (points * t - np.asarray(psi(jnp.asarray(t))) for t in (left, right))
        low, high = np.where(at_left < at_right, left, low), np.where(at_left < at_right, high, right)
    ends = np.stack([low, high])
    return np.max(points * ends - np.asarray(psi(jnp.asarray(ends))), axis=0)


def test_conjugates_are_suprema(divergence):
    points = _points()
    np.testing.assert_allclose(divergence.conjugate(points), _supremum(divergence, points), atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize(
    ("divergence", "printed"),
    [
        (gs.ChiSquare(), lambda s: -1 + (s + 2) ** 2 / 4),
        (gs.KLCVaR(0.3), lambda s: np.minimum(np.exp(s), (1 + s + np.log(0.3)) / 0.3) - 1),
    ],
    ids=["chi-square", "KL-CVaR"],
)
def test_the_printed_conjugates_are_wrong(divergence, printed):
    """Table 1 of the paper: off by 1 for χ² at s = 2, by 1.68 for KL-CVaR at s = 0, as the supremum shows."""
    points = _points()
    truth = _supremum(divergence, points)
    assert np.max(np.abs(printed(points) - truth)) > 1.0
    where = np.array([2.0 if isinstance(divergence, gs.ChiSquare) else 0.0])
    wrong, right = (3.0, 4.0) if isinstance(divergence, gs.ChiSquare) else (-1.6799, 0.0)
    np.testing.assert_allclose(printed(where), wrong, atol=1e-4)
    np.testing.assert_allclose(divergence.conjugate(where), right, atol=1e-12)


@pytest.mark.slow
def test_weights_are_derivatives_and_attain_the_supremum(divergence):
    """The derivative by automatic differentiation, by formula, and as the maximiser (Fenchel's equality)."""
    points = jnp.asarray(_points(1))
    weights = divergence.weight(points)
    np.testing.assert_allclose(jax.vmap(jax.grad(divergence.conjugate))(points), weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(points * weights - divergence(weights), divergence.conjugate(points), atol=1e-9)
    assert float(divergence.weight(0.0)) == pytest.approx(1.0)
    assert float(divergence(1.0)) == pytest.approx(0.0)


def test_no_distribution_has_negative_weights(divergence):
    assert np.all(np.isinf(divergence(jnp.array([-1e-3, -5.0]))))
    assert np.isfinite(float(divergence(0.0)))
    assert float(gs.KLCVaR(0.25)(4.1)) == np.inf


@pytest.mark.parametrize("below", [-0.5, 0.7, 2.0])
def test_smoothness_bounds_the_second_derivative_and_is_reached(divergence, below):
    bound = divergence.smoothness(below)
    if divergence == gs.CressieRead(3.0):
        assert bound == np.inf
        return
    points = jnp.linspace(-4.0, below, 20_001)
    slopes = np.diff(divergence.weight(points)) / np.diff(points)
    assert np.max(slopes) <= bound * (1 + 1e-9)
    assert np.max(slopes) >= 0.99 * bound
    assert divergence.smoothness() >= bound


def _primal(divergence, losses, penalty):
    """The maximum over the simplex by a solver that knows no duality."""
    n = len(losses)

    def negative(p):
        return -(p @ losses - penalty * np.mean(np.asarray(divergence(jnp.asarray(n * p)))))

    # A cap on the weights is a bound of the solver's: ψ itself is infinite there.
    largest = 1 / divergence.alpha / n if isinstance(divergence, gs.KLCVaR) else 1.0
    found = optimize.minimize(
        negative,
        np.full(n, 1 / n),
        bounds=[(0.0, largest)] * n,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 500},
    )
    return found.x, -found.fun


@pytest.mark.slow(each=True)
@pytest.mark.parametrize("penalty", [0.3, 2.0])
def test_the_worst_case_is_that_of_a_convex_solver_and_equals_the_dual(divergence, penalty):
    losses = np.random.default_rng(2).exponential(size=8)
    worst = divergence.worst_case(losses, penalty)
    weights, value = _primal(divergence, losses, penalty)
    assert worst.value == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(worst.weights, weights, atol=1e-3)
    assert worst.weights.sum() == pytest.approx(1.0)
    dual = optimize.minimize_scalar(
        lambda eta: penalty * float(np.mean(divergence.conjugate((losses - eta) / penalty))) + eta,
        bounds=(losses.min(), losses.max()),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert worst.value == pytest.approx(dual.fun, abs=1e-9)


def test_enormous_excesses_stay_finite_in_float32(divergence):
    """λ = 10⁻³ and losses up to 50: the argument is 5·10⁴, and a weight times a gradient must have a norm."""
    with jax.enable_x64(False):
        s = jnp.float32(5e4)
        weight = divergence.weight(s)
        assert weight.dtype == jnp.float32
        assert np.isfinite(divergence.conjugate(s))
        assert np.isfinite(weight**2)
        assert np.isfinite(jax.grad(divergence.conjugate)(s))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gs.KLCVaR(1.0), r"alpha = 1.0 must be in \(0, 1\)"),
        (lambda: gs.KLCVaR(0.0), "alpha = 0.0"),
        (lambda: gs.CressieRead(1.0), "k = 1.0 must be above 1"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(ValueError, match=message):
        make()
