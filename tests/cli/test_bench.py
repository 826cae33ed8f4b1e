"""`gossamer bench`, as a person would call it."""

import json

import pytest
from typer.testing import CliRunner

from gossamer.cli import app
from gossamer.engine import bench

RUN = CliRunner()


@pytest.mark.deep
def test_quick_measures_real_steps_and_both_prints_say_so(monkeypatch):
    out = RUN.invoke(app, ["bench", "--quick", "--json"])
    assert out.exit_code == 0, out.output
    content = json.loads(out.stdout)
    (step,) = content["steps"]
    assert step["model"] == "linear"
    assert 0 < content["draw"] < step["private"]  # a step draws a sample, and then does something with it
    assert step["plain"] > 0 and step["ratio"] > 0
    assert content["calibration"]["100 full passes"] > 0

    network = bench.Comparison("network", 7e-4, 2e-4, 3.5)
    measured = bench.Measured({"cores": 2}, [network], content["draw"], {"100 full passes": 0.25})
    monkeypatch.setattr(bench, "measure", lambda quick: measured)
    shown = RUN.invoke(app, ["bench"]).stdout
    for words in ("700.0", "200.0", "3.50", "0.25", "100 full passes"):
        assert words in shown


def test_competitors_take_turns_after_a_first_run():
    order = []
    runs = {name: lambda name=name: order.append(name) for name in "ab"}
    seconds = bench.in_turns(runs, rounds=3)
    assert order == ["a", "b"] * 4
    assert all(len(times) == 3 and min(times) >= 0 for times in seconds.values())
