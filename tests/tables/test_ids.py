"""Ids are one person's, however they are spelled."""

import numpy as np
import pytest

from gossamer.tables.ids import persons_of, same_person

SPELLINGS = {
    "7": ["7", " 7", "7 ", "7.0", "7,0", "7.", "007", "+7", 7, 7.0, np.int64(7), np.float32(7), "\u200b7", "７", b"7"],
    "a-12": ["A-12", "a-12", " a-12\t", "Ａ-12", "a -12"],
    "7.5": ["7.5", "7.50", "7,5", 7.5],
    "-3": ["-3", "-3.0", -3],
    "10000000000000000": ["1e+16", "1.0e+16", 10**16, "10000000000000000"],
    "0": ["0", "-0", "0.0", "00"],
}
NOBODY = ["", "  ", "NA", "nan", "NULL", "?", None, float("nan"), np.nan, "None", "<NA>"]


@pytest.mark.parametrize(("key", "spellings"), SPELLINGS.items())
def test_spellings_of_one_id_are_one_id(key, spellings):
    assert {same_person(spelling) for spelling in spellings} == {key}


def test_different_ids_stay_different():
    ids = [*SPELLINGS, "7a", "a-13", "17", "70", "7-0", "a12", "1e16", "12e4567", "0e12"]
    assert len({same_person(each) for each in ids}) == len(ids)


@pytest.mark.parametrize("missing", NOBODY)
def test_a_missing_id_is_nobodys(missing):
    assert same_person(missing) is None


@pytest.mark.parametrize(
    "ids",
    [
        ["b", "a", "B ", "c", "a"],
        np.array(["b", "a", "B ", "c", "a"]),
        np.array(["b", "a", "B ", "c", "a"], object),
        np.array([b"b", b"a", b"B ", b"c", b"a"]),
    ],
)
def test_persons_are_numbered_by_their_ids(ids):
    codes, number = persons_of(ids)
    assert (codes.tolist(), number) == ([1, 0, 1, 2, 0], 3)


def test_numbers_texts_and_floats_give_the_same_persons():
    numbers = [10, 2, 7, 2, 10]
    expected = persons_of(np.array(numbers)).codes.tolist()
    assert expected == [2, 0, 1, 0, 2]  # as numbers, not as words
    for ids in (list(map(str, numbers)), np.array(numbers, float), [10, "2.0", 7.0, " 2", "10"]):
        assert persons_of(ids).codes.tolist() == expected


def test_a_series_of_pandas_has_ids():
    pandas = pytest.importorskip("pandas")
    assert persons_of(pandas.Series(["x", None, "X"])).codes.tolist() == [0, -1, 0]
    assert persons_of(pandas.Series([1.0, float("nan"), 1.0])).codes.tolist() == [0, -1, 0]


def test_more_rows_of_one_person_move_nobodys_number():
    ids = ["c", "a", "b"]
    longer = ["b", "b", *ids, "b"]
    assert persons_of(longer).codes[2:5].tolist() == persons_of(ids).codes.tolist()


def test_ids_of_two_columns_are_refused():
    with pytest.raises(ValueError, match="one id for each row"):
        persons_of(np.zeros((3, 2), int))
