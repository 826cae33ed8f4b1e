"""What privacy costs, foretold by the noise energy: the curves are those of the committed cells, and are checked."""

import csv

import numpy as np
import pytest
from scipy.stats import spearmanr
from testkit.documents import ROOT

from gossamer.engine.forecast import CURVES, expected_loss
from gossamer.experiments import Settings, losses, sources, tables
from gossamer.experiments.table_pages import cells_of

PAGE = ROOT / "docs" / "forecast"
with (PAGE / "losses.csv").open(encoding="utf-8", newline="") as file:
    ROWS = [[*row[:4], *map(float, row[4:])] for row in list(csv.reader(file))[1:]]


@pytest.mark.parametrize("score", CURVES)
def test_the_curves_are_those_of_the_tables_of_development(score):
    assert losses.fitted(ROWS, score) == CURVES[score]


@pytest.mark.parametrize(("score", "of", "within"), [("AUC", 20, 15), ("R²", 10, 7)])
def test_the_other_tables_are_in_order_and_seldom_lose_more(score, of, within):
    """The control: energies that are dealt out at random order nothing, and are in the band less often."""
    role = "check"
    own = [row for row in ROWS if row[1:3] == [role, score]]
    assert {row[0] for row in own} <= set(sources.NAMES) - set(sources.DEVELOPMENT)
    places = losses.inside(ROWS, role, score, CURVES[score])
    assert (len(places), np.sum(places == 0), np.sum(places > 0)) == (of, within, 0)
    energies, costs = np.array([row[5:] for row in own]).T
    assert spearmanr(energies, costs).statistic > 0.8
    dealt = np.random.default_rng(0).permutation(energies)
    mixed = [[*row[:5], energy, row[6]] for row, energy in zip(own, dealt, strict=True)]
    assert np.sum(losses.inside(mixed, role, score, CURVES[score]) == 0) < within


def test_a_forecast_rises_with_the_energy_and_ends_at_a_model_that_knows_nothing():
    found = [expected_loss(energy, "AUC") for energy in np.geomspace(1e-9, 1e9, 30)]
    assert (np.diff([each.about for each in found]) >= 0).all()
    assert all(each.low <= each.about <= each.high <= 0.5 for each in found)
    assert found[-1].high == 0.5


def test_cells_are_made_of_runs(tmp_path):
    """Of a bundled table, which needs no download: the committed cells again."""
    runs = [run for run in tables.read_runs(ROOT / "docs" / "tables" / "runs.jsonl") if run["table"] == "diabetes"]
    made = losses.rows_of(cells_of(runs), None)
    assert [row[:5] for row in made] == [row[:5] for row in ROWS if row[0] == "diabetes"]
    np.testing.assert_allclose([row[5:] for row in made], [row[5:] for row in ROWS if row[0] == "diabetes"], rtol=1e-6)
    with pytest.raises(FileNotFoundError, match="gossamer reproduce tables --out"):
        losses.main(Settings(None, tmp_path / "forecast"))
