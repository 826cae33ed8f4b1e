"""docs/tuning.md prints what it says, and its table of affordable noise is what the benchmark computes."""

import importlib.util
import json

import pytest
from testkit.documents import ROOT, carry_out, run_command

from gossamer.privacy import negative_binomial

PAGE = (ROOT / "docs" / "tuning.md").read_text(encoding="utf-8")


def benchmark(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.deep
def test_the_page_prints_what_it_says():
    page = carry_out(PAGE, "docs/tuning.md", run_command)
    search = page["search"]
    assert search.best_params_ in search.settings_
    assert search.certificate_.selection.trials == 4


def test_an_entry_of_the_table_is_what_is_computed():
    assert f"{benchmark('selection').affordable(negative_binomial(10, 2, 100)):.3f}" == "0.671"
    assert "| eta = 2, at most 100 | 0.752 | 0.671 | 0.602 |" in PAGE


@pytest.mark.deep
def test_the_table_is_the_benchmarks():
    assert benchmark("selection").table() in PAGE


def test_what_was_measured_is_on_the_page():
    """Each line of the tables of what was measured is computed from the runs that are in the repository."""
    runs = ROOT / "docs" / "tuning" / "runs.jsonl"
    assert all(json.loads(line)["epsilon"] == 1.0 for line in runs.read_text(encoding="utf-8").splitlines())
    made = benchmark("search")
    assert f"{made.BEGIN}\n\n{made.measured(runs)}\n\n{made.END}" in PAGE


def test_what_was_measured_of_iterates_is_on_the_page():
    assert (ROOT / "docs" / "tuning" / "iterates.md").read_text(encoding="utf-8").strip() in PAGE
