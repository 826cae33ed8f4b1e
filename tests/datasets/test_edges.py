"""Histograms of edge directions."""

import numpy as np
import pytest

from gossamer.datasets import edges


def bar(slope: str) -> np.ndarray:
    """Return an image whose right or lower half is bright."""
    image = np.zeros((28, 28), np.uint8)
    if slope == "right":
        image[:, 14:] = 255
    else:
        image[14:] = 255
    return image.reshape(1, -1)


@pytest.mark.parametrize(("slope", "direction"), [("right", 0), ("down", 2)])
def test_an_edge_is_counted_in_its_direction(slope, direction):
    """Of eight directions, brightness that rises to the right is number 0 and downwards is number 2."""
    features = edges(bar(slope)).reshape(8, 7, 7)
    assert np.argmax(features.sum((1, 2))) == direction
    others = np.delete(features, direction, axis=0)
    assert np.allclose(others, others.ravel()[0])  # nothing but the centring


def test_a_direction_between_two_is_shared():
    rows, columns = np.mgrid[:28, :28]
    ramp = (columns + np.tan(np.pi / 8) * rows) * 4  # halfway between directions 0 and 1
    features = edges(ramp.reshape(1, -1)).reshape(8, 7, 7)[:, 1:-1, 1:-1]
    assert np.allclose(features[0], features[1], rtol=1e-3)
    assert features[0].min() > features[2:].max() + 0.1


def test_a_row_depends_on_its_own_image_alone():
    images = np.random.default_rng(0).integers(0, 256, size=(3, 784)).astype(np.uint8)
    assert np.array_equal(edges(images)[1], edges(images[1:2])[0])
    assert np.linalg.norm(edges(images), axis=1) == pytest.approx(28, rel=1e-5)


def test_a_blank_image_has_no_features():
    assert np.array_equal(edges(np.zeros((1, 784), np.uint8)), np.zeros((1, 392)))
