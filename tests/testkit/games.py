"""A tiny minimax problem on which attacks are strong, with and without noise in y; and its textbook solution."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

import gossamer as gs


def game_loss(x, y, z):
    """½(⟨x,u⟩ − t)² + ys(1 + ⟨x,u⟩) − ½y² for a record z = (u, t, s): turning t and s round turns all its gradients."""
    score = jnp.dot(x, z[:2])
    return 0.5 * (score - z[2]) ** 2 + y * z[3] * (1 + score) - 0.5 * y**2


def solo_loss(x, y, z):
    """½(⟨x,u⟩ − t)²: records do not meet y."""
    return 0.5 * (jnp.dot(x, z[:2]) - z[2]) ** 2


def public_term(x, y, key):
    """y(1 + x₀) − ½y²."""
    return y * (1 + x[0]) - 0.5 * y**2


@dataclass(frozen=True)
class GameResponse:
    """y* = E[s(1 + ⟨x,u⟩)]."""

    clip: float = 0.5

    def statistic(self, x, z):
        return z[3] * (1 + jnp.dot(x, z[:2]))

    def solve(self, mean):
        return mean


GAME = gs.Minimax(game_loss, constraint_y=gs.Box(-0.8, 3.0), best_response=GameResponse())
SOLO = gs.Minimax(solo_loss, constraint_y=gs.Box(-0.8, 3.0), public=public_term, private_blocks=("x",))
START = (jnp.zeros(2), jnp.zeros(()))
ROWS = jnp.array([[1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.5, -0.5], [0.3, 0.2, -0.4, 0.8], [-0.5, 0.4, 0.2, 0.1]])
TURNED = jnp.array([1.0, 0.0, -1.0, -1.0])
"""Takes the place of ROWS[0] in the worst neighbouring table."""


def game_table(n=40, seed=0):
    """Records whose saddle point is away from 0, in x as well as in y, where the box of y cuts it off."""
    rng = np.random.default_rng(seed)
    u = rng.normal(size=(n, 2))
    t = u @ [1.0, -2.0] + 0.1 * rng.normal(size=n)
    s = rng.normal(-1.5, 0.5, size=n)
    return np.column_stack([u, t, s]).astype(np.float32)


class _Mean:
    """Means over a table of the gradients of `game_loss` (or of `solo_loss` and `public_term`), in float64."""

    def __init__(self, rows, solo):
        rows = rows.astype(np.float64)
        self.u, self.t, self.s, self.solo = rows[:, :2], rows[:, 2], rows[:, 3], solo

    def in_x(self, x, y):
        score = self.u @ x
        coupling = 0.0 if self.solo else y * self.s
        records = np.mean((score - self.t + coupling)[:, None] * self.u, axis=0)
        return records + np.array([y, 0.0]) if self.solo else records

    def in_y(self, x, y):
        return (1 + x[0] if self.solo else self.response(x)) - y

    def response(self, x):
        return np.mean(self.s * (1 + self.u @ x))

    @staticmethod
    def project(y):
        return np.clip(y, -0.8, 3.0)


def descent_ascent(rows, method):
    """Simultaneous descent in x, with heavy-ball momentum, and ascent in y (or its best response)."""
    mean = _Mean(rows, method.ascent == "public")
    x, y, direction = np.zeros(2), 0.0, np.zeros(2)
    for _ in range(method.steps):
        g_x, g_y = mean.in_x(x, y), mean.in_y(x, y)
        y = mean.project(mean.response(x) if method.ascent == "best_response" else y + method.learning_rate_y * g_y)
        direction = g_x + method.momentum * direction
        x = x - method.learning_rate_x * direction
    return x, y


def ascent_then_descent(rows, method):
    """In each round several ascents in y (or its best response), then one descent in x along the exact gradient."""
    mean = _Mean(rows, method.ascent == "public")
    x, y = np.zeros(2), 0.0
    for _ in range(method.steps):
        for _ in range(method.inner_steps):
            step = (
                mean.response(x) if method.ascent == "best_response" else y + method.learning_rate_y * mean.in_y(x, y)
            )
            y = mean.project(step)
        x = x - method.learning_rate_x * mean.in_x(x, y)
    return x, y
