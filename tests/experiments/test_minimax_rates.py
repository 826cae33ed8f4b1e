"""The synthetic minimax problem of the rates, and its slopes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gossamer.experiments import Settings, minimax_rates


@pytest.mark.parametrize("problem", [minimax_rates.APART, minimax_rates.COUPLED], ids=["apart", "coupled"])
def test_the_gradient_of_phi_is_that_of_the_inner_maximum(problem):
    data = minimax_rates.table(50, seed=3)
    x = {"w": jnp.array([0.3, -1.2, 0.8, 2.0]), "u": jnp.array(1.7)}
    table = jax.tree.map(jnp.asarray, data)

    # An obvious oracle: y by many exact ascent steps, then automatic differentiation at fixed y.
    y = jnp.zeros(minimax_rates.WIDTH)
    for _ in range(60):
        y = y + 0.5 * jax.grad(lambda y: problem.objective((x, y), table))(y)
    by_ascent = jax.grad(lambda x, y=y: problem.objective((x, y), table))(x)
    expected = np.append(by_ascent["w"], by_ascent["u"])
    np.testing.assert_allclose(minimax_rates.phi_gradient(problem, data, x), expected, atol=2e-6)


@pytest.mark.parametrize("problem", [minimax_rates.APART, minimax_rates.COUPLED], ids=["apart", "coupled"])
def test_the_loss_is_as_smooth_and_as_concave_as_the_methods_are_told(problem):
    record = tuple(leaf[0] for leaf in minimax_rates.table(1, seed=0))

    def loss(point):
        x, y = {"w": point[:4], "u": point[4]}, point[5:]
        public = 0.0 if problem.public is None else problem.public(x, y, None)
        return problem.loss(x, y, record) + public

    points = np.random.default_rng(0).normal(size=(500, 9), scale=1.5)
    spectra = np.linalg.eigvalsh(np.asarray(jax.vmap(jax.hessian(loss))(jnp.asarray(points, jnp.float32)), np.float64))
    assert np.abs(spectra).max() <= minimax_rates.SMOOTHNESS + 1e-5
    in_x = np.asarray(jax.hessian(loss)(jnp.asarray(points[0], jnp.float32)))[:5, :5]
    assert np.linalg.eigvalsh(in_x).min() < -0.01  # not convex in x
    in_y = np.asarray(jax.hessian(loss)(jnp.asarray(points[0], jnp.float32)))[5:, 5:]
    np.testing.assert_allclose(in_y, -minimax_rates.CONCAVITY * np.eye(4), atol=1e-6)


def test_the_bootstrap_tells_slopes_apart_and_admits_when_it_cannot():
    rng = np.random.default_rng(0)
    sizes = (100, 1_000, 10_000)

    def runs(exponent):
        return [n**exponent * rng.lognormal(0, 0.2, size=20) for n in sizes]

    # The standard error of a mean is 0.2/√20 = 0.045, of a slope 0.045/(√2 · ln 10) = 0.014, of a difference 0.019.
    gap, low, high = minimax_rates.steeper(sizes, runs(-1 / 2), runs(-2 / 3))
    assert abs(gap - 1 / 6) < 5 * 0.019
    assert 0 < low < gap < high
    gap, low, high = minimax_rates.steeper(sizes, runs(-1 / 2), runs(-1 / 2))
    assert abs(gap) < 5 * 0.019
    assert low < 0 < high
    assert high - low < 0.12


def test_every_query_of_private_diff_gets_the_same_share():
    method = minimax_rates._private_diff(1_000, "gradient")
    schedule = method.schedule(1_000)
    shares = [query.count * query.rate**2 / query.noise**2 for query in schedule]
    assert [query.name for query in schedule] == ["ascent", "gradient", "difference"]
    np.testing.assert_allclose(shares, shares[0], rtol=1e-12)


def test_a_smaller_table_leaves_a_larger_gradient():
    case = minimax_rates.CASES[0]
    small, large = (minimax_rates.gradient_norms(case, n, seed=0, runs=3) for n in (300, 3_000))
    # Theory: 10^(1/2) = 3.2 times; each is known to a few per cent.
    assert 2.0 < small.mean() / large.mean() < 4.5


def test_the_command_writes_a_table_and_a_figure(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="figures need gossamer[plots]")
    monkeypatch.setattr(minimax_rates, "SIZES", (100, 200))
    monkeypatch.setattr(minimax_rates, "CASES", minimax_rates.CASES[:2])
    minimax_rates.main(Settings(None, tmp_path, quick=True))
    text = (tmp_path / "minimax_rates.md").read_text(encoding="utf-8")
    assert all(case.name in text for case in minimax_rates.CASES)
    assert "gossamer reproduce minimax-rates --seed 0 --quick" in text
    assert (tmp_path / "minimax_rates.png").stat().st_size > 1000
