"""Certificates and run folders that Gossamer 0.1 wrote still read, verify and report; nothing in them is lost."""

import json
import shutil
from pathlib import Path

import pytest
from testkit.pages import Page
from testkit.run_folders import gossamer

import gossamer as gs
from gossamer.base.leak import Leak
from gossamer.report import write_report
from gossamer.runs.folder import load, load_certificate

OLD = Path(__file__).parent / "format1"
EXPECTED = json.loads((OLD / "expected.json").read_text(encoding="utf-8"))
FULL = json.loads((OLD / "certificates" / "leaks.json").read_text(encoding="utf-8"))


def old(**changes):
    """Read an old certificate with leaks, with some fields changed."""
    return gs.Certificate.from_json(json.dumps({**FULL, **changes}))


@pytest.mark.slow(each=True)
@pytest.mark.parametrize("name", EXPECTED)
def test_an_old_certificate_says_what_it_said(name):
    text, expected = (OLD / "certificates" / f"{name}.json").read_text(encoding="utf-8"), EXPECTED[name]
    c, said = gs.Certificate.from_json(text), json.loads(text)
    for field in ("delta", "neighbors", "n", "method", "reproducible", "diagnostics"):
        assert getattr(c, field) == expected[field], field
    assert (c.epsilon, c.seed) == (float(expected["epsilon"]), said["seed"])
    assert [query.name for query in c.schedule] == expected["queries"]
    assert [bought.name for bought in c.purchases] == [query for query in expected["queries"] if "share" in query]
    assert len(c.assumptions) == len(said["assumptions"]) + bool(c.capacities), (
        "every sentence has its fact, or is kept"
    )
    assert any("2⁻³²" in sentence for sentence in c.assumptions) == bool(c.capacities), "which 0.1 did not tell"
    rewritten = set(said["assumptions"]) - set(c.assumptions)
    assert len(rewritten) == len(c.purchases) + 1, "theirs, and that about floating-point numbers"
    assert c.covers == "reals"
    outcome = c.verify()
    assert bool(outcome) == expected["holds"]
    assert outcome.epsilon == pytest.approx(float(expected["recomputed_epsilon"]), rel=1e-5)
    assert gs.Certificate.from_json(c.to_json()) == c, "it is written in the present format"


def test_a_false_one_stays_false():
    text = (OLD / "certificates" / "false.json").read_text(encoding="utf-8")
    assert not gs.Certificate.from_json(text).verify()


@pytest.mark.parametrize("run", ["auc", "leaking"])
def test_an_old_run_is_read_verified_and_reported(run, tmp_path):
    folder = tmp_path / run
    shutil.copytree(OLD / "runs" / run, folder)
    certificate = load_certificate(folder)
    assert load(folder).schema.target
    assert bool(certificate.leaks) == (run == "leaking")
    gossamer("verify", folder, code=2 if certificate.leaks else 0)
    page = Page(write_report(folder).read_text(encoding="utf-8"))
    assert all(sentence in page.pieces for sentence in certificate.assumptions)


@pytest.mark.parametrize(
    ("sentence", "leak"),
    [
        ("data_norm, the largest row norm, was read", Leak("data_norm", "the largest row norm", "argument")),
        ("the declaration of column 'a, (b)' (upper bound) was read", Leak("a, (b)", "upper bound", "column")),
        ('the declaration of column "it\'s" (range) was read', Leak("it's", "range", "column")),
        ("the list of classes of target 'ill' was read", Leak("ill", "list of classes", "target")),
        ("the list of groups of column 'sex' was read", Leak("sex", "list of groups", "group")),
    ],
)
def test_a_leak_has_its_parts_back(sentence, leak):
    sentence = f"NOT MET: {sentence} from the records and is outside this guarantee."
    c = old(assumptions=[sentence])
    assert c.leaks == (leak,)
    assert sentence in c.assumptions


@pytest.mark.parametrize(
    "sentence", ["NOT MET: the moon is full.", "NOT MET: the declaration of column [1] (range) was"]
)
def test_a_leak_in_other_words_stays_a_leak_in_these_words(sentence):
    c = old(assumptions=[sentence])
    assert len(c.leaks) == 1 and c.leaks[0].where == "noted"
    assert sentence in c.assumptions


def test_a_sentence_that_nobody_knows_is_kept():
    c = old(assumptions=["The loss is convex in the score for every target."])
    assert c.noted == ("The loss is convex in the score for every target.",)
    assert c.noted[0] in c.assumptions


def test_an_origin_of_randomness_that_nobody_knows_is_no_secret():
    c = old(seed="dice")
    assert c.reproducible
    assert "Randomness: dice" in c.assumptions


@pytest.mark.parametrize("change", [{"assumptions": "no list"}, {"assumptions": [1]}, {"seed": None}, {"unit": "row"}])
def test_an_old_certificate_of_another_shape_is_refused(change):
    with pytest.raises(ValueError, match="not a certificate"):
        old(**change)
