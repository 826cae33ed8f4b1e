"""`gossamer explain`: effects on the scale of the columns, from the folder of a run alone."""

import json

import numpy as np
import pytest
from testkit.run_folders import QUICK, finished_run, gossamer, write_inputs

from gossamer.cli.explain import _lines
from gossamer.runs.explaining import Effect, explain
from gossamer.runs.folder import load
from gossamer.tables import read_table


@pytest.fixture(scope="module")
def run():
    return finished_run() / "run"


def test_the_difference_of_two_values_is_that_of_two_rows(run, tmp_path):
    """Two rows that differ in one column have scores that differ by the difference of its effects."""
    loaded = load(run)
    effects = {each.column: each for each in explain(loaded)}
    assert set(effects) == {"age", "bill", "ward"}
    for column, (one, other) in {"age": ("0", "100"), "bill": ("0", "10000"), "ward": ("A", "B")}.items():
        cells = {"age": "50", "bill": "3", "ward": "A"}
        rows = [cells | {column: value} for value in (one, other)]
        (tmp_path / "two.csv").write_text("\n".join(["age,bill,ward", *(",".join(row.values()) for row in rows), ""]))
        scores = loaded.model.decision_function(loaded.schema.encode(read_table(tmp_path / "two.csv")))
        told = dict(zip(effects[column].values, effects[column].scores[:, 0], strict=True))
        assert told[other] - told[one] == pytest.approx(scores[1] - scores[0], abs=1e-5)
    assert effects["age"].scores.sum() == pytest.approx(0, abs=1e-6), "against the middle"
    assert effects["bill"].scores[0, 0] == 0
    assert effects["ward"].scores.sum() == pytest.approx(0, abs=1e-6), "against the mean"


@pytest.mark.slow
def test_the_command(run, tmp_path):
    shown = gossamer("explain", run, "--plot", tmp_path / "effects.png").stdout
    assert shown.startswith("How far each column moves the log-odds of '=yes', the one that matters most first:\n")
    first = shown.splitlines()[3].split()[0]
    content = json.loads(gossamer("explain", run, "--json").stdout)
    assert content["scores"] == ["=yes"]
    spans = {each["column"]: np.ptp(each["effects"]) for each in content["columns"]}
    assert first == max(spans, key=spans.get) == next(iter(spans))
    assert (tmp_path / "effects.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match=r"--plot .*effects\.pdf must be a file \.png"):
        gossamer("explain", run, "--plot", tmp_path / "effects.pdf")


def test_names_that_would_move_the_cursor_are_printed_harmlessly():
    shown = "\n".join(_lines("Title", [Effect("age\x1b[2J", ("missing", "missing"), np.zeros((2, 1)))], ["y\x07"]))
    assert "\x1b" not in shown and "\x07" not in shown
    assert shown.count("missing") == 2


@pytest.mark.slow
def test_a_network_is_refused(tmp_path):
    table, schema = write_inputs(tmp_path)
    gossamer("fit", table, "--schema", schema, "--hidden", "2", *QUICK, "--clip", "1", "--out", tmp_path / "run")
    with pytest.raises(ValueError, match="a network with hidden layers, in which columns act together"):
        gossamer("explain", tmp_path / "run")
