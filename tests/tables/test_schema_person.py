"""The person column of a schema: never a feature, read by one rule, and never missing."""

import pytest

from gossamer.learn._objectives import OBJECTIVES
from gossamer.runs.declaring import declare
from gossamer.tables import parse_csv
from gossamer.tables.flags import schema_from_flags
from gossamer.tables.schema_files import schema_from_dict, schema_from_toml, schema_to_dict, schema_to_toml

PLAIN = {
    "target": "ill",
    "classes": ["no", "yes"],
    "person": "patient",
    "rows_per_person": 3,
    "columns": {"age": {"kind": "number", "low": 0, "high": 110}},
}
TABLE = "patient,age,ill\n7,41,no\n 7.0,42,yes\n8,60,no\n"


def table(text=TABLE):
    return parse_csv(text, "visits.csv")


def test_a_schema_with_persons_is_written_and_read():
    schema = schema_from_dict(PLAIN)
    assert (schema.person, schema.rows_per_person) == ("patient", 3)
    assert schema_from_dict(schema_to_dict(schema)) == schema == schema_from_toml(schema_to_toml(schema))
    rows = schema_from_dict({name: value for name, value in PLAIN.items() if "person" not in name})
    assert "person" not in schema_to_toml(rows)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"person": "ill"}, "also the target or the group"),
        ({"person": "age"}, "also in columns"),
        ({"person": 7}, "must be a text in quotes"),
        ({"rows_per_person": 0}, "a whole number of at least 1"),
        ({"rows_per_person": True}, "a whole number of at least 1"),
        ({"rows_per_person": "ten"}, "a whole number of at least 1"),
    ],
)
def test_a_person_that_makes_no_sense_is_refused(change, words):
    with pytest.raises((TypeError, ValueError), match=words):
        schema_from_dict({**PLAIN, **change})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"id": "ill"}, "id = 'ill' is also the target or the group"),
        ({"id": "age"}, "id = 'age' is also in columns"),
        ({"id": 7}, "must be a text in quotes"),
    ],
)
def test_an_id_that_makes_no_sense_is_refused(change, words):
    with pytest.raises((TypeError, ValueError), match=words):
        schema_from_dict({**PLAIN, **change})


def test_the_id_column_is_no_feature_and_is_not_remarked_on():
    options = {"target": "ill", "classes": "no|yes", "bounds": ["age=0:110"]}
    schema = declare(table(), OBJECTIVES["logistic"], id="patient", **options)
    assert (schema.id, list(schema.features), schema.undeclared) == ("patient", ["age"], ())
    assert not any("patient" in remark for remark in schema.remarks(table()))
    assert schema_from_dict(schema_to_dict(schema)) == schema
    assert schema.ids_of(table()) == ["7", "7.0", "8"]
    # With whose row it is, it may be the same column; undeclared, it would be bought as a feature.
    assert schema_from_dict({**PLAIN, "id": "patient"}).id == "patient"
    with pytest.raises(ValueError, match=r"must be COLUMN with a column of the table\. Did you mean 'patient'"):
        declare(table(), OBJECTIVES["logistic"], id="pateint", **options)


def test_the_person_column_is_no_feature_and_is_not_remarked_on():
    schema = schema_from_flags(table(), "ill", person="patient", classes="no|yes", bounds=["age=0:110"])
    assert schema.feature_names == ("age", "age is missing")
    assert not schema.leaks()
    assert not any("patient" in remark for remark in schema.remarks(table()))
    ids = schema.person_of(table())
    assert (ids.name, list(ids)) == ("patient", ["7", "7.0", "8"])


def test_a_row_without_an_id_is_refused_with_its_line():
    with pytest.raises(ValueError, match=r"line 3.*no id in the person column 'patient'"):
        schema_from_dict(PLAIN).person_of(table("patient,age,ill\n7,41,no\nNA,42,yes\n"))
