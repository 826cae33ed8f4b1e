"""Images to train on."""

import pytest
from testkit.images import TRAIN, write_images

from gossamer.experiments import pictures


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """Return a directory of small data files."""
    return write_images(tmp_path_factory.mktemp("data"))


@pytest.mark.parametrize("share", [0.5, 0.1])
@pytest.mark.parametrize(("inputs", "width"), [("pixels", 784), ("edges", 392)])
def test_imbalance_is_in_training_alone(data_dir, inputs, width, share):
    (X, y), (X_test, y_test) = pictures.load("mnist", inputs, share, data_dir, held_out=False)
    assert X.shape == (len(y), width)
    assert X_test.shape == (len(y_test), width)
    assert y.mean() == pytest.approx(share, abs=1 / len(y))
    assert y_test.mean() == 0.5


def test_held_out_images_are_not_trained_on(data_dir, monkeypatch):
    monkeypatch.setattr(pictures, "HELD_OUT", 100)
    (X, _), (held, _) = pictures.load("fashion_mnist", "pixels", 0.5, data_dir, held_out=True)
    assert (len(X), len(held)) == (TRAIN - 100, 100)
    assert not {row.tobytes() for row in X} & {row.tobytes() for row in held}
