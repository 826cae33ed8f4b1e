"""The share of clipped records is of what queries ask: weights and differences included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit.tables import linear_params, logistic_table

import gossamer as gs
from gossamer.engine import watching
from gossamer.methods import DoubleSpider, RecursiveSpider, Spider

X, Y = logistic_table(40)
X = 3 * X
ROWS = [(jnp.asarray(x), jnp.asarray(y)) for x, y in zip(X, Y, strict=True)]


shares_clipped = jax.jit(watching.shares_clipped, static_argnums=(0, 1))


def norm(tree):
    return float(np.sqrt(sum(np.sum(np.square(leaf)) for leaf in jax.tree.leaves(tree))))


def point(seed):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), linear_params())


@jax.jit
def gradient(at, row):
    return jax.grad(gs.objectives.logistic)(at, row)


@pytest.mark.slow
def test_weighted_losses_are_counted_with_their_weights():
    """χ² gives a record the weight t = (1 + (ℓ − η)/λ)₊; one record after the other, t‖∇ℓ‖ > C."""
    problem, here, eta = gs.DRO(gs.objectives.logistic, penalty=0.5), point(0), 0.3
    method = DoubleSpider(period=1, clip=1.5, clip_dual=0.8, batch_size=40, learning_rate_dual=1e-9)
    state = method.init(problem, here)._replace(dual=jnp.float32(eta))
    seen = shares_clipped(problem, method, (X, Y), state, jnp.int32(0))
    weights = [max(0.0, 1 + (float(gs.objectives.logistic(here, row)) - eta) / 0.5) for row in ROWS]
    lengths = [norm(gradient(here, row)) for row in ROWS]
    expected = np.mean([t * length > 1.5 for t, length in zip(weights, lengths, strict=True)])
    assert seen["share_clipped"] == pytest.approx(expected)
    assert seen["share_clipped_dual"] == pytest.approx(np.mean([abs(1 - t) > 0.8 for t in weights]))
    assert abs(expected - np.mean([length > 1.5 for length in lengths])) > 0.1  # the control: without weights


@pytest.mark.slow
def test_differences_are_counted_by_their_own_threshold():
    """At a step that carries along: ‖∇ℓ(x) − ∇ℓ(x′)‖ > L‖x − x′‖, and the fresh gradient is not asked."""
    problem, here, before = gs.ERM(gs.objectives.logistic), point(0), point(1)
    method = Spider(period=5, clip=10.0, smoothness=0.6, batch_size=40)
    state = method.init(problem, here)._replace(before=before)
    seen = shares_clipped(problem, method, (X, Y), state, jnp.int32(1))
    moved = norm(jax.tree.map(jnp.subtract, here, before))
    changes = [norm(jax.tree.map(jnp.subtract, gradient(here, row), gradient(before, row))) for row in ROWS]
    expected = np.mean([change > 0.6 * moved for change in changes])
    assert 0 < expected < 1
    assert seen["share_clipped_difference"] == pytest.approx(expected)
    assert np.isnan(seen["share_clipped"])
    again = shares_clipped(problem, method, (X, Y), state, jnp.int32(5))
    assert again["share_clipped"] == pytest.approx(np.mean([norm(gradient(here, row)) > 10.0 for row in ROWS]))
    assert np.isnan(again["share_clipped_difference"])


@pytest.mark.deep
def test_blocks_of_a_joint_query_are_told_apart():
    """ĝ∇ℓ, ĝ ln ĝ and ĝ, with ĝ = e^{(ℓ − c)/λ} up to W: the scalars are never clipped."""
    problem, here = gs.DRO(gs.objectives.logistic, gs.KL(), radius=0.2, loss_bound=4.0), point(0)
    method = RecursiveSpider(period=1, clip=2.0, batch_size=40)
    state = method.init(problem, here)
    seen = shares_clipped(problem, method, (X, Y), state, jnp.int32(0))
    losses = [min(4.0, float(gs.objectives.logistic(here, row))) for row in ROWS]
    weights = [min(10 * np.exp(0.2), np.exp(loss / problem.largest_penalty)) for loss in losses]
    expected = np.mean([w * norm(gradient(here, row)) > 2.0 for w, row in zip(weights, ROWS, strict=True)])
    assert seen["share_clipped"] == pytest.approx(expected)
    assert (float(seen["share_clipped_2"]), float(seen["share_clipped_3"])) == (0.0, 0.0)


@pytest.mark.deep
def test_a_run_with_diagnostics_has_the_columns():
    result = gs.solve(
        gs.ERM(gs.objectives.logistic),
        (X, Y),
        Spider(steps=3, period=2, batch_size=40),
        gs.Budget(1.0, 1e-3),
        init=linear_params(),
        seed=0,
        diagnostics=True,
        progress=False,
    )
    assert set(result.diagnostics) == {
        "step",
        "objective",
        "gradient_norm",
        "share_clipped",
        "share_clipped_difference",
    }
    # After steps 1, 2 and 3 the next one carries, refreshes, carries.
    np.testing.assert_array_equal(np.isnan(result.diagnostics["share_clipped"]), [True, False, True])
