"""The threshold of a difference query."""

import jax
import jax.numpy as jnp

from gossamer.base import trees
from gossamer.base.trees import PyTree


def difference_clip(clip: float, smoothness: float, at: PyTree, other: PyTree) -> jax.Array:
    """Return C_t = min(2C, L‖x − x′‖): two clipped gradients differ by no more, whatever L is."""
    return jnp.minimum(2.0 * clip, smoothness * trees.distance(at, other))
