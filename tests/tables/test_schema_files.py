"""Schemas as TOML: what a data steward writes is read, and what is wrong is said."""

import json
import tomllib

import pytest

from gossamer.base.leak import Leak
from gossamer.tables import (
    Amount,
    Category,
    Declaration,
    Hashed,
    Ignore,
    Number,
    Schema,
    Undeclared,
    read_schema,
    schema_files,
    schema_from_dict,
    schema_from_toml,
    schema_to_dict,
    schema_to_toml,
)

HEAD = 'target = "y"\nclasses = ["no", "yes"]\n'
SCHEMA = Schema(
    target="income",
    classes=("<=50K", ">50K"),
    columns={
        "age": Declaration(Number(17, 90), missing=True),
        "gain": Declaration(Amount(1e5), read_from_data=True),
        "code": Declaration(Category(("1", "2"))),
        'odd "name"\n\x7f\\ \U0001f600.x': Declaration(Ignore("a name")),
    },
    group="sex",
    groups=("F", "M"),
    groups_read_from_data=True,
)


def test_the_example_of_the_documentation():
    schema = schema_from_toml(schema_files.__doc__.partition("\n\n")[2].partition("\n\n`read_from_data")[0])
    assert schema == Schema(
        "income",
        ("<=50K", ">50K"),
        {
            "age": Declaration(Number(17, 90), missing=True),
            "gain": Declaration(Amount(100_000)),
            "sex": Declaration(Category(("Female", "Male"))),
            "town": Declaration(Hashed(), absent=("-9", "unknown")),
            "weight": Declaration(Undeclared()),
            "name": Declaration(Ignore()),
        },
        "sex",
        ("Female", "Male"),
        person="patient_id",
        id="visit_id",
    )


def test_round_trips_keep_everything_and_the_order():
    for again in (
        schema_from_toml(schema_to_toml(SCHEMA)),
        schema_from_dict(json.loads(json.dumps(schema_to_dict(SCHEMA)))),
        schema_from_dict(tomllib.loads(schema_to_toml(SCHEMA))),
    ):
        assert again == SCHEMA
        assert again.feature_names == SCHEMA.feature_names


def test_a_target_that_is_a_number_has_a_range():
    columns = {"x": Declaration(Number(0, 1))}
    schema = Schema("y", (), columns, target_range=(-1.5, 40), target_range_read_from_data=True)
    assert schema_from_toml(schema_to_toml(schema)) == schema
    assert schema.leaks() == (Leak("y", "range", "target"),)
    assert (schema.target_bound, schema.target_middle) == (20.75, 19.25)
    for target, message in {
        "target_range = [1, 2, 3]": "must be the lowest and the highest value",
        "target_range = [2, 1]": "target_range: low = 2 must be below high = 1",
        'target_range = ["a", "b"]': "target_range: low = 'a' must be a finite number",
        'target_range = [0, 1]\nclasses = ["a", "b"]': "a target has classes or is a number",
    }.items():
        with pytest.raises((ValueError, TypeError), match=message):
            schema_from_toml(f'target = "y"\n{target}\n[columns.x]\nkind = "number"\nlow = 0\nhigh = 1\n')


def test_deleting_the_line_confirms():
    text = schema_to_toml(SCHEMA)
    assert len(SCHEMA.leaks()) == 2
    lines = [line for line in text.splitlines() if "read_from_data = true" not in line or line.startswith("#")]
    assert schema_from_toml("\n".join(lines)).leaks() == ()
    assert "delete the line" in text


def test_what_cannot_be_seen_is_spelled_out():
    name = "safe\u202etxt\x9b\u200b\U000e0001ü\U0001f600"
    text = schema_to_toml(Schema("y", ("no", "yes"), {name: Declaration(Number(0, 1))}))
    assert r'[columns."safe\U0000202etxt\U0000009b\U0000200b\U000e0001ü😀"]' in text
    assert list(schema_from_toml(text).columns) == [name]


def test_numbers_may_be_codes():
    schema = schema_from_toml(HEAD + '[columns.code]\nkind = "category"\nvalues = [1, 2, "x"]')
    assert schema.columns["code"].kind == Category(("1", "2", "x"))


NUMBER = HEAD + '[columns.x]\nkind = "number"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("target = income", "is not TOML: .*line 1.*Texts need quotes"),
        ("a = " + "[" * 100_000, "nested too deeply"),
        ("a = " + "9" * 5000, "is not TOML"),
        ('target = "y"\n[columns.x]\nkind = "ignore"', "classes is missing. Add classes = "),
        (HEAD, "columns is missing"),
        (HEAD + "columns = 3", "columns = 3 must be parts"),
        (HEAD + 'tagret = "y"\n[columns]', "'tagret' is not known here. Did you mean 'target'"),
        (HEAD + "[columns]\nx = 3", "column 'x' = 3 must be a part of its own"),
        (
            HEAD + "[columns.x]",
            "kind = None must be one of 'number', 'amount', 'category', 'hashed', 'undeclared'",
        ),
        (HEAD + '[columns.x]\nkind = "numeric"', "kind = 'numeric' must be one of"),
        (HEAD + "[columns.x]\nkind = [1]", r"kind = \[1\] must be one of"),
        (NUMBER + "low = 1", "column 'x': high is missing"),
        (NUMBER + "low = 1\nhigh = 2\nlo = 1", "column 'x': 'lo' is not known here. Did you mean 'low'"),
        (NUMBER + "low = 2\nhigh = 2", "low = 2 must be below high = 2"),
        (NUMBER + "low = nan\nhigh = 2", "low = nan must be a finite number"),
        (NUMBER + "low = 1\nhigh = inf", "high = inf must be a finite number"),
        (NUMBER + "low = true\nhigh = 2", "low = True must be a finite number"),
        (NUMBER + 'low = "1"\nhigh = 2', "low = '1' must be a finite number"),
        (NUMBER + "low = 1979-05-27\nhigh = 2", "low = datetime.date.* must be a finite number"),
        (NUMBER + f"low = 0\nhigh = 1{'0' * 400}", "high = 10+... must be a finite number"),
        (NUMBER + f"low = 0\nhigh = 0x{'f' * 9000}", "high = a number of thousands of digits must be a finite number"),
        (NUMBER + "low = -1.7e308\nhigh = 1.7e308", "too far apart"),
        (NUMBER + "low = 1\nhigh = 2\nmissing = 1", "missing = 1 must be true or false"),
        (NUMBER + 'low = 1\nhigh = 2\nread_from_data = "no"', "read_from_data = 'no' must be true or false"),
        (HEAD + '[columns.x]\nkind = "amount"\nhigh = 0', "high = 0 must be above 0"),
        (HEAD + '[columns.x]\nkind = "category"\nvalues = "a|b"', "values = 'a|b' must be a list of texts"),
        (HEAD + '[columns.x]\nkind = "category"\nvalues = [true, false]', r"values = \[True, False\] must be a list"),
        (HEAD + '[columns.x]\nkind = "category"\nvalues = [1.5]', r"values = \[1.5\] must be a list"),
        (HEAD + '[columns.x]\nkind = "category"\nvalues = []', r"values = \[\] must name at least one"),
        (HEAD + '[columns.x]\nkind = "category"\nvalues = ["a", "a"]', "values has 'a' more than once"),
        (HEAD + '[columns.x]\nkind = "category"\nvalues = [1, "1"]', "values has '1' more than once"),
        (HEAD + '[columns.x]\nkind = "ignore"\nmissing = true', "'missing' is not known here"),
        (HEAD + '[columns."a\\n\x85\u2028"]\nkind = "odd"', r"column 'a\\n\\x85\\u2028': kind = 'odd'"),
        ('target = 3\nclasses = ["a", "b"]\n[columns]', "target = 3 must be a text in quotes"),
        (NUMBER.replace('"yes"', '"no"') + "low = 1\nhigh = 2", "a file: classes has 'no' more than once"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        schema_from_toml(text, "a file")
    assert str(caught.value).startswith("a file")
    assert len(str(caught.value).splitlines()) == 1


def test_files_that_are_no_schema(tmp_path):
    path = tmp_path / "schema.toml"
    with pytest.raises(FileNotFoundError, match="`gossamer schema TABLE` drafts"):
        read_schema(path)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_schema(tmp_path)
    path.write_bytes(b"target = \xff")
    with pytest.raises(ValueError, match="byte 9 does not fit"):
        read_schema(path)
    path.write_text(schema_to_toml(SCHEMA), encoding="utf-8-sig")
    assert read_schema(path) == SCHEMA
