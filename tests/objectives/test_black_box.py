"""Black boxes: a scikit-learn pipeline end to end, what a failing function does, and how points meet records."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gossamer as gs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 2)).astype(np.float32)
Y = (X.sum(axis=1) > 0.5).astype(np.float32)
PUBLIC_X = RNG.normal(size=(300, 2))
PIPELINE = make_pipeline(StandardScaler(), RandomForestClassifier(n_estimators=5, max_depth=4, random_state=0))
PIPELINE.fit(PUBLIC_X, PUBLIC_X.sum(axis=1) > 0)
METHOD = gs.methods.O2NC(steps=4, inner_steps=5, radius=0.5, smoothness=2.0, learning_rate=4.0, output="last")
BUDGET = gs.Budget(8.0, 1e-4)
mood = {"calls": 0, "fails_at": None, "returns": None}


def shifted_error(shift, records):
    """How wrong the forest is about records moved by a shift: piecewise constant in it."""
    mood["calls"] += 1
    if mood["calls"] == mood["fails_at"]:
        if mood["returns"] is None:
            raise KeyError("no such tree")
        return np.full(len(records[1]), mood["returns"])
    x, y = records
    assert isinstance(shift, np.ndarray) and shift.shape == (2,) and x.shape == (len(y), 2)
    return np.abs(PIPELINE.predict_proba(x + shift)[:, 1] - y)


def solve(**failure):
    mood.update({"calls": 0, "fails_at": None, "returns": None, **failure})
    problem = gs.BlackBox(shifted_error, python=True)
    return gs.solve(problem, (X, Y), METHOD, BUDGET, init=jnp.zeros(2), seed=0)


@pytest.mark.deep
def test_a_pipeline_is_tuned_with_a_certificate():
    result = solve()
    assert result.certificate.verify()
    assert "its own record alone" in result.certificate.assumptions[-1]
    assert result.certificate.schedule["difference"].sampling.stream.length == 5
    # A block has 2·2 calls in its first round and 4·2 in each other, whatever the number of records.
    assert mood["calls"] == METHOD.steps * (2 * 2 + 4 * 4 * 2)
    before, after = (np.mean(shifted_error(np.asarray(shift), (X, Y))) for shift in (np.zeros(2), result.params))
    assert after < before - 0.02


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failure", "message"),
    [
        ({"returns": None}, "raised KeyError in round 7: 'no such tree'"),
        ({"returns": np.nan}, "returned NaN or an infinite number in round 7"),
    ],
    ids=["exception", "not a number"],
)
def test_a_failing_function_ends_the_run_with_its_round(failure, message):
    """Round 6 opens the second block: 36 calls for the first, 4 for round 6, so call 41 is the first of round 7."""
    # JAX wraps what a callback raises, in one of two classes.
    with pytest.raises((RuntimeError, ValueError), match=message):
        solve(fails_at=41, **failure)
    assert mood["calls"] == 41  # nothing was asked after it


def test_the_wrong_number_of_values_is_refused():
    problem = gs.BlackBox(lambda shift, records: 1.0, python=True)
    with pytest.raises(Exception, match=r"returned shape \(\) for 3 records in round 0; it must return one number per"):
        problem.objective(jnp.zeros(2), (X[:3], Y[:3]))


def test_points_meet_their_records():
    """However `vmap` nests points and records, each value is that of its own point at its own record."""

    def product(params, records):
        return params["a"] * records[:, 0] + params["b"][1]

    problem = gs.BlackBox(product, python=True)
    points = {"a": jnp.array([1.0, 2.0, 3.0]), "b": jnp.arange(6.0).reshape(3, 2)}
    records = jnp.array([[1.0, 0.0], [10.0, 0.0]])
    expected = np.outer([1, 2, 3], [1, 10]) + np.array([[1], [3], [5]])
    across = jax.vmap(lambda z: jax.vmap(lambda p: problem.evaluate(p, z))(points))(records)
    np.testing.assert_allclose(across.T, expected)
    inside = jax.vmap(lambda p: jax.vmap(lambda z: problem.evaluate(p, z))(records))(points)
    np.testing.assert_allclose(inside, expected)
    pairs = jax.vmap(problem.evaluate)(jax.tree.map(lambda leaf: leaf[:2], points), records)
    np.testing.assert_allclose(pairs, np.diag(expected))


def test_only_zeroth_order_methods_solve_it():
    with pytest.raises(TypeError, match="These can: O2NC"):
        gs.solve(gs.BlackBox(lambda x, z: x @ z), X, gs.methods.GD(), BUDGET, init=jnp.zeros(2))
    with pytest.raises(ValueError, match="one float"):
        gs.solve(gs.BlackBox(lambda x, z: x), X, METHOD, BUDGET, init=jnp.zeros(2))


@pytest.mark.deep
def test_diagnostics_of_a_black_box_show_its_objective_alone():
    problem = gs.BlackBox(lambda x, z: jnp.abs(x[0] - z[0]))
    method = gs.methods.O2NC(steps=2, inner_steps=2, output="last")
    result = gs.solve(problem, X, method, BUDGET, init=jnp.zeros(1), seed=0, diagnostics=True)
    assert set(result.diagnostics) == {"step", "objective"}
    np.testing.assert_allclose(
        result.diagnostics["objective"][-1], np.mean(np.abs(result.params[0] - X[:, 0])), rtol=1e-5
    )
