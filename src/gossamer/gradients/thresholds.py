"""The threshold of a difference query."""

from typing import Any

import jax
import jax.numpy as jnp

from gossamer import trees

PyTree = Any


def difference_clip(clip: float, smoothness: float, at: PyTree, other: PyTree) -> jax.Array:
    """Return C_t = min(2C, L‖x − x′‖): two clipped gradients differ by no more, whatever L is."""
    return jnp.minimum(2.0 * clip, smoothness * trees.distance(at, other))
