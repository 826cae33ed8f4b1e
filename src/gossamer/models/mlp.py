"""A multilayer perceptron: a hashable function over a tuple of layers."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from gossamer.base.messages import is_whole, plain
from gossamer.base.trees import PyTree

ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh}
_GAINS = {"relu": 2.0**0.5, "tanh": 1.0}
"""They keep the size of signals from layer to layer (He et al., 2015; Glorot and Bengio, 2010)."""


@dataclass(frozen=True)
class MLP:
    """Returns the score of one row of features: `MLP("relu")(layers, features)` → scalar, for layers with one output.

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
        score = self.outputs(layers, features)[0]
        return jax.nn.sigmoid(score) if self.sigmoid else score

    def outputs(self, layers: PyTree, features: jax.Array) -> jax.Array:
        """Return all outputs of the last layer, as they are."""
        *hidden, last = layers
        for layer in hidden:
            features = ACTIVATIONS[self.activation](features @ layer["weights"] + layer["bias"])
        return features @ last["weights"] + last["bias"]


@dataclass(frozen=True)
class CrossEntropy:
    """The loss −ln p of a record `(features, label)`, p the probability that a network gives to its label.

    With one output labels are 0 and 1 and the output is the log-odds of 1; with k outputs labels are 0, …, k − 1.
    """

    network: MLP = MLP()

    def __call__(self, layers: PyTree, record: tuple[jax.Array, jax.Array]) -> jax.Array:
        """Return the loss of one record."""
        features, label = record
        outputs = self.network.outputs(layers, features)
        if outputs.size == 1:
            return jax.nn.softplus(outputs[0]) - label * outputs[0]
        return -jnp.sum(jax.nn.one_hot(label, outputs.size) * jax.nn.log_softmax(outputs))


def init_mlp(
    key: jax.Array, inputs: int, hidden: tuple[int, ...], activation: str = "relu", outputs: int = 1
) -> PyTree:
    """Return random layers from `inputs` features through `hidden` sizes to the outputs; no hidden size: linear.

    The last layer is zero, so that every record has the same outputs at first, and the first gradients are about
    the records and not about the starting point.
    """
    hidden = layer_sizes("hidden", hidden)
    sizes = (inputs, *hidden)
    keys = jax.random.split(key, len(sizes))
    layers = [
        {"weights": _GAINS[activation] * jax.random.normal(k, (m, k_out)) / m**0.5, "bias": jnp.zeros(k_out)}
        for k, m, k_out in zip(keys, sizes, hidden, strict=False)
    ]
    return (*layers, {"weights": jnp.zeros((sizes[-1], outputs)), "bias": jnp.zeros(outputs)})


def layer_sizes(name: str, given: Any) -> tuple[int, ...]:
    """Return the sizes of hidden layers that an argument of this name holds, or refuse what are none."""
    sizes = plain(given.tolist() if hasattr(given, "tolist") else given)
    if not (isinstance(sizes, tuple) and all(map(is_whole, sizes))):
        raise ValueError(
            f"{name} = {sizes!r} must be a tuple of whole numbers of at least 1, one for each hidden layer, such as "
            f"{f'({sizes},)' if is_whole(sizes) else '(64, 32)'}; () is a linear model."
        )
    return sizes
