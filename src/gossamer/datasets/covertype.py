"""Forest Covertype: 581,012 patches of forest in Colorado, the data set of the experiments in paper ERM.

By J. Blackard, D. Dean and C. Anderson; UCI Machine Learning Repository, CC BY 4.0.
"""

import io
import math
from pathlib import Path

import numpy as np

from gossamer.datasets import files
from gossamer.datasets.labelled import LabelledTable, Split

# What is possible a priori: elevations between the lowest and the highest point of Colorado, angles in degrees,
# hillshade in a byte. Distances in metres have generous bounds; longer ones are clipped.
_BOUNDS = (
    (1_010, 4_401),  # elevation
    (0, 360),  # aspect
    (0, 90),  # slope
    (0, 2_000),  # horizontal distance to hydrology
    (-1_000, 1_000),  # vertical distance to hydrology
    (0, 10_000),  # horizontal distance to roadways
    (0, 255),  # hillshade at 9 am
    (0, 255),  # hillshade at noon
    (0, 255),  # hillshade at 3 pm
    (0, 10_000),  # horizontal distance to fire points
)
_WILDERNESS, _SOIL = slice(10, 14), slice(14, 54)
_LABEL = 54
_TYPES = range(1, 8)
_LODGEPOLE_PINE = 2
# The address and the checksum that scikit-learn publishes for the file of the UCI repository.
_URL = "https://ndownloader.figshare.com/files/5976039"
_SHA256 = "614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771"


def covertype(data_dir: str | Path | None = None, train_rows: int = 200_000) -> Split[LabelledTable]:
    """Return Covertype as a binary task, lodgepole pine (type 2, label 1) against the rest.

    The ten quantities are scaled to [0, 1] by a-priori bounds; wilderness area and soil type are one-hot, as in the
    file. The file is sorted by region, so its rows are permuted, always in the same way; the first `train_rows` of
    them are for training (200,000 in the paper) and the others for testing.
    """
    path = files.locate(data_dir, "covertype/covtype.data.gz", url=_URL, sha256=_SHA256)
    rows = _rows(path)
    if not 0 < train_rows < len(rows):
        raise ValueError(f"train_rows = {train_rows} must be at least 1 and below the {len(rows)} rows of {path}.")
    X = rows[:, :_LABEL].astype(np.float32)
    low, high = np.array(_BOUNDS, np.float32).T
    X[:, : len(low)] = np.clip((X[:, : len(low)] - low) / (high - low), 0, 1)
    y = (rows[:, _LABEL] == _LODGEPOLE_PINE).astype(np.int64)
    order = np.random.default_rng(0).permutation(len(rows))
    row_norm = math.sqrt(len(_BOUNDS) + 2)  # the two one-hot groups count 1 each
    train, test = (
        LabelledTable(X[chosen], y[chosen], row_norm, (0, 1)) for chosen in (order[:train_rows], order[train_rows:])
    )
    return Split(train, test)


def _rows(path: Path) -> np.ndarray:
    try:
        rows = np.loadtxt(io.BytesIO(files.read(path)), np.int32, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path} could not be read as whole numbers separated by commas: {error}") from error
    if rows.shape[1] != _LABEL + 1:
        raise ValueError(f"{path} has {rows.shape[1]} columns, expected {_LABEL + 1}.")
    for what, group in (("wilderness areas", rows[:, _WILDERNESS]), ("soil types", rows[:, _SOIL])):
        if (group < 0).any() or (group.sum(axis=1) != 1).any():
            raise ValueError(f"{path} has rows whose {what} are not exactly one.")
    if not np.isin(rows[:, _LABEL], _TYPES).all():
        raise ValueError(f"{path} has cover types outside {_TYPES.start} to {_TYPES.stop - 1}.")
    return rows
