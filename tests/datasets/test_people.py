"""Census-Income and Adult, from tiny files in the same form."""

import gzip
import lzma
import math

import numpy as np
import pytest

from gossamer import datasets
from gossamer.datasets.adult import ENCODING as ADULT
from gossamer.datasets.census import DEFAULTS
from gossamer.datasets.census import ENCODING as CENSUS
from gossamer.datasets.encoding import Category, codebook

PERSON = (
    "58, Private, 4, 34, Some college but no degree, 1000, Not in universe, Divorced, Construction, "
    "Handlers equip cleaners etc , White, NA, Male, Not in universe, Not in universe, Children or Armed Forces, 0, "
    "9999, 250000, Head of household, South, ?, Householder, Householder, 1053.55, ?, Same county, "
    "Same county, No, Yes, 3, Not in universe, United-States, ?, United-States, Native- Born in the United States, "
    "0, Not in universe, 2, 52, 94, 50000+."
)
CHILD = PERSON.replace("58,", "0,").replace("50000+.", "- 50000.")
# census-income.names publishes these counts of values; "?" counts there and is left out here.
PUBLISHED = (
    9,
    52,
    47,
    17,
    3,
    7,
    24,
    15,
    5,
    10,
    2,
    3,
    6,
    8,
    6,
    6,
    50,
    38,
    8,
    9,
    8,
    9,
    3,
    3,
    5,
    42,
    42,
    42,
    5,
    3,
    3,
    3,
    2,
)
CATEGORIES = {name: block for name, block in CENSUS.blocks.items() if isinstance(block, Category)}


@pytest.fixture
def census_dir(tmp_path):
    folder = tmp_path / "census-income"
    folder.mkdir()
    (folder / "train.csv.xz").write_bytes(lzma.compress(f"{PERSON}\n{CHILD}\n".encode()))
    (folder / "test.csv.xz").write_bytes(lzma.compress(f"{CHILD}\n".encode()))
    return tmp_path


def test_census_rows(census_dir):
    split = datasets.census(census_dir)
    assert split.train.y.tolist() == [1, 0]
    assert split.test.y.tolist() == [0]
    assert split.train.X.shape == (2, 3 + 2 * 4 + sum(block.width for block in CATEGORIES.values()))
    row = {name: split.train.X[0, columns] for name, columns in CENSUS.columns.items()}
    assert row["age"] == pytest.approx(58 / 90)
    assert row["num persons worked for employer"] == 0.5
    assert row["weeks worked in year"] == 1
    np.testing.assert_allclose(row["wage per hour"], [math.log(1001) / math.log(10_000), 1], rtol=1e-6)
    assert row["capital gains"].tolist() == [0, 0]
    assert row["capital losses"].tolist() == [1, 1]
    assert row["dividends from stocks"].tolist() == [1, 1]  # above the bound: clipped
    fields = dict(zip(CENSUS.names, PERSON.split(", "), strict=False))
    for name, block in CATEGORIES.items():
        assert [value for value, on in zip(block.values, row[name], strict=True) if on] == [fields[name]] * (
            fields[name] not in ("?", *DEFAULTS)
        )
    np.testing.assert_array_equal(split.train.X[1], split.test.X[0])


def test_the_census_bound_counts_numbers_amounts_and_categories():
    published = codebook("census_codebook.json")
    assert tuple(block.width for block in published.values()) == PUBLISHED
    for name, block in CATEGORIES.items():  # only what is true of most people is left out, and at most two values
        left_out = set(published[name].values) - set(block.values)
        assert left_out <= set(DEFAULTS)
        assert len(left_out) <= 2
    assert CENSUS.row_norm == math.sqrt(3 + 2 * 4 + 33)
    assert set(CENSUS.names) - set(CENSUS.blocks) == {"instance weight"}


def test_a_missing_census_says_how_to_obtain_it(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"census-income/train.csv.xz is not in .*UCI .*xz > "):
        datasets.census(tmp_path)


def test_a_cut_census_is_refused(census_dir):
    path = census_dir / "census-income" / "train.csv.xz"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match=r"train.csv.xz is damaged or incomplete"):
        datasets.census(census_dir)


MAN = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, Black, Male, 2174, 0, 40, Cuba, "
)
WOMAN = "50, ?, 83311, Masters, 14, Divorced, ?, Unmarried, White, Female, 0, 0, 99, ?, "


@pytest.fixture
def adult_dir(tmp_path):
    folder = tmp_path / "adult"
    folder.mkdir()
    (folder / "adult.data.gz").write_bytes(gzip.compress(f"{MAN}<=50K\n{WOMAN}>50K\n\n".encode()))
    (folder / "adult.test.gz").write_bytes(gzip.compress(f"|1x3 Cross validator\n{WOMAN}>50K.\n\n".encode()))
    return tmp_path


def test_adult_rows_and_groups(adult_dir):
    train, test = datasets.adult(adult_dir)
    assert train.y.tolist() == [0, 1]
    assert test.y.tolist() == [1]
    assert [train.group_names[g] for g in train.groups] == ["Male, Black", "Female, White"]
    assert [test.group_names[g] for g in test.groups] == ["Female, White"]
    assert len(set(train.group_names)) == 10
    np.testing.assert_array_equal(train.X[1], test.X[0])
    at = ADULT.columns
    assert train.X[0, at["age"]] == pytest.approx(39 / 90)
    np.testing.assert_allclose(train.X[0, at["capital-gain"]], [math.log(2175) / math.log(100_000), 1], rtol=1e-6)
    assert train.X[0, at["education"]].sum() == 1
    assert not train.X[1, at["workclass"]].any()  # "?"
    assert set(ADULT.names) - set(ADULT.blocks) == {"fnlwgt", "education-num"}
    assert train.row_norm == math.sqrt(2 + 2 * 2 + 8)


def test_a_row_without_a_group_is_refused(adult_dir):
    content = f"{MAN}<=50K\n".replace("Black", "?")
    (adult_dir / "adult" / "adult.data.gz").write_bytes(gzip.compress(content.encode()))
    with pytest.raises(ValueError, match=r"adult.data.gz has rows whose sex or race is not in the codebook"):
        datasets.adult(adult_dir)
