"""The steps of accelerated mirror descent against a convex solver, and by their optimality certificates."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit import convex
from testkit.rings import deep_but

from gossamer.geometry import L1Ball, L2Ball, Simplex, mirror_descent, steepest_descent

SETS = [L2Ball(1.5), L1Ball(2.0), Simplex(1.0), Simplex(3.0)]


def points(constraint, seed, d=6):
    """A point of the set (inside or at the boundary), with zeros and ties, and a direction."""
    rng = np.random.default_rng(seed)
    x = np.asarray(constraint.project(jnp.asarray(rng.normal(size=d) * rng.choice([0.2, 1.0, 5.0]), jnp.float32)))
    g = rng.normal(size=d) * rng.choice([0.1, 1.0, 10.0])
    if seed % 3 == 0:
        g[1] = -g[0]
    return x, g.astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("constraint", deep_but(SETS, SETS[0]), ids=str)
def test_steepest_descent_equals_a_convex_solver(constraint):
    """On 60 points: the same objective to 1e-6 of its scale, the same point where the minimiser is unique."""
    step = jax.jit(lambda x, g, L: steepest_descent(constraint, x, g, L))
    order = 2 if isinstance(constraint, L2Ball) else 1
    for seed in range(60):
        x, g = points(constraint, seed)
        smoothness = [0.3, 3.0, 30.0][seed % 3]
        ours, theirs = np.asarray(step(x, g, smoothness), np.float64), convex.steepest(constraint, x, g, smoothness)

        def value(y, x=x, g=g, smoothness=smoothness):
            return 0.5 * smoothness * np.linalg.norm(y - x, order) ** 2 + g @ y

        assert bool(constraint.contains(jnp.asarray(ours, jnp.float32)))
        scale = 1 + abs(value(x))
        assert value(ours) <= value(theirs) + 2e-6 * scale
        if seed % 3:  # no ties
            np.testing.assert_allclose(ours, theirs, atol=2e-4 * scale)


@pytest.mark.slow
@pytest.mark.parametrize("constraint", [L1Ball(2.0), L1Ball(0.01), Simplex(1.0), Simplex(3.0)], ids=str)
@pytest.mark.parametrize("d", [2, 6, 1000])
def test_mirror_descent_is_optimal(constraint, d):
    """Over a polytope z is optimal iff no corner is better to first order; that gap bounds the objective's error."""
    step = jax.jit(lambda x, g: mirror_descent(constraint, x, g))
    corners = constraint.norm_bound(d)
    for seed in range(20):
        x, g = points(constraint, seed, d)
        x = np.maximum(x, 1e-3 / d) if isinstance(constraint, Simplex) else x
        x = np.asarray(constraint.project(jnp.asarray(x)), np.float64)
        x = np.maximum(x, 1e-9) if isinstance(constraint, Simplex) else x
        z = np.asarray(step(x.astype(np.float32), g), np.float64)
        assert bool(constraint.contains(jnp.asarray(z, jnp.float32)))
        if isinstance(constraint, Simplex):
            s = constraint.total
            slope = g + s * (np.log(np.maximum(z, 1e-300)) - np.log(x))
            gap = slope @ z - corners * slope[z > 1e-30].min()
        else:
            theta = convex.l1_potential_gradient(x)
            slope = g + convex.l1_potential_gradient(z) - theta
            gap = slope @ z + corners * np.abs(slope).max()
        # w is 1-strongly convex in ‖·‖₁: a dual point that float32 rounds by ρ moves z by at most ρ.
        dual = 1 + np.abs(g).max() + (0 if isinstance(constraint, Simplex) else np.abs(theta).max())
        assert gap <= 2e-5 * corners * dual
        np.testing.assert_allclose(z, convex.mirror(constraint, x, g), atol=1e-5 * corners + 2e-6 * dual)


def test_a_step_that_is_not_optimal_has_a_gap():
    """Negative control of the certificate: a Euclidean step on the L1 ball leaves a gap."""
    constraint = L1Ball(2.0)
    x, g = points(constraint, 1)
    z = np.asarray(constraint.project(jnp.asarray(x - g)), np.float64)
    slope = g + convex.l1_potential_gradient(z) - convex.l1_potential_gradient(x)
    assert slope @ z + 2.0 * np.abs(slope).max() > 1e-2
