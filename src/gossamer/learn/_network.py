"""Networks as estimators start them, and as they keep and apply trained ones: NumPy arrays in float64."""

from typing import Any

import numpy as np

from gossamer.base.entropy import new_key
from gossamer.models.mlp import init_mlp, layer_sizes


def start(seed: int | None, inputs: int, hidden_layer_sizes: Any, outputs: int = 1) -> Any:
    """Return random layers whose outputs are all 0."""
    return init_mlp(new_key(seed), inputs, layer_sizes("hidden_layer_sizes", hidden_layer_sizes), outputs=outputs)


def stored(layers: Any) -> list[dict[str, np.ndarray]]:
    """Return the layers of `models.init_mlp` to keep."""
    return [{name: np.asarray(leaf, np.float64) for name, leaf in layer.items()} for layer in layers]


def outputs(layers: list[dict[str, np.ndarray]], rows: np.ndarray) -> np.ndarray:
    """Return what a network of rectified units says about each row; shape (n, outputs)."""
    signal = rows.astype(np.float64)
    *hidden, last = layers
    for layer in hidden:
        signal = np.maximum(signal @ layer["weights"] + layer["bias"], 0.0)
    return signal @ last["weights"] + last["bias"]
