"""`gs.Minimax` as a problem: its values, what it refuses, and how `gs.solve` handles the pair."""

import dataclasses
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from testkit.games import GAME, ROWS, SOLO, START, GameResponse, game_loss, game_table, public_term, solo_loss

import gossamer as gs
from gossamer.methods import RGDA, SGDA, PrivateDiff

FREE = gs.Budget(math.inf, 1e-5)
WIDE = {"clip_x": 1e3, "clip_y": 1e3, "batch_size": 4}


def test_the_objective_is_the_mean_loss_and_the_public_term():
    x, y = jnp.array([0.3, -0.2]), jnp.float32(0.7)
    rows = game_table()
    mean = np.mean([float(game_loss(x, y, row)) for row in rows])
    np.testing.assert_allclose(GAME.objective((x, y), rows), mean, rtol=1e-5)
    public = float(public_term(x, y, None))
    residuals = rows[:, :2] @ np.asarray(x) - rows[:, 2]
    np.testing.assert_allclose(SOLO.objective((x, y), rows), np.mean(residuals**2) / 2 + public, rtol=1e-5)


def test_gradients_in_one_player():
    """In x alone the pair's y counts as a constant; two points may differ in it."""
    x, y, z = jnp.array([0.3, -0.2]), jnp.float32(0.7), jnp.array([1.0, 2.0, 0.5, -1.0])
    loss, at = GAME.in_x(x, y)
    in_x, in_y = jax.grad(loss)(at, z)
    exact_x, exact_y = jax.grad(GAME.record_loss)((x, y), z)
    np.testing.assert_array_equal(in_x, exact_x)
    assert in_y == 0
    assert exact_y != 0
    np.testing.assert_array_equal(jax.grad(GAME.in_y(x))(y, z), exact_y)
    loss, at = SOLO.in_x(x, y)
    assert at[1] == ()
    np.testing.assert_array_equal(jax.grad(loss)(at, z)[0], jax.grad(SOLO.record_loss)((x, y), z)[0])


def test_projections():
    problem = gs.Minimax(game_loss, constraint_x=gs.L2Ball(1.0), constraint_y=gs.Box(0.0, None))
    np.testing.assert_allclose(problem.project_x(jnp.array([3.0, 4.0])), [0.6, 0.8], rtol=1e-6)
    assert problem.project_y(jnp.float32(-2.0)) == 0
    free = gs.Minimax(game_loss)
    assert free.project_x(7.0) == 7.0
    assert free.project_y(-7.0) == -7.0


def test_the_constraint_of_x_is_kept():
    problem = dataclasses.replace(GAME, constraint_x=gs.L2Ball(0.1))
    method = SGDA(steps=3, learning_rate_x=1.0, batch_size=4)
    x, _ = gs.solve(problem, ROWS, method, FREE, init=START, seed=0).params
    np.testing.assert_allclose(np.linalg.norm(x), 0.1, rtol=1e-5)


def test_it_is_hashable_and_equal_by_value():
    again = gs.Minimax(game_loss, constraint_y=gs.Box(-0.8, 3.0), best_response=GameResponse())
    assert again == GAME
    assert hash(again) == hash(GAME)
    assert again.record_loss == GAME.record_loss


@pytest.mark.slow
@pytest.mark.parametrize(
    "method", [SGDA(steps=4), PrivateDiff(steps=2, inner_steps=3), RGDA(steps=4)], ids=lambda m: type(m).__name__
)
def test_public_randomness_differs_from_draw_to_draw_and_from_seed_to_seed(method):
    """A public term without a record: y is a sum of normal numbers, one for each ascent, and no noise hides them."""
    problem = gs.Minimax(solo_loss, public=lambda x, y, key: y * jax.random.normal(key), private_blocks=("x",))
    method = dataclasses.replace(method, ascent="public", batch_size=4, learning_rate_y=1.0)
    ends = [float(gs.solve(problem, ROWS, method, FREE, init=START, seed=s).params[1]) for s in (0, 0, 1)]
    assert ends[0] == ends[1] != ends[2]


def test_a_problem_without_a_public_term_has_no_public_gradient():
    none = GAME.public_gradient(START, jax.random.key(0))
    assert all(np.all(leaf == 0) for leaf in jax.tree.leaves(none))


# What is refused


@dataclasses.dataclass(frozen=True)
class WrongShape(GameResponse):
    def solve(self, mean):
        return jnp.stack([mean, mean])


@pytest.mark.parametrize(
    ("problem", "init", "message"),
    [
        (GAME, jnp.zeros(2), r"for a Minimax problem it must be the pair \(x0, y0\)"),
        (GAME, (*START, START), "it must be the pair"),
        (gs.Minimax(lambda x, y, z: x * z[:2]), START, "it must return one float"),
        (gs.Minimax(game_loss, public=lambda x, y, key: x), START, r"public\(x, y, key\) must return one float"),
        (gs.Minimax(game_loss, best_response=WrongShape()), START, r"best_response.solve\(mean\) returned"),
    ],
)
def test_bad_input_is_named(problem, init, message):
    with pytest.raises(ValueError, match=message):
        gs.solve(problem, ROWS, SGDA(batch_size=2), gs.Budget(1.0, 1e-2), init=init, seed=0)


def test_a_private_maximiser_alone_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match="exchange the players and the sign"):
        gs.Minimax(game_loss, public=public_term, private_blocks=("y",))
    with pytest.raises(ValueError, match="nothing else moves y"):
        gs.Minimax(game_loss, private_blocks=("x",))


# Pytrees, and what is seen along the way


class Line(eqx.Module):
    slope: jax.Array
    power: int
    name: str = eqx.field(static=True)

    def __call__(self, u):
        return jnp.dot(self.slope, u) ** self.power


@dataclasses.dataclass(frozen=True)
class LineResponse:
    clip: float = 1e3

    def statistic(self, x, z):
        return z[3] * (1 + x["line"](z[:2]))

    def solve(self, mean):
        return mean


@pytest.mark.deep
def test_modules_inside_the_pair():
    """Constants of a module are kept, Python floats beside it are trained, and the answer is that of plain arrays."""

    def loss(x, y, z):
        score = x["line"](z[:2])
        return 0.5 * (score - z[2] - x["offset"]) ** 2 + y * z[3] * (1 + score) - 0.5 * y**2

    def public(x, y, key):
        return 0.1 * jnp.sum(x["line"].slope ** 2)

    def flat_loss(x, y, z):
        return loss({"line": Line(x[:2], 1, "flat"), "offset": x[2]}, y, z)

    def flat_public(x, y, key):
        return 0.1 * jnp.sum(x[:2] ** 2)

    @dataclasses.dataclass(frozen=True)
    class FlatResponse(LineResponse):
        def statistic(self, x, z):
            return z[3] * (1 + jnp.dot(x[:2], z[:2]))

    method = SGDA(steps=3, ascent="best_response", **WIDE)
    model = {"line": Line(jnp.array([0.1, 0.2]), 1, "line"), "offset": 0.5}
    problem = gs.Minimax(loss, best_response=LineResponse(), public=public)
    ours = gs.solve(problem, ROWS, method, FREE, init=(model, 0.0), seed=0).params
    flat = gs.Minimax(flat_loss, best_response=FlatResponse(), public=flat_public)
    start = (jnp.array([0.1, 0.2, 0.5]), jnp.zeros(()))
    expected = gs.solve(flat, ROWS, method, FREE, init=start, seed=0).params
    assert isinstance(ours[0]["line"], Line)
    assert (ours[0]["line"].power, ours[0]["line"].name) == (1, "line")
    np.testing.assert_allclose(ours[0]["line"].slope, expected[0][:2], rtol=1e-5)
    np.testing.assert_allclose(ours[0]["offset"], expected[0][2], rtol=1e-5)
    np.testing.assert_allclose(ours[1], expected[1], rtol=1e-5)
    assert ours[0]["offset"] != 0.5


@pytest.mark.slow
def test_diagnostics_have_both_players():
    method = SGDA(steps=1, clip_x=1.0, clip_y=0.6, batch_size=4)
    result = gs.solve(GAME, ROWS, method, FREE, init=START, seed=0, diagnostics=True)
    seen = {name: values[-1] for name, values in result.diagnostics.items()}
    gradients = [jax.grad(GAME.record_loss)(result.params, row) for row in ROWS]
    norms_x = np.array([np.linalg.norm(g) for g, _ in gradients])
    norms_y = np.array([abs(float(g)) for _, g in gradients])
    assert seen["share_clipped_x"] == np.mean(norms_x > 1.0)
    assert seen["share_clipped_y"] == np.mean(norms_y > 0.6)
    assert 0 < seen["share_clipped_y"] < 1
    np.testing.assert_allclose(
        seen["gradient_norm_x"], np.linalg.norm(np.mean([g for g, _ in gradients], 0)), rtol=1e-5
    )
    np.testing.assert_allclose(seen["gradient_norm_y"], abs(np.mean([g for _, g in gradients])), rtol=1e-5)
    np.testing.assert_allclose(seen["objective"], GAME.objective(result.params, ROWS), rtol=1e-6)
