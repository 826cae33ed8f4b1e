"""The AUC experiment: its choices, its cache, and a small run from files to table."""

import dataclasses
import math

import pytest
from testkit.images import TRAIN, write_images

import gossamer as gs
from gossamer.experiments import Settings, auc, grid, pictures


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """Return a directory of small data files."""
    return write_images(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def out(data_dir, tmp_path_factory):
    """Run the quick version once."""
    out = tmp_path_factory.mktemp("out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pictures, "HELD_OUT", 100)
        auc.main(Settings(data_dir, out, quick=True))
    return out


@pytest.mark.deep
def test_a_quick_run_writes_all_that_a_full_one_does(out):
    header, *rows = (out / "table.csv").read_text(encoding="utf-8").splitlines()
    assert header.startswith("data,method,neighbors,ε,rate ×,AUC")
    assert [row.split(",")[1] for row in rows] == ["SGDA", "PrivateDiff"]
    assert (out / "auc.png").read_bytes().startswith(b"\x89PNG")
    for path in (out / "certificates").glob("*.json"):
        certificate = gs.Certificate.from_json(path.read_text(encoding="utf-8"))
        assert certificate.n == TRAIN
        assert certificate.verify()


@pytest.mark.deep
def test_the_learning_rate_is_chosen_on_held_out_images(out, data_dir, monkeypatch):
    """Of the three runs on held-out images the best decides; without them nothing can be chosen."""
    monkeypatch.setattr(pictures, "HELD_OUT", 100)
    runs = auc.Areas(Settings(data_dir, out))
    cell = grid.Cell(auc.VARIANTS[1], "SGDA", 1.0, "replace_one", 0)
    monkeypatch.setattr(runs, "run", lambda cell, factor, held_out=False: {"auc": -abs(factor - 2.0)})
    assert runs.factor(cell) == 2.0


@pytest.mark.deep
def test_finished_runs_are_not_repeated(out, data_dir, monkeypatch):
    before = (out / "table.md").read_text(encoding="utf-8")
    monkeypatch.setattr(pictures, "HELD_OUT", 100)
    monkeypatch.setattr(auc, "solve", lambda *_: pytest.fail("a run was repeated"))
    auc.main(Settings(data_dir, out, quick=True))
    assert (out / "table.md").read_text(encoding="utf-8") == before


@pytest.mark.deep
def test_a_run_with_other_settings_is_not_taken_from_the_cache(out, data_dir):
    """A changed learning rate, or another activation, must not be answered by the old score."""
    runs = auc.Areas(Settings(data_dir, out, quick=True))
    cell = grid.Cell(auc.VARIANTS[1], "SGDA", 1.0)
    other = dataclasses.replace(cell, task=dataclasses.replace(cell.task, activation="tanh"))

    def known(cell, factor):
        return runs.cache.get(runs.describe(cell, factor, held_out=False)) is not None

    assert known(cell, 1.0)
    assert not known(cell, 0.1)
    assert not known(other, 1.0)


def test_published_figures_are_complete():
    for variant in (*auc.VARIANTS, *auc.PLAIN):
        for figures in variant.published.values():
            assert len(figures) == len(auc.EPSILONS)
    assert tuple(auc.CHOICES) == auc.EPSILONS
    assert auc.EPSILONS[-1] == math.inf
