"""Small files of images, in the form of MNIST and Fashion-MNIST."""

import gzip
import struct
from pathlib import Path

import numpy as np

TRAIN, TEST = 600, 200


def write_images(root: Path) -> Path:
    """Write images in which a class lights a row of its own, and return their directory."""
    rng = np.random.default_rng(0)
    for name in ("mnist", "fashion-mnist"):
        (root / name).mkdir()
        for part, n in (("train", TRAIN), ("t10k", TEST)):
            labels = (np.arange(n) % 10).astype(np.uint8)
            images = rng.integers(0, 60, size=(n, 28, 28)).astype(np.uint8)
            images[np.arange(n), 2 * labels] = 255
            for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
                header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
                path = root / name / f"{part}-{kind}-ubyte.gz"
                path.write_bytes(gzip.compress(header + array.tobytes()))
    return root
