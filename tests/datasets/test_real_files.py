"""The published files themselves, where they are at hand."""

import hashlib
import importlib
import os

import numpy as np
import pytest

from gossamer import datasets
from gossamer.datasets import files
from gossamer.datasets.adult import ENCODING as ADULT
from gossamer.datasets.census import DEFAULTS
from gossamer.datasets.census import ENCODING as CENSUS
from gossamer.datasets.encoding import Category

pytestmark = pytest.mark.skipif(
    not os.environ.get("GOSSAMER_DATA"), reason="GOSSAMER_DATA does not name a directory with the published files"
)


@pytest.fixture(scope="module")
def census():
    return datasets.census()


def test_census(census):
    assert census.train.X.shape == (199_523, 477)
    assert census.test.X.shape == (99_762, 477)
    assert (census.train.y.sum(), census.test.y.sum()) == (12_382, 6_186)
    for table in census:
        norms = np.linalg.norm(table.X[::7], axis=1)
        assert 0.7 * table.row_norm < norms.max() <= table.row_norm  # the bound is no idle one


def test_the_census_codebook_misses_nothing_but_question_marks(census):
    """A category column is all zero exactly where the file has "?" or what is true of most people."""
    path = files.locate(None, "census-income/test.csv.xz", None, None)
    rows = [line.split(", ") for line in files.read(path).decode().splitlines()[::50]]
    for j, name in enumerate(CENSUS.names):
        if isinstance(CENSUS.blocks.get(name), Category):
            known = census.test.X[::50, CENSUS.columns[name]].sum(axis=1)
            assert known.tolist() == [float(row[j] not in ("?", *DEFAULTS)) for row in rows], name


def test_adult():
    split = datasets.adult()
    assert split.train.X.shape == (32_561, 105)
    assert split.test.X.shape == (16_281, 105)
    assert (split.train.y.sum(), split.test.y.sum()) == (7_841, 3_846)
    # Rows without a missing value: the three fields that can miss one count 1 each.
    for table, complete in ((split.train, 30_162), (split.test, 15_060)):
        known = [table.X[:, ADULT.columns[name]].any(axis=1) for name in ("workclass", "occupation", "native-country")]
        assert np.all(known, axis=0).sum() == complete


def test_mnist():
    split = datasets.mnist()
    assert np.bincount(split.train.labels).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(split.test.labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_fashion_mnist_is_the_release_of_august_2017():
    split = datasets.fashion_mnist()
    assert split.train.images.mean() == pytest.approx(72.95683, abs=1e-5)
    assert split.test.images.mean() == pytest.approx(73.16080, abs=1e-5)
    assert np.bincount(split.train.labels).tolist() == [6000] * 10


def test_downloads_would_be_compared_with_these_files():
    adult, images = (importlib.import_module(f"gossamer.datasets.{name}") for name in ("adult", "images"))
    for folder, checksums in (("adult", adult._SHA256), ("mnist", images._MNIST_SHA256)):
        for name, sha256 in checksums.items():
            content = files.read(files.directory() / folder / f"{name}.gz")
            assert hashlib.sha256(content).hexdigest() == sha256, name
