"""Rows from tables: what each value becomes, within a bound that no table can break."""

import math
from dataclasses import replace

import numpy as np
import pytest

from gossamer.base.leak import Leak
from gossamer.tables import Amount, Category, Declaration, Hashed, Ignore, Number, Schema, parse_csv
from gossamer.tables.encoding import Columns, coded_kinds

AGE = Declaration(Number(10, 90))
SCHEMA = Schema(
    target="ill",
    classes=("no", "yes"),
    columns={
        "age": Declaration(Number(10, 90), missing=True),
        "gain": Declaration(Amount(999)),
        "colour": Declaration(Category(("red", "green"))),
        "id": Declaration(Ignore()),
    },
    group="sex",
    groups=("F", "M"),
)


def table_of(column, *values, decimal="."):
    text = "\n".join([f"{column};y", *(f"{value};no" for value in values)])
    return parse_csv(text, "a file", delimiter=";", decimal=decimal)


def remarks(declared, *values):
    return Schema("y", ("no", "yes"), {"x": declared}).remarks(table_of("x", *values))


def encoded(declared, *values, decimal="."):
    schema, table = Schema("y", ("no", "yes"), {"x": declared}), table_of("x", *values, decimal=decimal)
    schema.check(table)
    return schema.encode(table).tolist()


def test_each_column_has_a_code():
    """One number a column, by the same rules as its columns of the encoding; −2 for what is missing."""
    kinds = {"age": AGE, "gain": Declaration(Amount(99)), "sex": Declaration(Category(("F", "M")))}
    kinds["town"] = Declaration(Hashed(4), missing=True)
    table = parse_csv("age,gain,sex,town\n70,99,M,Oslo\n,0,X,\n500,?,?,oslo\n", "a file")
    coded = Columns(kinds).coded(table)
    bucket = Hashed(4).bucket("Oslo")
    np.testing.assert_allclose(coded.values, [[0.75, 1, 1, bucket], [-2, -1, -1, -2], [1, -2, -2, bucket]])
    assert coded_kinds(coded.columns)[3] == Category(tuple(f"town: bucket {i}" for i in range(4)))


def test_each_column_becomes_what_the_schema_says():
    table = parse_csv(
        "colour,id,more,age,sex,gain,ill\ngreen,1,2,30,F,99,no\n?,x,2,,M,0,yes\nblue,y,2,90,F,NA,no\n", "a file"
    )
    X = SCHEMA.encode(table)
    assert X.dtype == np.float32
    np.testing.assert_allclose(X, [[-0.5, 0, 2 / 3, 1, 0, 1], [0, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0]], rtol=1e-6)
    assert SCHEMA.feature_names == (
        "age", "age is missing", "log(1 + gain)", "gain > 0", "colour = red", "colour = green",
    )  # fmt: skip
    assert SCHEMA.width == 6
    assert SCHEMA.labels(table).tolist() == ["no", "yes", "no"]
    assert SCHEMA.group_of(table).tolist() == ["F", "M", "F"]
    assert SCHEMA.row_norm == math.sqrt(1 + 2 + 1)
    assert SCHEMA.remarks(table) == (
        "columns that the schema does not mention are ignored: 'more'.",
        "line 4: column 'colour' has a value there that is not in its declared list. It counts as none of them; "
        "compare spellings.",
    )


def test_a_row_attains_the_bound():
    table = parse_csv("age,gain,colour\n1e30,1e30,red\n-1e30,-1e30,pink\n", "a file")
    assert np.linalg.norm(SCHEMA.encode(table).astype(np.float64), axis=1).tolist() == [SCHEMA.row_norm, 1]


def test_a_table_to_predict_needs_no_target_and_no_ignored_column():
    assert SCHEMA.encode(parse_csv("age,gain,colour\n1,1,red\n", "a file")).shape == (1, 6)


def test_a_row_does_not_depend_on_the_others():
    rng = np.random.default_rng(0)
    lines = [f"{rng.integers(0, 99)},{rng.integers(0, 2000)},{rng.choice(['red', 'green', 'NA'])}" for _ in range(50)]
    together = SCHEMA.encode(parse_csv("\n".join(["age,gain,colour", *lines]), "a file"))
    for line, row in zip(lines, together, strict=True):
        np.testing.assert_array_equal(SCHEMA.encode(parse_csv(f"age,gain,colour\n{line}", "a file"))[0], row)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("70", 0.5),
        (" 70 ", 0.5),
        ("+7.0e1", 0.5),
        ("9" * 400, 1.0),
        ("-" + "9" * 400, -1.0),
        ("1e999", 1.0),
        ("-1e999", -1.0),
        ("1e-999", -1.0),
        ("", 0.0),
        ("nan", 0.0),
    ],
)
def test_numbers_as_people_and_machines_write_them(text, value):
    assert encoded(AGE, text) == [[value]]


@pytest.mark.parametrize(
    "text", ["inf", "-Infinity", "1,000,000", "1.000,5", "1_000", "0x10", "1e", "12 kg", "9" * 100_000 + "x"]
)
def test_what_is_not_a_number_counts_as_missing_and_the_owner_hears_where(text):
    flagged = replace(AGE, missing=True)
    assert encoded(flagged, "70", text, "") == [[0.5, 0], [0, 1], [0, 1]]
    (remark,) = remarks(flagged, "70", text, text)
    assert remark.startswith("line 3 and 1 more: column 'x' is declared as a number, and something else stands there")
    assert "It counts as missing" in remark and text not in remark
    assert remarks(flagged, "70", "") == ()


def test_a_column_without_any_number_is_refused_with_its_place_and_what_to_say():
    assert encoded(AGE, "70,0", ",1e3", "+5e1", decimal=",") == [[0.5], [1], [0]]
    assert encoded(Declaration(Category(("1,5", "1.5"))), "1,5", "1.5", decimal=",") == [[1, 0], [0, 1]]
    for text, decimal, message in (
        ("1,5", ".", r"numbers with a comma: .*decimal=',' \(--decimal ,\); if it separates thousands"),
        (
            "1.500",
            ",",
            r"numbers with a point: .*decimal='\.' \(--decimal \.\); if it separates thousands",
        ),
        ("1.500,25", ",", r"write numbers as 12 or -1,5 or 2e6, .*nothing between thousands"),
    ):
        with pytest.raises(ValueError, match=f"a file, line 3: column 'x' .* has none; .*{message}") as caught:
            encoded(AGE, "", text, decimal=decimal)
        assert "1.500" not in str(caught.value)


def test_dates_are_days_and_truth_values_are_numbers():
    days = Declaration(Number(0, 20000))
    rows = encoded(days, "1970-01-01", "1997-05-19", "1997-05-19T12:00", "1997-02-31", "true", "FALSE")
    assert rows == pytest.approx(np.array([[-1.0], [0.0], [0.00005], [0.0], [-0.9999], [-1.0]]), abs=1e-6)


def test_codes_for_missing_values_are_compared_as_numbers_too():
    coded = Declaration(Number(0, 100), missing=True, absent=("-999", "refused"))
    rows = encoded(coded, "-999", "-999.0", "refused", "-998", "50", "")
    assert rows == [[0, 1], [0, 1], [0, 1], [-1, 0], [0, 0], [0, 1]]
    assert remarks(coded, "-999", "refused", "50") == ()
    listed = Declaration(Category(("a", "9")), missing=True, absent=("9.0",))
    assert encoded(listed, "a", "9", "b") == [[1, 0, 0], [0, 0, 1], [0, 0, 0]]


def test_a_public_hash_says_the_same_for_every_spelling():
    hashed = Hashed(8)
    rows = encoded(Declaration(hashed, missing=True), "Oslo", " oslo ", "7", "7.0", "Bergen", "")
    assert rows[0] == rows[1] and rows[2] == rows[3] and sum(rows[4]) == 1
    assert rows[5] == [0] * 8 + [1]
    # Fixed for ever: a stored model needs it.
    assert [hashed.bucket(text) for text in ("oslo", "7", "bergen")] == [1, 1, 6]
    with pytest.raises(ValueError, match="buckets = 1 must be a whole number from 2"):
        Hashed(1)


@pytest.mark.parametrize(
    "others", [["same"] * 50, ["a", "b"] * 25, ["1e300"] * 50, [""] * 50, [f"patient {i}" for i in range(50)]]
)
def test_a_record_that_is_replaced_changes_its_own_hashed_row_alone_by_the_norm_that_is_declared(others):
    """Whatever the column holds. The twin numbers values in the order in which they come: all rows behind it change."""
    declared = Declaration(Hashed(64), missing=True)
    here, there = (np.array(encoded(declared, first, *others)) for first in ("Oslo", "Bergen"))
    np.testing.assert_array_equal(here[1:], there[1:])
    assert np.linalg.norm(here, axis=1).max() == declared.kind.squared_norm == 1
    assert np.linalg.norm(here[0] - there[0]) == pytest.approx(math.sqrt(2))

    def by_first_appearance(*values):
        return [list(dict.fromkeys(values)).index(value) for value in values]

    assert by_first_appearance("b", "a", "b", "a")[1:] != by_first_appearance("a", "a", "b", "a")[1:]


def test_truth_values_are_categories_like_others():
    assert encoded(Declaration(Category(("true", "false"))), "true", "false", "yes") == [[1, 0], [0, 1], [0, 0]]


@pytest.mark.parametrize(("low", "high"), [(-8e307, 8e307), (0, 5e-324), (10**300, 10**301), (1e15, 1e15 + 1)])
def test_extreme_bounds_still_give_numbers_between_minus_1_and_1(low, high):
    rows = encoded(Declaration(Number(low, high)), low, high, "1e999", "-1e999", 0)
    assert rows[:4] == [[-1], [1], [1], [-1]]
    assert -1 <= rows[4][0] <= 1


def test_labels_and_groups_must_be_there_and_declared():
    schema = Schema("ill", ("no", "yes"), {"x": AGE}, group="sex", groups=("F", "M"))
    table = parse_csv("x,ill,sex\n1,no,\n1,,M\n1,,D\n", "a file")
    with pytest.raises(ValueError, match=r"a file: 2 of 3 rows have no value in the target column 'ill'.*dropna"):
        schema.labels(table)
    table = parse_csv("x,ill,sex\n1,no,F\n1,perhaps,D\n", "a file")
    with pytest.raises(
        ValueError, match="line 3: the target column 'ill' has a value that is not one of classes"
    ) as caught:
        schema.labels(table)
    assert "perhaps" not in str(caught.value)
    with pytest.raises(
        ValueError, match="line 3: the group column 'sex' has a value that is not one of groups = 'F', 'M'"
    ):
        schema.group_of(table)
    with pytest.raises(ValueError, match="a file has no column 'ill'"):
        schema.labels(parse_csv("x\n1\n", "a file"))
    with pytest.raises(ValueError, match="the schema names no group"):
        Schema("ill", ("no", "yes"), {"x": AGE}).group_of(table)


def test_a_column_that_the_table_lacks_is_named():
    with pytest.raises(
        ValueError, match=r"a file has no column 'age', 'gain', which.*Did you mean 'Age'.*schema where it has kind"
    ):
        SCHEMA.encode(parse_csv("Age,colour\n1,red\n", "a file"))


def test_the_owner_hears_of_categories_that_are_spelled_differently():
    schema = Schema("y", ("no", "yes"), {"x": Declaration(Category(("Red",)))})
    assert schema.remarks(table_of("x", "red", "blue")) == (
        "no value of column 'x' is in its declared list, so it says nothing; compare spellings.",
    )
    assert schema.remarks(table_of("x", "NA", "?")) == ()
    (rare,) = schema.remarks(table_of("x", "Red", "blue", "blue"))
    assert rare.startswith("line 3 and 1 more: column 'x' has a value there that is not in its declared list")


def test_the_owner_hears_of_classes_that_differ_in_case():
    schema = Schema("y", ("Nein", "nein", "Ja"), {"x": AGE})
    assert schema.remarks(table_of("x", "1")) == (
        "classes that differ in nothing but case count as different: 'Nein', 'nein'.",
    )


def test_leaks_name_columns_and_never_values():
    columns = {
        "age": Declaration(Number(17, 93), read_from_data=True),
        "gain": Declaration(Amount(777), read_from_data=True),
        "colour": Declaration(Category(("mauve",)), read_from_data=True),
        "id": Declaration(Ignore("odd"), read_from_data=True),
        "fine": AGE,
    }
    schema = Schema("ill", ("no", "yes"), columns, "sex", ("F", "M"), True, True)
    assert schema.leaks() == (
        Leak("ill", "list of classes", "target"),
        Leak("sex", "list of groups", "group"),
        Leak("age", "range", "column"),
        Leak("gain", "upper bound", "column"),
        Leak("colour", "list of categories", "column"),
        Leak("id", "choice to ignore it", "column"),
    )
    assert SCHEMA.leaks() == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"classes": ()}, r"classes = \[\] must name at least one"),
        ({"classes": ("no",)}, r"classes = \['no'\] must have at least two values"),
        ({"classes": ("no", "no")}, "classes has 'no' more than once"),
        ({"classes": ("no", "NA")}, "classes has 'NA', which stands for a missing value"),
        ({"classes": ("no", " yes")}, "classes has ' yes': remove spaces"),
        ({"columns": {"ill": AGE}}, "target = 'ill' is also in columns"),
        ({"group": "ill", "groups": ("a", "b")}, "group = 'ill' is also the target"),
        ({"group": "sex"}, r"group = 'sex' needs the public list.*groups = \[\"a\", \"b\"\]"),
        ({"groups": ("a", "b")}, "groups are listed but group"),
        ({"columns": {}}, "no column is left to learn from"),
        (
            {"columns": {"id": Declaration(Ignore("odd"))}},
            r"no column is left to learn from. Ignored are: 'id' \(odd\)",
        ),
        ({"columns": {"c": Declaration(Category(("?",)))}}, "column 'c': values has '\\?', which stands for a missing"),
    ],
)
def test_a_schema_that_contradicts_itself_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Schema(**{"target": "ill", "classes": ("no", "yes"), "columns": {"x": AGE}} | arguments)


def test_an_ignored_column_has_no_indicator():
    with pytest.raises(ValueError, match="this one is ignored"):
        Declaration(Ignore(), missing=True)
