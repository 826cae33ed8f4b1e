"""UCI Adult ("Census Income"): 48,842 people of the 1994 US census database, with groups by sex and race.

Extracted by B. Becker and R. Kohavi; UCI Machine Learning Repository, CC BY 4.0. The task is whether a person's income
exceeds 50,000 $ (24 % do).
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from gossamer.datasets import files
from gossamer.datasets.encoding import Encoding, Share, codebook
from gossamer.datasets.labelled import Split
from gossamer.tables.kinds import Amount

_BOOK = codebook("adult_codebook.json")
# Ages are top-coded at 90 and hours at 99; amounts are four- and five-digit fields.
ENCODING = Encoding(
    names=(
        "age",
        "workclass",
        "fnlwgt",
        "education",
        "education-num",
        "marital-status",
        "occupation",
        "relationship",
        "race",
        "sex",
        "capital-gain",
        "capital-loss",
        "hours-per-week",
        "native-country",
    ),
    blocks={
        "age": Share(0, 90),
        "hours-per-week": Share(0, 99),
        "capital-gain": Amount(99_999),
        "capital-loss": Amount(9_999),
        **_BOOK,
    },
    labels={"<=50K": 0, ">50K": 1},
)
GROUP_NAMES = tuple(f"{sex}, {race}" for sex in _BOOK["sex"].values for race in _BOOK["race"].values)
_URL = "https://archive.ics.uci.edu/ml/machine-learning-databases/adult/"
_SHA256 = {
    "adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
    "adult.test": "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
}


class GroupedTable(NamedTuple):
    """A `LabelledTable` whose rows belong to groups."""

    X: np.ndarray
    y: np.ndarray
    row_norm: float
    """A public bound on the norm of a row."""
    classes: tuple[int, ...]
    groups: np.ndarray
    """Each row's index into `group_names`."""
    group_names: tuple[str, ...]


def adult(data_dir: str | Path | None = None) -> Split[GroupedTable]:
    """Return Adult: 32,561 rows to train on and 16,281 to test with, the original split, in ten groups sex × race.

    Numbers are scaled to [0, 1] by bounds that follow from the survey's form, see `ENCODING`; the categories are those
    of the codebook published with the data set (`adult.names`), kept in `adult_codebook.json`. A missing value (`?`) is
    all zero and its row is kept. Dropped are the sampling weight `fnlwgt` and `education-num`, which numbers the values
    of `education`. Label 1 is an income above 50,000 $.
    """
    return Split(_part(data_dir, "adult.data"), _part(data_dir, "adult.test"))


def _part(data_dir: str | Path | None, name: str) -> GroupedTable:
    path = files.locate(data_dir, f"adult/{name}.gz", url=_URL + name, sha256=_SHA256[name])
    lines = files.read(path).decode().splitlines()
    # The test file begins with a comment and ends its labels in a full stop; both end in an empty line.
    lines = [line.removesuffix(".") for line in lines if line and not line.startswith("|")]
    table = ENCODING.table(lines, str(path))
    sex, race = (table.X[:, ENCODING.columns[name]] for name in ("sex", "race"))
    if not (sex.any(axis=1) & race.any(axis=1)).all():
        raise ValueError(f"{path} has rows whose sex or race is not in the codebook, so they belong to no group.")
    groups = sex.argmax(axis=1) * race.shape[1] + race.argmax(axis=1)
    return GroupedTable(*table, groups.astype(np.int32), GROUP_NAMES)
