"""MNIST and Fashion-MNIST: 28 × 28 grey images of ten classes, in the IDX format."""

import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from gossamer.datasets import files
from gossamer.datasets.labelled import Split

_PIXELS = (28, 28)
_CLASSES = 10
_MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_MNIST_SHA256 = {  # of the uncompressed files
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
_FASHION_OBTAIN = (
    "The four IDX files of Zalando Research's current release (github.com/zalandoresearch/fashion-mnist) can be put "
    "there, but they have other contents and another split than the release of August 2017 that this project uses, "
    "so figures differ slightly."
)


class Images(NamedTuple):
    """Images as rows of 784 grey values 0 to 255, with labels 0 to 9."""

    images: np.ndarray
    labels: np.ndarray


def mnist(data_dir: str | Path | None = None) -> Split[Images]:
    """Return MNIST: 60,000 handwritten digits to train on, 10,000 to test with.

    By Y. LeCun, C. Cortes and C. Burges; CC BY-SA 3.0. The arrays are read-only.
    """
    return _split(
        lambda name: files.locate(data_dir, f"mnist/{name}.gz", f"{_MNIST_URL}{name}.gz", _MNIST_SHA256[name])
    )


def fashion_mnist(data_dir: str | Path | None = None) -> Split[Images]:
    """Return Fashion-MNIST: 60,000 articles of clothing to train on, 10,000 to test with.

    By H. Xiao, K. Rasul and R. Vollgraf, Zalando Research; MIT licence. The release that this project uses is an early
    one (August 2017, training mean 72.95683), whose contents and split differ from the current one (72.94035): figures
    on the two are not strictly comparable. The arrays are read-only.
    """
    return _split(
        lambda name: files.locate(data_dir, f"fashion-mnist/{name}.gz", url=None, sha256=None, obtain=_FASHION_OBTAIN)
    )


def _split(locate: Callable[[str], Path]) -> Split[Images]:
    def part(name: str) -> Images:
        return _part(locate(f"{name}-images-idx3-ubyte"), locate(f"{name}-labels-idx1-ubyte"))

    return Split(train=part("train"), test=part("t10k"))


def _part(images_path: Path, labels_path: Path) -> Images:
    images, labels = _idx(images_path, dimensions=3), _idx(labels_path, dimensions=1)
    if images.shape[1:] != _PIXELS:
        raise ValueError(f"{images_path} has images of {images.shape[1:]} pixels, expected {_PIXELS}.")
    if len(images) != len(labels):
        raise ValueError(f"{images_path} has {len(images)} images, but {labels_path} has {len(labels)} labels.")
    if (labels >= _CLASSES).any():
        raise ValueError(f"{labels_path} has labels outside 0 to {_CLASSES - 1}.")
    return Images(images.reshape(len(images), math.prod(_PIXELS)), labels)


def _idx(path: Path, dimensions: int) -> np.ndarray:
    """Read an IDX file of bytes: 0, 0, 8, the number of dimensions, each as a big-endian uint32, then the entries."""
    content = files.read(path)
    begin = 4 * (1 + dimensions)
    magic = bytes((0, 0, 8, dimensions))
    if len(content) < begin or content[:4] != magic:
        raise ValueError(
            f"{path} is not an IDX file of bytes in {dimensions} dimensions: it begins with {content[:4].hex()!r}, "
            f"expected {magic.hex()!r}."
        )
    shape = struct.unpack(f">{dimensions}I", content[4:begin])
    if len(content) - begin != math.prod(shape):
        raise ValueError(
            f"{path} is damaged or incomplete: its header promises {math.prod(shape)} bytes, it has "
            f"{len(content) - begin}. Delete it and get it again."
        )
    return np.frombuffer(content, np.uint8, offset=begin).reshape(shape)
