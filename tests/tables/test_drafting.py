"""Drafted schemas: a sensible guess for each column, and all of it marked as read from the data."""

import pytest

from gossamer.tables import Amount, Category, Declaration, Ignore, Number, draft, parse_csv, schema_from_flags
from gossamer.tables.numerals import advice_on_marks

N = 60
"""Rows: more than a list of categories may have values."""


def drafted(values):
    lines = ["x;z;y", *(f'"{value}";{i % 2};{"no" if i % 3 else "yes"}' for i, value in enumerate(values))]
    return draft(parse_csv("\n".join(lines), "a file"), "y").columns["x"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([17, 90] * 30, Number(10, 90)),
        ([0.31, 0.62] * 30, Number(0.3, 0.7)),
        ([-5, 123456] * 30, Number(-100000, 200000)),
        ([0, 1] * 30, Number(0, 1)),
        (["1e-320", "3e-320"] * 30, Number(1e-320, 3e-320)),
        ([0, 0, 0, 43_210] * 15, Amount(50_000)),
        ([0, 0, 0, -1, 43_210] * 12, Number(-10_000, 50_000)),
        (["b", "a", "b"] * 20, Category(("a", "b"))),
        (["10", "9", "x"] * 20, Category(("10", "9", "x"))),
        (["yes", ""] * 30, Category(("yes",))),
        (["true", "false"] * 30, Category(("false", "true"))),
        (["", "NA", "?"] * 20, Ignore("all values are missing")),
        (["7"] * N, Ignore("all values are the same")),
        (["7", "7.0"] * 30, Ignore("all values are the same")),
        (range(1000, 1000 + N), Ignore("whole numbers, all different: an identifier?")),
        ([i / 7 for i in range(N)], Number(0, 9)),
        (
            [f"p{i}" for i in range(N)],
            Ignore("text with more than 50 different values: an identifier, a date or free text?"),
        ),
        (["1,5", "2"] * 30, Ignore(f"numbers with a comma: {advice_on_marks('.')}")),
        (["1,5", "2.5", "x"] * 20, Category(("1,5", "2.5", "x"))),
        (["1" + "0" * 400, 1] * 30, Ignore("numbers that are too large to compute with")),
        (["1.7e308", "-1.7e308"] * 30, Ignore("numbers that are too large to compute with")),
        (["1.7e308", 0] * 30, Ignore("numbers that are too large to compute with")),
    ],
)
def test_guesses(values, kind):
    declared = drafted(values)
    assert declared.kind == kind
    assert declared.read_from_data


def test_decimal_commas_are_numbers_where_they_are_announced():
    table = parse_csv("x;z;y\n1,5;0.5;10\n2;1;9,5\n", "a file", decimal=",")
    schema = draft(table, "y")
    assert schema.columns["x"].kind == Number(1.5, 2)
    assert schema.columns["z"].kind == Ignore(f"numbers with a point: {advice_on_marks(',')}")
    assert schema.classes == ("9,5", "10")
    (remark,) = schema.remarks(table)
    assert "'z' is left out: numbers with a point" in remark


def test_every_column_gets_an_indicator_of_missing_values():
    assert all(drafted(values).missing for values in (["1", "5", ""] * 20, ["1", "5"] * 30, ["a", "b"] * 30))


def test_everything_in_a_draft_leaks_until_it_is_confirmed():
    table = parse_csv("a,sex,y\n1,F,10\n2,M,9\n3,M,9\n", "a file")
    schema = draft(table, "y", group="sex")
    assert schema.classes == ("9", "10")
    assert schema.groups == ("F", "M")
    assert len(schema.leaks()) == 4  # classes, groups, and both columns
    assert len(draft(table, "y").leaks()) == 3


@pytest.mark.parametrize(
    ("answers", "classes"),
    [("Ja Nein", ("Nein", "Ja")), ("yes no", ("no", "yes")), ("J N", ("N", "J")), ("b a", ("a", "b"))],
)
def test_the_class_that_scores_are_for_is_last(answers, classes):
    yes, no = answers.split()
    assert draft(parse_csv(f"x,y\n1,{yes}\n2,{no}\n3,{no}\n", "a file"), "y").classes == classes


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("yy", "a file has no column 'yy'. Did you mean 'y'"),
        ("x", "column 'x' has more than 50 different values, so it cannot be the target"),
        ("z", "column 'z' has fewer than two different values"),
    ],
)
def test_a_target_must_have_classes(target, message):
    lines = ["x,z,y", *(f"v{i},1,{i % 2}" for i in range(N))]
    with pytest.raises(ValueError, match=message):
        draft(parse_csv("\n".join(lines), "a file"), target)


TABLE = parse_csv("age,sex,a=b,gain,y\n1,F,1,0,<=5\n2,M,2,5,>5\n", "a file")


def test_flags_declare_and_the_rest_is_drafted_for_who_insists():
    flags = {"bounds": ["age=17:90"], "categories": ["sex=F| M"], "amounts": ["gain=1e5"], "classes": "<=5|>5"}
    schema = schema_from_flags(TABLE, "y", **flags, from_data=True)
    assert {name: declared.kind for name, declared in schema.columns.items()} == {
        "age": Number(17, 90),
        "sex": Category(("F", "M")),
        "a=b": Number(1, 2),
        "gain": Amount(100_000),
    }
    assert list(schema.columns) == ["age", "sex", "a=b", "gain"]
    assert schema.classes == ("<=5", ">5")
    assert [leak.name for leak in schema.leaks()] == ["a=b"]
    undeclared = schema_from_flags(TABLE, "y", **flags).with_absent(["-999"])
    assert (undeclared.undeclared, undeclared.leaks()) == (("a=b",), ())
    assert all(declared.absent == ("-999",) for declared in undeclared.columns.values())
    with pytest.raises(ValueError, match="nothing is declared of column 'a=b'"):
        undeclared.encode(TABLE)
    complete = undeclared.completed({"a=b": Number(1, 2)})
    assert complete.columns["a=b"] == Declaration(Number(1, 2), missing=True, absent=("-999",))


def test_a_flag_means_the_longest_name_it_begins_with():
    table = parse_csv("a,a=b,y\n1,1,no\n2,2,yes\n", "a file")
    schema = schema_from_flags(table, "y", bounds=["a=b=0:9", "a=0:5"])
    assert [declared.kind for declared in schema.columns.values()] == [Number(0, 5), Number(0, 9)]


def test_flags_can_declare_everything():
    schema = schema_from_flags(
        TABLE,
        "y",
        bounds=["age=-1.5:90", "a=b=0:9"],
        ignore=["sex", "gain"],
        classes="<=5|>5",
        group="sex",
        groups="F|M",
    )
    assert schema.leaks() == ()
    assert schema.columns["sex"].kind == schema.columns["gain"].kind == Ignore()
    assert schema.groups == ("F", "M")
    assert len(schema_from_flags(TABLE, "y", ignore=["sex", "gain"], group="sex", from_data=True).leaks()) == 4


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"bounds": ["agee=1:2"]}, "'agee=1:2' must be COLUMN=LOW:HIGH with a column of the table. Did you mean 'age'"),
        ({"bounds": ["age"]}, "must be COLUMN=LOW:HIGH"),
        ({"bounds": ["age=1"]}, "'age=1' is not of the form COLUMN=LOW:HIGH: '' is not a number"),
        ({"bounds": ["age=9:1"]}, "low = 9 must be below high = 1"),
        ({"bounds": ["age=1:1e999"]}, "high = inf must be a finite number"),
        ({"amounts": ["gain=much"]}, "'much' is not a number"),
        ({"categories": ["sex=F|F"]}, "'F' more than once"),
        ({"categories": ["sex="]}, "stands for a missing value"),
        ({"bounds": ["age=1:2"], "ignore": ["age"]}, "column 'age' is declared twice"),
        ({"ignore": ["aeg"]}, "Did you mean 'age'"),
        ({"ignore": ["y"]}, "target = 'y' is also in columns"),
        ({"classes": "a"}, "must have at least two values"),
        ({"groups": "a|b"}, "groups are listed but group"),
    ],
)
def test_flags_that_are_wrong(flags, message):
    with pytest.raises(ValueError, match=message):
        schema_from_flags(TABLE, "y", **flags)


@pytest.mark.parametrize("name", ["id", "patient_id", "patientID", "Case-Id", "SSN"])
def test_an_identifier_is_known_by_its_name_and_never_becomes_a_number(name):
    table = parse_csv(f"{name},x,y\n1,1,no\n1,2,yes\n2,3,no\n", "a file")
    for schema in (draft(table, "y"), schema_from_flags(table, "y"), schema_from_flags(table, "y", from_data=True)):
        assert isinstance(schema.columns[name].kind, Ignore)
        assert any(f"column {name!r} is left out: an identifier" in remark for remark in schema.remarks(table))
    declared = schema_from_flags(table, "y", bounds=[f"{name}=0:9"])
    assert declared.columns[name].kind == Number(0, 9)


@pytest.mark.parametrize("name", ["paid", "grid", "identity", "width", "x"])
def test_other_names_are_no_identifiers(name):
    assert schema_from_flags(parse_csv(f"{name},y\n1,no\n1,yes\n", "a file"), "y").undeclared == (name,)
