"""The zeroth-order experiment: its problem, and its quick version."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.experiments import zeroth


def test_the_loss_is_as_steep_as_its_rows_are_long_and_zero_at_the_teacher():
    rng = np.random.default_rng(0)
    teacher = 0.3 * rng.normal(size=(5, 2))
    data = zeroth.table(50, (5, 2), rng, teacher)
    values = jax.vmap(lambda record: zeroth.loss(jnp.asarray(teacher, jnp.float32), record))(data)
    np.testing.assert_allclose(values, 0.0, atol=1e-6)
    at = jnp.asarray(rng.normal(size=(5, 2)), jnp.float32)
    norms = jax.vmap(lambda record: jnp.linalg.norm(jax.grad(zeroth.loss)(at, record)))(data)
    assert float(norms.max()) <= 1 + 1e-6
    assert float(norms.max()) > 0.5


@pytest.mark.deep
def test_a_better_start_is_more_stationary(monkeypatch):
    """The measure can tell: without noise a run ends below where it began, and noise without bound does not."""
    monkeypatch.setattr(zeroth, "_TEST_ROWS", 500)
    method = gs.methods.O2NC(steps=6, inner_steps=8, radius=0.3, learning_rate=10.0)
    clean, noisy = (
        zeroth.stationarity(method, 3_000, 10, budget, 0, 2)
        for budget in (gs.Budget(np.inf, 1e-6), gs.Budget(0.01, 1e-6))
    )
    assert clean.shape == noisy.shape == (2,)
    assert clean.mean() < 0.8 * noisy.mean()


def test_methods_share_records_as_the_theorem_says():
    for n in zeroth.SIZES:
        method = zeroth.growing(n)
        assert method.schedule(n)["difference"].sampling.rows >= 1
    # K ∝ n^⅓: 50 times the records, 3.7 times the blocks.
    assert zeroth.growing(100_000).steps / zeroth.growing(2_000).steps == np.float64(32) / 9
    naive, ours = (zeroth.private(100, 288, reduced).schedule(100_000) for reduced in (False, True))
    rows = [sum(q.count * q.sampling.rows for q in schedule) for schedule in (naive, ours)]
    assert rows[0] == rows[1] <= 100_000
