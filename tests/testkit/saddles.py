"""The three strict saddles from which methods are started, and settings to leave them with."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import gossamer as gs
from gossamer.objectives import quartic, quartic_value, sensing, sensing_game, tensor, tensor_value

NAMES = ("quartic", "tensor", "sensing")
SEEDS = 100
RECORDS = 2_000


class Setting(NamedTuple):
    problem: gs.Minimax
    data: Any
    saddle: Any
    """The pair (x, y*(x))."""
    curvature: float
    """λ_min of Φ there."""
    hessian_smoothness: float
    """ρ of Φ within 1.5 of the origin."""
    phi: Any
    options: dict

    @property
    def rgda(self):
        """Every record in every query: what is tested here is the escape, not the sampling."""
        escape = dict(tolerance=0.06, radius=0.1, escape_rate=0.2, escape_steps=40, movement=2e-4)
        steps = dict(steps=160, inner_steps=3, period=5, learning_rate_x=0.05, learning_rate_y=0.5)
        return dict(**steps, **escape, batch_size=RECORDS, **self.options)

    @property
    def first_order(self):
        """The same for methods that do not escape."""
        options = {name: self.options[name] for name in self.options if not name.startswith("smoothness")}
        return dict(steps=60, learning_rate_x=0.05, learning_rate_y=0.5, batch_size=RECORDS, **options)


def setting(name: str) -> Setting:
    """Return one of them."""
    rng = np.random.default_rng(0)
    if name == "quartic":
        rows = jnp.asarray(np.array([0.4, 1.0, 1.0, 1.0]) + 0.1 * rng.normal(size=(RECORDS, 4)), jnp.float32)
        options = dict(clip_x=1.5, clip_y=1.5, smoothness_x=2.0, smoothness_y=1.5)
        curvature = float(jnp.mean(rows[:, 0]) ** 2 - 1)
        saddle = (jnp.zeros(4), jnp.zeros(4))
        return Setting(quartic(), rows, saddle, curvature, 9.1, lambda x: quartic_value(x, rows), options)
    if name == "tensor":
        # As many of √2·a as of −√2·a, for both of two axes.
        axes = np.sqrt(2) * np.concatenate([np.eye(2), -np.eye(2)])
        rows = jnp.asarray(np.tile(axes, (RECORDS // 4, 1)), jnp.float32)
        options = dict(clip_x=4.0, clip_y=4.0, smoothness_x=12.0, smoothness_y=6.0)
        saddle = (jnp.full(2, np.sqrt(2 / 3), jnp.float32), jnp.float32(1 / 3))
        return Setting(tensor(), rows, saddle, -4 / 3, 18.0, lambda x: tensor_value(x, rows), options)
    a = rng.normal(size=(RECORDS, 3, 3))
    matrix = np.outer([1.0, 0.5, -0.5], [0.6, -0.8, 0.3])
    b = np.einsum("nij,ij->n", a, matrix / np.linalg.norm(matrix)) + 0.01 * rng.normal(size=RECORDS)
    data = (jnp.asarray(a, jnp.float32), jnp.asarray(b, jnp.float32))
    saddle = ({"u": jnp.zeros((3, 1)), "v": jnp.zeros((3, 1))}, jnp.zeros(()))
    curvature = -float(np.linalg.norm(np.einsum("n,nij->ij", b, a) / RECORDS, ord=2))
    options = dict(clip_x=4.0, smoothness_x=6.0, ascent="public")
    return Setting(sensing_game(), data, saddle, curvature, 6.0, lambda x: sensing().objective(x, data), options)
