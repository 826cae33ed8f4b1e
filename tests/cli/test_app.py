"""The command line, as a person would call it."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import gossamer as gs
from gossamer.cli import app

RUN = CliRunner()


def test_fit_shows_accuracy_auc_and_the_certificate(tmp_path):
    path = tmp_path / "certificate.json"
    out = RUN.invoke(app, ["fit", "--epsilon", "2", "--seed", "0", "--certificate", str(path)])
    assert out.exit_code == 0, out.output
    for word in ("accuracy 0.", "AUC 0.", "(2, ", "noise multiplier", "holds: recomputed"):
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
        (["verify", "missing.json"], "missing.json"),
    ],
)
def test_a_mistake_is_one_line(arguments, message):
    command = [sys.executable, "-c", "from gossamer.cli import main; main()", *arguments]
    out = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.returncode == 2
    assert message in out.stderr
    assert out.stderr.count("\n") == 1
