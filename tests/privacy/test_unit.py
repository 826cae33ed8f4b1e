"""The unit of privacy as a fact, and in words."""

import dataclasses
import json

import pytest

import gossamer as gs
from gossamer.privacy.certificate import certify
from gossamer.privacy.facts import Unit
from gossamer.privacy.planning import plan
from gossamer.report.page import render

PERSON = Unit("person", column="patient_id", ids="normalised", rows=10)


@pytest.fixture(scope="module")
def certificate():
    planned = plan(gs.methods.GD(steps=2), 500, gs.Budget(1.0, 1e-6))
    return certify(planned, gs.ERM(gs.objectives.logistic), None, diagnostics=False, unit=PERSON)


def test_a_certificate_says_who_is_protected_and_is_read_back(certificate):
    words = " ".join(certificate.assumptions)
    assert "all rows with the same id in column 'patient_id'" in words
    assert "at most 10 rows, the first in the table" in words
    assert "The number of persons n is public. The number of rows is not." in words
    assert "group privacy" not in words
    assert json.loads(certificate.to_json())["unit"] == {
        "name": "person",
        "column": "patient_id",
        "ids": "normalised",
        "rows": 10,
    }
    assert gs.Certificate.from_json(certificate.to_json()) == certificate


def test_ids_that_are_missing_are_told(certificate):
    apart = dataclasses.replace(certificate, unit=Unit("person", ids="normalised, missing ones apart", rows=3))
    assert "each row without an id counts as a person of its own" in " ".join(apart.assumptions)


@pytest.mark.parametrize(
    "unit",
    [
        {"name": "household"},
        {"name": "row", "rows": 3},
        {"name": "person"},
        {"name": "person", "ids": "as they are", "rows": 3},
        {"name": "person", "ids": "normalised", "rows": 0},
        {"name": "person", "ids": "normalised", "rows": True},
        {"name": "person", "ids": "normalised", "rows": 3, "column": 7},
    ],
)
def test_a_unit_that_is_made_up_is_refused(certificate, unit):
    content = {**json.loads(certificate.to_json()), "unit": unit}
    with pytest.raises(ValueError, match="not a certificate"):
        gs.Certificate.from_json(json.dumps(content))


def test_the_cap_is_no_part_of_whom_a_unit_protects():
    assert (
        dataclasses.replace(PERSON, rows=3).scope == PERSON.scope != dataclasses.replace(PERSON, column="doctor").scope
    )
    assert Unit("row").scope == "row"


def test_a_report_speaks_of_persons(certificate):
    shown = render(certificate, {}, {})
    assert "500 persons" in shown
    assert "A person with two ids in the table is protected less" in shown
    assert "A person with several rows" not in shown
