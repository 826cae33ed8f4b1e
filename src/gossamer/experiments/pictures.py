"""MNIST and Fashion-MNIST to train on: ten classes, or 0 to 4 against 5 to 9 with fewer positives if wanted."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from gossamer import datasets

HELD_OUT = 10_000
SCALES = {"mnist": (0.1307, 0.3081), "fashion_mnist": (0.2860, 0.3530)}
"""Mean and standard deviation of a pixel in [0, 1]: constants that are part of every tutorial."""


class Records(NamedTuple):
    """Records to train on, and to score: features and labels."""

    train: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]


def load(name: str, inputs: str, share: float | None, data_dir: Path | None, held_out: bool) -> Records:
    """Return the records; of two halves positives are dropped at random from training until they are `share` of it.

    Args:
      name: "mnist" or "fashion_mnist".
      inputs: "pixels", standardised by published constants, or "edges", see `datasets.edges`.
      share: of positives in training; scoring is balanced always. None: ten classes, all records.
      data_dir: where the files are.
      held_out: score 10 000 training images, which are not trained on, instead of the test images.
    """
    split = getattr(datasets, name)(data_dir)

    def features(images: np.ndarray) -> np.ndarray:
        if inputs == "edges":
            return datasets.edges(images)
        mean, deviation = SCALES[name]
        return ((images / 255 - mean) / deviation).astype(np.float32)

    def labels(classes: np.ndarray) -> np.ndarray:
        return (classes if share is None else classes >= 5).astype(np.float32)

    y = labels(split.train.labels)
    order = np.random.default_rng(0).permutation(len(y))
    held, kept = (order[:HELD_OUT], order[HELD_OUT:]) if held_out else (order[:0], order)
    if share is not None and share < 0.5:
        negative, positive = kept[y[kept] == 0], kept[y[kept] == 1]
        kept = np.concatenate([negative, positive[: round(len(negative) * share / (1 - share))]])
    rows = np.sort(kept)
    train = features(split.train.images[rows]), y[rows]
    if held_out:
        return Records(train, (features(split.train.images[held]), y[held]))
    return Records(train, (features(split.test.images), labels(split.test.labels)))
