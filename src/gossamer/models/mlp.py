"""A multilayer perceptron with one output: a hashable function over a tuple of layers."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

PyTree = Any
ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh}
_GAINS = {"relu": 2.0**0.5, "tanh": 1.0}
"""They keep the size of signals from layer to layer (He et al., 2015; Glorot and Bengio, 2010)."""


@dataclass(frozen=True)
class MLP:
    """Returns the score of one row of features: `MLP("relu")(layers, features)` → scalar.

    Two with the same settings are equal, so that a loss made of one compiles once.

    Args:
      activation: of hidden layers, "relu" or "tanh".
      sigmoid: whether the score is squeezed into (0, 1).
    """

    activation: str = "relu"
    sigmoid: bool = False

    def __post_init__(self):
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation = {self.activation!r} must be one of {', '.join(map(repr, ACTIVATIONS))}.")

    def __call__(self, layers: PyTree, features: jax.Array) -> jax.Array:
        """Return the score."""
        *hidden, last = layers
        for layer in hidden:
            features = ACTIVATIONS[self.activation](features @ layer["weights"] + layer["bias"])
        score = (features @ last["weights"] + last["bias"])[0]
        return jax.nn.sigmoid(score) if self.sigmoid else score


def init_mlp(key: jax.Array, inputs: int, hidden: tuple[int, ...], activation: str = "relu") -> PyTree:
    """Return random layers from `inputs` features through `hidden` sizes to one score; no hidden size: a linear model.

    The last layer is zero, so that every record has the same score at first, and the first gradients are about
    the records and not about the starting point.
    """
    sizes = (inputs, *hidden)
    keys = jax.random.split(key, len(sizes))
    layers = [
        {"weights": _GAINS[activation] * jax.random.normal(k, (m, k_out)) / m**0.5, "bias": jnp.zeros(k_out)}
        for k, m, k_out in zip(keys, sizes, hidden, strict=False)
    ]
    return (*layers, {"weights": jnp.zeros((sizes[-1], 1)), "bias": jnp.zeros(1)})
