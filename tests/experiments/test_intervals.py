"""The study of coverage: its tables are what they claim to be, and the page is made of the runs."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from gossamer.experiments import Settings
from gossamer.experiments import intervals as study

DOCS = Path(__file__).parents[2] / "docs" / "intervals"


@pytest.mark.parametrize("columns", [3, 8])
@pytest.mark.parametrize("model", ["logistic", "linear"])
def test_bounds_hold_so_that_the_truth_is_what_is_covered(model, columns):
    cell = study.Cell(model, columns, 2000, 1)
    rows, targets, truth = study.drawn(cell, 0)
    estimator = study.model_of(cell, 0)
    assert np.linalg.norm(rows, axis=1).max() <= estimator.data_norm
    assert len(truth) == columns + 1
    if model == "logistic":
        assert set(targets) == {0, 1}
    elif columns == 3:
        assert np.abs(targets).max() <= estimator.target_bound
        fitted = LinearRegression().fit(rows, targets)
        # Errors have deviations of at most 1.5/√3, columns of at least .44: five standard errors.
        assert np.append(fitted.coef_, fitted.intercept_) == pytest.approx(truth, abs=5 * 0.87 / 0.44 / 2000**0.5)


def test_the_page_is_made_of_the_runs(tmp_path):
    study.write(Settings(None, tmp_path), study.CELLS, DOCS / "runs.jsonl")
    for name in ("intervals.md", "intervals.csv"):
        assert (tmp_path / name).read_text() == (DOCS / name).read_text()


def test_cells_without_intervals_are_shown(tmp_path):
    """A cell in which nothing was resolved has a row, and no coverage."""
    cell = study.Cell("logistic", 8, 3000, 25)
    line = '{"run": ["logistic", 8, 3000, 0, 0], "resolved": 0, "covered": 0, "without": 0, "width": []}\n'
    (tmp_path / "runs.jsonl").write_text(line)
    study.write(Settings(None, tmp_path), (cell,), tmp_path / "runs.jsonl")
    assert "logistic,8,3000,25,0,,,,," in (tmp_path / "intervals.csv").read_text()
