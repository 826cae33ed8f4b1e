"""From the files of a run to its report, and what broken files get."""

import json
import subprocess
import sys

import pytest
import typer
from testkit.pages import Page, certificate
from typer.testing import CliRunner

from gossamer.cli.report import report
from gossamer.report import write_report


@pytest.fixture
def run(tmp_path):
    (tmp_path / "certificate.json").write_text(certificate().to_json(), encoding="utf-8")
    (tmp_path / "history.csv").write_text("step,gradient_norm\n1,0.5\n2,\n3,nan\n4,0.25\n", encoding="utf-8")
    (tmp_path / "pipeline.json").write_text(json.dumps({"format": 1, "objective": "auc"}), encoding="utf-8")
    return tmp_path


def test_the_report_is_made_from_three_files_and_is_always_the_same(run):
    first = write_report(run).read_bytes()
    page = Page(first.decode("utf-8"))
    assert any("Classifier for the AUC" in piece for piece in page.pieces)
    assert (
        "over 4 steps: 0.5 at first, 0.25 at last, between 0.25 and 0.5. Gaps in the line: 2 not recorded" in page.text
    )
    assert write_report(run).read_bytes() == first


def test_the_command(run):
    app = typer.Typer()
    app.command()(report)
    out = CliRunner().invoke(app, [str(run), "--json"])
    assert json.loads(out.output) == {"report": str(run / "report.html")}
    assert "written to" in CliRunner().invoke(app, [str(run)]).output


@pytest.mark.parametrize("name", ["certificate.json", "history.csv", "pipeline.json"])
def test_a_file_that_is_missing_or_no_text_is_named(run, name):
    (run / name).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=rf"{name} is not text in UTF-8"):
        write_report(run)
    (run / name).unlink()
    with pytest.raises(FileNotFoundError, match=rf"{name} is missing"):
        write_report(run)
    assert not (run / "report.html").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": -1}, "epsilon = -1.0 must be a number above 0"),
        ({"epsilon": None}, "epsilon must be a number"),
        ({"delta": "small"}, "delta = 'small'"),
        ({"neighbors": "cousins"}, "neighbors = 'cousins'"),
        ({"n": "many"}, "n must be of type int"),
        ({"n": 0}, "n and the capacities"),
        ({"n": 10**30}, "a number is too large"),
        ({"capacities": {"gradient": "1"}}, "n and the capacities"),
        ({"configuration": []}, "configuration must be of type dict"),
        ({"trusted": [1]}, "trusted, noted, versions, and names"),
        ({"truncation_delta": None}, "truncation_delta and the noise multipliers"),
        ({"schedule": [{"name": "gradient", "count": 1}]}, "truncation_delta and the noise multipliers"),
        ({"schedule": [{"surprise": 1}]}, "surprise"),
        ({"schedule": 7}, "certificate.json is broken"),
        ({"extra": 1}, "fields differ"),
        ({"format": 99}, "format 1 or 2"),
    ],
)
def test_a_certificate_that_is_none(run, change, message):
    content = json.loads((run / "certificate.json").read_text(encoding="utf-8"))
    (run / "certificate.json").write_text(json.dumps({**content, **change}), encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        write_report(run)
    assert "certificate.json" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("history.csv", "a,a\n1,2\n", "two columns have the same name"),
        ("history.csv", "a,b\n1,2\n3\n", "line 3 has 1 cells"),
        ("history.csv", "a\n=1+1\n", "could not convert"),
        ("history.csv", "a\n" + "1" * 200_000 + "\n", "field larger than"),
        ("pipeline.json", "[1]", "one JSON object"),
        ("pipeline.json", "{", "pipeline.json is broken"),
        ("pipeline.json", "[" * 100_000, "pipeline.json is broken"),
        ("certificate.json", "{}", "not a certificate"),
    ],
)
def test_broken_files(run, name, text, message):
    (run / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        write_report(run)


def test_an_empty_history_is_none(run):
    (run / "history.csv").write_text("", encoding="utf-8")
    assert "recorded no values" in write_report(run).read_text(encoding="utf-8")


@pytest.mark.slow
def test_no_jax_is_needed(run):
    code = "import sys; from gossamer.report import *; write_report(sys.argv[1]); sys.exit('jax' in sys.modules)"
    subprocess.run([sys.executable, "-c", code, str(run)], check=True)
