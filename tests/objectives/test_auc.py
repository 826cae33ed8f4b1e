"""The AUC problem: its loss is the paper's, and its saddle is the pairwise loss."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import gossamer as gs
from gossamer.methods import SGDA, PrivateDiff
from gossamer.objectives import auc, auc_init


def score(model, features):
    return jax.nn.sigmoid(jnp.dot(model, features))


def table(n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    y = (X @ [1.0, -1.0, 0.5] + 0.5 * rng.normal(size=n) > 0.6).astype(np.int32)
    return X, y


MODEL = jnp.array([0.5, -0.2, 0.1])


@pytest.mark.parametrize("label", [0, 1])
def test_the_loss_is_equation_64(label):
    p, margin, s, z = 0.3, 0.8, 0.2, jnp.array([1.0, 0.5, -2.0])
    a, b, alpha = 0.6, 0.4, 0.9
    problem = auc(score, p, margin, s)
    x = {"model": MODEL, "a": jnp.float32(a / s), "b": jnp.float32(b / s)}
    h = 1 / (1 + np.exp(-float(MODEL @ z)))
    positive, negative = float(label == 1), float(label == 0)
    expected = (
        (1 - p) * (h - a) ** 2 * positive
        + p * (h - b) ** 2 * negative
        + 2 * alpha * (p * (1 - p) * margin + p * h * negative - (1 - p) * h * positive)
        - p * (1 - p) * alpha**2
    )
    np.testing.assert_allclose(problem.loss(x, jnp.float32(alpha / s), (z, jnp.int32(label))), expected, rtol=1e-5)


@pytest.mark.slow
def test_the_saddle_is_the_square_loss_over_all_pairs():
    """min over a, b and max over α of the mean is p(1−p) times the mean of (m − h⁺ + h⁻)² over pairs of records."""
    X, y = table()
    p, margin = float(y.mean()), 0.7
    problem = auc(score, p, margin)
    h = np.array([float(score(MODEL, row)) for row in X])
    pairs = np.mean((margin - h[y == 1][:, None] + h[y == 0][None, :]) ** 2)
    x = {"model": MODEL, "a": jnp.float32(h[y == 1].mean() / 0.2), "b": jnp.float32(h[y == 0].mean() / 0.2)}
    statistics = jax.vmap(lambda row, label: problem.best_response.statistic(x, (row, label)))(X, y)
    alpha = problem.best_response.solve(jnp.mean(statistics))
    assert alpha > 0
    value = problem.objective((x, alpha), (X, y))
    np.testing.assert_allclose(value, p * (1 - p) * pairs, rtol=1e-5)
    gradient = jax.grad(problem.objective)((x, alpha), (X, y))
    np.testing.assert_allclose([gradient[0]["a"], gradient[0]["b"], gradient[1]], 0.0, atol=1e-6)


def test_the_best_response_maximises_for_any_share_and_any_a_and_b():
    X, y = table()
    problem = auc(score, 0.2, scalar_scale=0.5)
    x = {"model": MODEL, "a": jnp.float32(3.0), "b": jnp.float32(-1.0)}
    mean = jnp.mean(jax.vmap(lambda row, label: problem.best_response.statistic(x, (row, label)))(X, y))
    np.testing.assert_allclose(
        jax.grad(lambda alpha: problem.objective((x, alpha), (X, y)))(problem.best_response.solve(mean)), 0.0, atol=1e-6
    )


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_statistics_of_scores_up_to_one_are_within_the_threshold(p):
    """And the largest of them reaches it: a smaller threshold would clip."""
    response = auc(lambda model, features: features, p).best_response
    x = {"model": ()}
    sizes = [abs(float(response.statistic(x, (h, label)))) for h in (-1.0, 1.0) for label in (0, 1)]
    assert max(sizes) == pytest.approx(response.clip)


def test_scalars_come_with_scaled_gradients():
    """At the same a, b and α, stored in other units."""
    z, gradients = (jnp.ones(3), jnp.int32(1)), []
    for s in (1.0, 0.2):
        x = {"model": MODEL, "a": jnp.float32(0.6 / s), "b": jnp.float32(0.4 / s)}
        gradients.append(jax.grad(auc(score, 0.3, scalar_scale=s).record_loss)((x, jnp.float32(0.9 / s)), z))
    plain, scaled = gradients
    np.testing.assert_allclose(scaled[0]["model"], plain[0]["model"], rtol=1e-5)
    np.testing.assert_allclose(scaled[0]["a"], 0.2 * plain[0]["a"], rtol=1e-5)
    np.testing.assert_allclose(scaled[1], 0.2 * plain[1], rtol=1e-5)


def test_the_start_is_the_best_response_to_a_model_that_tells_nothing():
    X, y = table()
    problem = auc(lambda model, features: jnp.float32(0.5), float(y.mean()), margin=0.7)
    x, alpha = auc_init(problem, ())
    np.testing.assert_allclose(0.2 * alpha, 0.7, rtol=1e-6)
    np.testing.assert_allclose(jax.grad(problem.objective)((x, alpha), (X, y))[1], 0.0, atol=1e-6)


@pytest.mark.deep
@pytest.mark.parametrize(
    "method",
    [
        SGDA(steps=60, learning_rate_x=2.0, learning_rate_y=2.0, batch_size=1000),
        PrivateDiff(steps=60, learning_rate_x=1.0, ascent="best_response", batch_size=1000, dimension_ratio=0.2),
    ],
    ids=["SGDA", "PrivateDiff"],
)
def test_it_learns_to_rank(method):
    """Noise included, ε = 3: from the wrong order (0.3) to nearly the best linear one; α stays non-negative."""
    X, y = table(1_000, seed=1)
    problem = auc(score, 0.3)
    start = auc_init(problem, jnp.array([-0.5, 0.2, 0.3]))
    assert roc_auc_score(y, X @ start[0]["model"]) < 0.3
    result = gs.solve(problem, (X, y), method, gs.Budget(3.0, 1e-5), init=start, seed=0)
    best = roc_auc_score(y, X @ [1.0, -1.0, 0.5])
    assert roc_auc_score(y, X @ result.params[0]["model"]) > best - 0.02
    assert result.params[1] >= 0


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"positive_share = 1\.0 must be strictly between 0 and 1"):
        auc(score, 1.0)
    with pytest.raises(ValueError, match=r"scalar_scale = 0\.0 must be a finite number above 0"):
        auc(score, 0.5, scalar_scale=0.0)
    with pytest.raises(ValueError, match=r"margin = -1\.0"):
        auc(score, 0.5, margin=-1.0)
