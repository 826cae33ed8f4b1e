"""`gossamer verify`: four exit codes, and what stands behind them."""

import json
from pathlib import Path

import pytest
from testkit.documents import invoke
from testkit.pages import certificate

LEAK = {"name": "data_norm", "what": "the largest row norm", "where": "argument"}


def verify(path, *options, **changes):
    """Write a certificate with some fields changed, and verify it."""
    file = path / "certificate.json"
    file.write_text(json.dumps({**json.loads(certificate().to_json()), **changes}), encoding="utf-8")
    return invoke(["verify", str(file), *options])


def test_it_holds(tmp_path):
    code, printed, said = verify(tmp_path)
    assert (code, said) == (0, "")
    assert printed.startswith("holds: recomputed ε = ")


@pytest.mark.parametrize("changes", [{"epsilon": 0.5}, {"truncation_delta": 1e-9}, {"epsilon": 0.5, "leaks": [LEAK]}])
def test_it_is_false(changes, tmp_path):
    code, printed, said = verify(tmp_path, **changes)
    assert (code, said) == (1, "")
    assert printed.startswith("DOES NOT HOLD: ")
    assert "it states " in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.json"], "missing.json does not exist. Name a certificate.json"),
        ([__file__], "test_verify.py is no certificate, or a broken one"),
        ([str(Path(__file__).parent)], "certificate.json does not exist"),
        ([__file__, "--jsn"], "No such option"),
        ([], "Missing argument"),
    ],
)
def test_what_cannot_be_verified_is_neither(arguments, message):
    """The code of a mistake in other commands, 2, would say that a certificate holds."""
    code, printed, said = invoke(["verify", *arguments])
    assert (code, printed) == (3, "")
    assert said.startswith("gossamer: ") and said.count("\n") == 1
    assert message in said


def test_it_holds_but_assumptions_are_not_met_and_programs_get_what_is_only_stated(tmp_path):
    code, printed, _ = verify(tmp_path, leaks=[LEAK])
    assert code == 2
    assert printed.startswith("holds, but 1 of its assumptions is NOT MET: ")
    code, printed, _ = verify(tmp_path, "--json", leaks=[LEAK])
    content = json.loads(printed)
    assert code == 2
    assert content["holds"] and content["wrong"] == []
    assert content["recomputed_epsilon"] == pytest.approx(content["epsilon"], rel=0.01)
    assert content["leaks"] == [
        "NOT MET: data_norm, the largest row norm, was read from the records and is outside this guarantee."
    ]
    assert content["stated"]["unit"] == "row" and not content["stated"]["reproducible"]
