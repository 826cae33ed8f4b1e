"""Small minimax problems with known strict saddles, and Φ(x) = max_y of the mean loss in closed form.

In both of them all that is known of y is bought from records, and the saddle is a saddle of Φ: its curvature depends on
the maximiser.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree
from gossamer.objectives.minimax import Minimax


@dataclass(frozen=True)
class _Quartic:
    depth: float

    def __call__(self, x: jax.Array, y: jax.Array, b: jax.Array) -> jax.Array:
        return x[0] ** 4 / 4 - self.depth * x[0] ** 2 / 2 + y @ (b * x) - y @ y / 2


def quartic(depth: float = 1.0) -> Minimax:
    """Return the quartic saddle: x₁⁴/4 − depth·x₁²/2 + ⟨y, b∘x⟩ − ‖y‖²/2 for a record b, with y of x's shape.

    Φ has a strict saddle at 0 with λ_min = b̄₁² − depth if that is negative, and minima at x₁ = ±√(depth − b̄₁²). No
    record has a gradient at the saddle, so that nothing but noise or a perturbation leaves it.
    """
    return Minimax(_Quartic(depth))


def quartic_value(x: jax.Array, data: PyTree, depth: float = 1.0) -> jax.Array:
    """Return Φ(x) = x₁⁴/4 − depth·x₁²/2 + ½‖b̄∘x‖² on a table of records b: not private."""
    return x[0] ** 4 / 4 - depth * x[0] ** 2 / 2 + jnp.sum((jnp.mean(data, axis=0) * x) ** 2) / 2


def _tensor(x: jax.Array, y: jax.Array, z: jax.Array) -> jax.Array:
    score = z @ x
    return -(score**4) / (4 * z.size) + y * (score**2 - 1) - y**2 / 2


def tensor() -> Minimax:
    """Return tensor decomposition: −⟨z, x⟩⁴/(4d) + y(⟨z, x⟩² − 1) − y²/2 for a record z of d numbers, y a number.

    For records ±√d·a_i, as many of each, with orthonormal a_i, Φ(x) = −¼ Σ⟨a_i, x⟩⁴ + ½(‖x‖² − 1)², the fourth-order
    tensor Σ a_i^⊗4 with a penalty for the norm. Its minima are ±√2·a_i; the point with ⟨a_i, x⟩ = √(2/(2d − 1)) for
    every i is a strict saddle with λ_min = −4/(2d − 1).
    """
    return Minimax(_tensor)


def tensor_value(x: jax.Array, data: PyTree) -> jax.Array:
    """Return Φ(x) = −E⟨z, x⟩⁴/(4d) + ½(E⟨z, x⟩² − 1)² on a table of records z: not private."""
    score = data @ x
    return -jnp.mean(score**4) / (4 * x.size) + (jnp.mean(score**2) - 1) ** 2 / 2
