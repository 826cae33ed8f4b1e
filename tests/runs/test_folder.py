"""The folder of a run, whole and broken."""

import json
import shutil

import numpy as np
import pytest
from testkit.run_folders import finished_run

from gossamer.runs.folder import FILES, history_text, load, load_certificate


@pytest.fixture
def run(tmp_path):
    """Return a copy of a finished run, to be damaged."""
    return shutil.copytree(finished_run() / "run", tmp_path / "run")


def test_history_is_numbers_with_empty_cells_for_what_was_not_recorded():
    text = history_text({"gradient_norm": np.array([0.5, np.nan]), "dual": np.array([1e-9, 3.0], np.float64)})
    assert text == "step,gradient_norm,dual\n1,0.5,1e-09\n2,,3.0\n"


def test_a_finished_run_has_five_files_and_nothing_else(run):
    assert sorted(path.name for path in run.iterdir()) == sorted(FILES)
    loaded = load(run)
    assert loaded.schema.target == "ill"
    assert loaded.recipe.objective == "logistic"
    assert load_certificate(run).epsilon == 2.0
    pipeline = json.loads((run / "pipeline.json").read_text())
    assert pipeline["feature_names"] == ["age", "log(1 + bill)", "bill > 0", "ward = A", "ward = B"]


def change(name, value):
    """Return how to change one entry of a pipeline."""

    def changed(run):
        path = run / "pipeline.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))

    return changed


BROKEN = {
    "no certificate": (lambda run: (run / "certificate.json").unlink(), "is not a finished run"),
    "no JSON": (lambda run: (run / "pipeline.json").write_text("{"), "is not the description of a run"),
    "deep JSON": (lambda run: (run / "pipeline.json").write_text("[" * 100_000), "is not the description of a run"),
    "no text": (lambda run: (run / "pipeline.json").write_bytes(b"\xff\xfe"), "is not the description of a run"),
    "a later format": (change("format", 3), "a later version of Gossamer"),
    "no model": (change("model", None), "the description of a model has the fields"),
    "no schema": (change("schema", None), "is not the description of a run"),
    "no recipe": (change("recipe", {}), "a recipe has the fields"),
    "another schema": (
        change("schema", {"target": "x", "classes": ["a", "b"], "columns": {"age": {"kind": "amount", "high": 2}}}),
        "its schema is that of another model",
    ),
    "a large model": (lambda run: (run / "model.npz").write_bytes(b"0" * 10**6), "more than the"),
    "half a model": (lambda run: (run / "model.npz").write_bytes(b"PK"), "not the model of a run"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_run_is_refused_in_one_line(run, name):
    damage, message = BROKEN[name]
    damage(run)
    with pytest.raises(ValueError, match=message) as error:
        load(run)
    assert "\n" not in str(error.value)


def test_a_missing_model_is_named(run):
    (run / "model.npz").unlink()
    with pytest.raises(FileNotFoundError, match=r"model\.npz is missing.*Copy"):
        load(run)


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', "[" * 100_000])
def test_a_broken_certificate_is_refused(run, text):
    (run / "certificate.json").write_text(text)
    with pytest.raises(ValueError, match=r"certificate\.json is no certificate, or a broken one"):
        load_certificate(run)
