"""MNIST and Fashion-MNIST, from tiny IDX files."""

import gzip
import struct

import numpy as np
import pytest

from gossamer import datasets

IMAGES = np.random.default_rng(0).integers(0, 256, (6, 28, 28), np.uint8)
LABELS = np.array([3, 9, 0, 1, 1, 7], np.uint8)


def idx(array):
    return struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def write(folder, name, content):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.gz").write_bytes(gzip.compress(content))


@pytest.fixture(params=["mnist", "fashion-mnist"])
def folder(request, tmp_path):
    found = tmp_path / request.param
    for part, rows in (("train", slice(0, 4)), ("t10k", slice(4, 6))):
        write(found, f"{part}-images-idx3-ubyte", idx(IMAGES[rows]))
        write(found, f"{part}-labels-idx1-ubyte", idx(LABELS[rows]))
    return found


def load(folder):
    return {"mnist": datasets.mnist, "fashion-mnist": datasets.fashion_mnist}[folder.name](folder.parent)


def test_images_and_labels(folder):
    split = load(folder)
    for part, rows in ((split.train, slice(0, 4)), (split.test, slice(4, 6))):
        assert part.images.dtype == part.labels.dtype == np.uint8
        np.testing.assert_array_equal(part.images, IMAGES[rows].reshape(-1, 784))
        np.testing.assert_array_equal(part.labels, LABELS[rows])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train-images-idx3-ubyte", idx(LABELS), "not an IDX file of bytes in 3 dimensions: it begins with '00000801'"),
        ("train-images-idx3-ubyte", b"", "not an IDX file of bytes in 3 dimensions: it begins with ''"),
        ("train-images-idx3-ubyte", idx(IMAGES[:4])[:-1], "its header promises 3136 bytes, it has 3135"),
        ("train-images-idx3-ubyte", idx(IMAGES[:4, :, 1:]), r"has images of \(28, 27\) pixels"),
        ("train-labels-idx1-ubyte", idx(LABELS[:3]), "has 4 images, but .* has 3 labels"),
        ("t10k-labels-idx1-ubyte", idx(LABELS[:2] + 1), "has labels outside 0 to 9"),
    ],
    ids=["labels for images", "empty", "cut", "other size", "other number", "label 10"],
)
def test_a_wrong_file_is_refused(folder, name, content, message):
    write(folder, name, content)
    with pytest.raises(ValueError, match=message) as error:
        load(folder)
    assert f"{name}.gz" in str(error.value)


def test_missing_fashion_mnist_says_which_release_is_meant(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"GOSSAMER_DATA.*August 2017"):
        datasets.fashion_mnist(tmp_path)
