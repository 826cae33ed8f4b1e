"""The command line, as a person would call it."""

import json

import pytest
from testkit.documents import invoke
from testkit.run_folders import finished_run
from typer.testing import CliRunner

import gossamer as gs
from gossamer.cli import app

RUN = CliRunner()


@pytest.mark.slow
def test_fit_shows_accuracy_auc_and_the_certificate(tmp_path):
    path = tmp_path / "certificate.json"
    out = RUN.invoke(app, ["fit", "--epsilon", "2", "--seed", "0", "--certificate", str(path)])
    assert out.exit_code == 0, out.output
    for word in ("Accuracy", "AUC", "NOT private", "(2, ", "noise multiplier", "holds: recomputed"):
        assert word in out.output
    assert gs.Certificate.from_json(path.read_text()).epsilon == 2.0
    checked = RUN.invoke(app, ["verify", str(path)])
    assert checked.exit_code == 0
    content = json.loads(path.read_text())
    content["epsilon"] = 1.0
    path.write_text(json.dumps(content))
    refused = RUN.invoke(app, ["verify", str(path)])
    assert refused.exit_code == 1
    assert "DOES NOT HOLD" in refused.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plan", "--n", "100", "--method", "SGD"], "batch_size = 256 exceeds n = 100"),
        (["plan", "--n", "1000", "--epsilon", "-1"], "epsilon = -1.0 must be a number above 0"),
        (["report", "{table}"], "table.csv is not a finished run"),
        (["fit", "-", "--target", "ill", "--out", "run"], "is read from a file, not from standard input"),
        (["plan", "--n", "3"], "n = 3 must be at least 10"),
        (["budget", "show", "{table}/x"], "table.csv/x does not exist"),
        (["predict", "{table}/x", "{table}"], "x is not a finished run"),
        (
            ["schema", "{table}", "--target", "ill", "--out", "{table}/x"],
            "table.csv is a file where a folder is needed",
        ),
        (["fit", "--epsilon", "1,0", "--json"], "Invalid value for '--epsilon'"),
        (["fit", "--objective", "aucc"], "'aucc' is not one of 'logistic', 'network', 'linear', 'additive'"),
        (["fly"], "No such command 'fly'"),
        (["budget", "init", "--epsilon", "1", "--delta", "1e-6"], "Missing option '--data'"),
        (["budget", "init", "--epsilon", "1", "--delta", "1e-6", "--data", "no.csv"], "no.csv does not exist. Check"),
    ],
)
def test_a_mistake_is_one_line(arguments, message):
    table = finished_run() / "table.csv"
    code, printed, said = invoke([argument.format(table=table) for argument in arguments])
    assert (code, printed) == (2, "")
    assert said.startswith("gossamer: ")
    assert message in said
    assert said.count("\n") == 1


def test_help_is_no_mistake():
    code, printed, said = invoke(["budget", "--help"])
    assert (code, said) == (0, "")
    assert "init" in printed


def test_no_privacy_is_no_promise_that_holds(tmp_path):
    content = json.loads((finished_run() / "run" / "certificate.json").read_text())
    (tmp_path / "certificate.json").write_text(json.dumps({**content, "epsilon": "inf"}))
    code, printed, _ = invoke(["verify", str(tmp_path)])
    assert (code, printed) == (0, "NO PRIVACY is claimed: the certificate says ε = inf\n")
