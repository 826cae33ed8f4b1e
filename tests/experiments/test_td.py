"""The experiment on temporal difference learning."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gossamer as gs
from gossamer.experiments import Settings, td


def random_rows(count=400):
    rng = np.random.default_rng(0)
    states, after = (rng.normal(size=(count, 4)).astype(np.float32) for _ in range(2))
    return states, np.ones(count, np.float32), after, rng.integers(0, 2, size=count).astype(np.float32)


@pytest.mark.deep
def test_the_error_is_the_inner_maximum_of_the_game():
    rows = random_rows()
    theta, omega = td.start(4, jax.random.key(1))
    problem = gs.objectives.td(td.value, td.DISCOUNT)

    # An obvious oracle: the stationary point of the game itself, with the ridge as a penalty on ω.
    flat, unravel = jax.flatten_util.ravel_pytree(omega)

    def gain(flat):
        return problem.objective((theta, unravel(flat)), jax.tree.map(jnp.asarray, rows)) - 0.5 * td.RIDGE * flat @ flat

    slope, curvature = jax.grad(gain)(flat), jax.hessian(gain)(flat)
    best = jnp.linalg.solve(-curvature, slope)
    assert float(td.bellman_error(theta, rows)) == pytest.approx(float(gain(best)), rel=2e-3)


@pytest.mark.slow
def test_a_value_that_satisfies_bellmans_equation_has_no_error():
    states, rewards, after, done = random_rows()
    theta, _ = td.start(4, jax.random.key(1))
    here, there = (jax.vmap(lambda s: td.value(theta, s))(s) for s in (states, after))
    rewards = here - td.DISCOUNT * (1 - done) * there
    assert float(td.bellman_error(theta, (states, rewards, after, done))) < 1e-9
    assert float(td.bellman_error(theta, (states, rewards + 1, after, done))) > 0.1


def test_episodes_and_their_transitions_hold_the_same():
    pytest.importorskip("gymnasium", reason="needs gossamer[rl]")
    states, rewards, after, done, mask = td.play("CartPole-v1", 5, seed=0)
    rows = td.transitions((states, rewards, after, done, mask))
    lengths = mask.sum(1).astype(int)
    assert len(rows[0]) == lengths.sum() and (lengths <= td.LONGEST).all() and (lengths > 5).all()
    np.testing.assert_array_equal(rows[0][: lengths[0]], states[0, : lengths[0]])
    np.testing.assert_array_equal(states[0, 1 : lengths[0]], after[0, : lengths[0] - 1])
    assert (done.sum(1)[lengths < td.LONGEST] == 1).all()
    assert not states[mask == 0].any()


@pytest.mark.deep
def test_the_command_writes_table_curves_and_certificates(tmp_path, monkeypatch):
    pytest.importorskip("gymnasium", reason="needs gossamer[rl]")
    pytest.importorskip("matplotlib", reason="figures need gossamer[plots]")
    monkeypatch.setattr(td, "UNITS", (td.Unit("transition", 4, 32, 0.05, 0.05),))
    monkeypatch.setattr(td, "LOOKS", 2)
    td.main(Settings(None, tmp_path, quick=True))
    text = (tmp_path / "td.md").read_text(encoding="utf-8")
    assert "| CartPole-v1 | transition |" in text and "non-private look" in text
    assert (tmp_path / "td.png").stat().st_size > 1000
    path = tmp_path / "certificates" / "CartPole-v1-transition-1-PrivateDiff.json"
    certificate = gs.Certificate.from_json(path.read_text(encoding="utf-8"))
    assert certificate.epsilon == 1.0
    assert certificate.verify()


def test_the_table_says_where_private_diff_ends_below(tmp_path):
    def curve(*last):
        return np.array([[1.0, value] for value in last])

    def cases(unit, sgda, private_diff):
        ends = {"SGDA": sgda, "PrivateDiff": private_diff}
        return {td.Case("Acrobot-v1", unit, 1.0, name): curve(*end) for name, end in ends.items()}

    curves = cases("transition", (0.4, 0.6), (0.2, 0.3)) | cases("episode", (0.4, 0.6), (0.1, 0.5))
    td.write(Settings(None, tmp_path), curves, {("Acrobot-v1", unit): 7 for unit in ("transition", "episode")}, 2)
    rows = [line.split(",") for line in (tmp_path / "td.csv").read_text(encoding="utf-8").splitlines()[1:]]
    assert [(row[1], row[4], row[-1]) for row in rows] == [
        ("transition", "SGDA", ""),
        ("transition", "PrivateDiff", "both"),
        ("episode", "SGDA", ""),
        ("episode", "PrivateDiff", "mean"),
    ]
    assert float(rows[1][6]) == pytest.approx(0.25) and float(rows[1][7]) == pytest.approx(0.005)
