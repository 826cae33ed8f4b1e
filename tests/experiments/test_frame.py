"""The frame of experiments: names, settings, and what is written."""

import csv
import subprocess
import sys
import types

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import gossamer as gs
from gossamer import experiments
from gossamer.cli import app
from gossamer.experiments import Settings, outputs
from gossamer.privacy.certificate import certify

RUN = CliRunner()


@pytest.fixture
def seen(monkeypatch):
    """Register an experiment that only remembers its settings."""
    remembered = []
    module = types.ModuleType("an_experiment")
    module.main = remembered.append
    monkeypatch.setitem(sys.modules, "an_experiment", module)
    monkeypatch.setitem(experiments.NAMES, "toy", "an_experiment")
    return remembered


def test_the_command_hands_its_options_to_the_experiment(seen, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = RUN.invoke(app, ["reproduce", "toy"])
    assert out.exit_code == 0, out.output
    assert "written to reproduce/toy" in out.output
    arguments = ["--data-dir", "d", "--out", "o/p", "--quick", "--seed", "7", "--data", "covertype"]
    RUN.invoke(app, ["reproduce", "toy", *arguments])
    default, chosen = seen
    assert (default.data_dir, str(default.out), default.quick, default.seed, default.data) == (
        None,
        "reproduce/toy",
        False,
        0,
        None,
    )
    assert (str(chosen.data_dir), str(chosen.out), chosen.quick, chosen.seed, chosen.data) == (
        "d",
        "o/p",
        True,
        7,
        "covertype",
    )
    assert (tmp_path / "reproduce" / "toy").is_dir()
    assert (tmp_path / "o" / "p").is_dir()
    assert default.command("toy") == "gossamer reproduce toy --seed 0"
    assert chosen.command("toy") == "gossamer reproduce toy --seed 7 --data covertype --quick"


def test_an_unknown_name_lists_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=f"'tod' is not an experiment.*{', '.join(experiments.NAMES)}"):
        experiments.run("tod", Settings(None, tmp_path / "out"))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_help_imports_no_experiment_and_no_figures():
    code = (
        "import sys; from gossamer.cli import app\n"
        "try: app(['reproduce', '--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith(('matplotlib', 'gossamer.experiments', 'gossamer.datasets'))])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert ", ".join(experiments.NAMES) in " ".join(out.replace("│", " ").split())
    assert out.splitlines()[-1] == "['gossamer.experiments.settings', 'gossamer.experiments']"


def test_a_table_is_written_to_read_and_to_compute_with(tmp_path):
    rows = [
        ["SVRG|BB", 0.5, np.float32(0.123456789), 199_523],
        ["GD", 1.0, jnp.float32(2e-7), np.int64(3)],
        ["SGD", None, 123456.7, float("nan")],
    ]
    stem = tmp_path / "table-0.5"
    outputs.write_table(stem, "A title", ["method", "ε", "gap", "n"], rows, "gossamer reproduce toy", ["A note."])
    assert (tmp_path / "table-0.5.md").read_text(encoding="utf-8") == (
        "# A title\n\n"
        "| method | ε | gap | n |\n"
        "| --- | ---: | ---: | ---: |\n"
        "| SVRG\\|BB | 0.5 | 0.1235 | 199523 |\n"
        "| GD | 1 | 2e-07 | 3 |\n"
        "| SGD |  | 123457 | nan |\n\n"
        "- A note.\n\n"
        "Made by `gossamer reproduce toy`.\n"
    )
    with (tmp_path / "table-0.5.csv").open(encoding="utf-8", newline="") as file:
        header, *cells = csv.reader(file)
    assert header == ["method", "ε", "gap", "n"]
    assert cells[0] == ["SVRG|BB", "0.5", "0.12345679", "199523"]
    assert cells[2] == ["SGD", "", "123456.7", "nan"]


def test_a_ragged_table_is_refused(tmp_path):
    with pytest.raises(ValueError, match="row 2 of 'A title' has 1 cells for 2 columns"):
        outputs.write_table(tmp_path / "t", "A title", ["a", "b"], [[1, 2], [3]], "command")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_figure_is_the_same_file_each_time(tmp_path):
    pytest.importorskip("matplotlib", reason="figures need gossamer[plots]")

    def draw(figure):
        figure.subplots().plot([1, 2], [3, 4])

    for name in ("a", "b"):
        outputs.save_figure(tmp_path / name, draw)
    content = (tmp_path / "a.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert content == (tmp_path / "b.png").read_bytes()


def test_without_matplotlib_a_figure_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install gossamer\[plots\]"):
        outputs.save_figure(tmp_path / "a", lambda figure: None)


def test_certificates_can_be_verified(tmp_path):
    plan = gs.plan(gs.methods.GD(steps=3), 1000, gs.Budget(1.0, 1e-5))
    certificate = certify(plan, gs.ERM(gs.objectives.logistic), seed=0, diagnostics=False)
    outputs.write_certificates(tmp_path / "certificates", {"GD-0.5": certificate})
    path = tmp_path / "certificates" / "GD-0.5.json"
    assert gs.Certificate.from_json(path.read_text(encoding="utf-8")) == certificate
    assert RUN.invoke(app, ["verify", str(path)]).exit_code == 0
