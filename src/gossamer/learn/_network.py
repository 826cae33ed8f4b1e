"""Networks as estimators start them, and as they keep and apply trained ones: NumPy arrays in float64."""

from typing import Any

import numpy as np

from gossamer.base.entropy import new_key
from gossamer.learn._common import scale_rows
from gossamer.learn._decisions import PrivateScorer
from gossamer.models.mlp import init_mlp, layer_sizes


class PrivateNetwork(PrivateScorer):
    """A classifier that keeps a network, as `layers_`: its outputs are log-odds of two classes, or logits of more."""

    layers_: list[dict[str, np.ndarray]]
    """For rows divided by `data_norm_`."""
    data_norm_: float

    def _logits(self, X: Any) -> np.ndarray:
        X = self._rows(X)
        # As in training, a longer row is shortened to the bound.
        logits = outputs(self.layers_, scale_rows(X, self.data_norm_)[0])
        return logits[:, 0] if logits.shape[1] == 1 else logits


def for_classes(targets: np.ndarray, classes: int) -> tuple[np.ndarray, int]:
    """Return encoded labels as `CrossEntropy` takes them, and how many outputs a network has for so many classes."""
    binary = classes == 2
    return targets.astype(np.float32 if binary else np.int32, copy=False), 1 if binary else classes


def start(seed: int | None, inputs: int, hidden_layer_sizes: Any, outputs: int = 1) -> Any:
    """Return random layers whose outputs are all 0."""
    return init_mlp(new_key(seed), inputs, layer_sizes("hidden_layer_sizes", hidden_layer_sizes), outputs=outputs)


def scores_of(layers: Any, rows: np.ndarray) -> np.ndarray:
    """Return what trained layers with one output say about rows as the training saw them; shape (n,)."""
    return outputs(stored(layers), rows)[:, 0]


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
