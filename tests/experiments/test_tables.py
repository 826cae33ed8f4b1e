"""The comparison on tables: its page is made of its runs, cut-off runs go on, and scores rise with ε."""

import json
import sys

import numpy as np
import pytest
from testkit.documents import ROOT

from gossamer.experiments import Settings, rivals, sources, table_pages, tables
from gossamer.experiments.sources import Columns, Task
from gossamer.tables.kinds import Amount, Category, Number

PAGE = ROOT / "docs" / "tables"
RUNS = tables.read_runs(PAGE / "runs.jsonl")


def toy(regression=False, n=400):
    """A small table of all kinds of columns."""
    rng = np.random.default_rng(0)
    number, place = rng.uniform(-2, 3, n), rng.integers(0, 3, n)
    amount = np.where(rng.random(n) < 0.5, 0.0, rng.lognormal(3, 1, n))
    signal = number + (place == 1) + 0.3 * np.log1p(amount)
    columns = Columns({"number": number, "place": np.array(["a", "b", "c"], object)[place], "amount": amount})
    kinds = {"number": Number(-2.0, 3.0), "place": Category(("a", "b", "c")), "amount": Amount(1000.0)}
    if regression:
        return Task("toy", columns, signal, kinds, (-2.0, 8.0))
    return Task("toy", columns, (signal > np.median(signal)).astype(int), kinds, [0, 1])


def test_the_page_is_made_of_its_runs(tmp_path):
    """Every table of the page, byte for byte, from the committed runs alone."""
    table_pages.write_pages(Settings(None, tmp_path), RUNS)
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {path.name for path in PAGE.iterdir()} - {"runs.jsonl", "decisions.jsonl"}
    for name in made:
        assert (tmp_path / name).read_text(encoding="utf-8") == (PAGE / name).read_text(encoding="utf-8"), name


def test_no_run_is_there_twice_and_every_cell_has_three_seeds():
    """Without privacy, and of the largest table without noise in its split, one run is all that there is."""
    keys = [tables._key(run) for run in RUNS]
    assert len(set(keys)) == len(keys)
    for (table, _, _, epsilon), runs in table_pages.cells_of(RUNS).items():
        own_split = table in ("adult", "census")
        assert len(runs) >= (1 if own_split and epsilon is None else tables.FEWEST), (table, epsilon)


def test_development_tables_are_named_on_the_page():
    text = (PAGE / "scores.md").read_text(encoding="utf-8")
    told = text[text.index("Rules of ours were settled") :].split(" No rule was settled on ")
    assert all(name in told[0] for name in sources.DEVELOPMENT)
    assert all(name in told[1] for name in set(sources.NAMES) - set(sources.DEVELOPMENT))


def test_who_is_ahead_is_counted():
    def run(method, relation, epsilon, auc):
        line = {"table": "german", "method": method, "relation": relation, "epsilon": epsilon, "seed": 0, "rows": 700}
        return {**line, "auc": auc}

    runs = [run("additive", "add_remove", e, 0.7) for e in (0.1, 0.5, 1.0)]
    runs += [run("DP-EBM", None, 0.1, 0.6), run("DP-EBM", None, 0.5, 0.71), run("DP-EBM", None, 4.0, 0.5)]
    rows, notes = table_pages.against_ebm(table_pages.cells_of(runs))
    assert rows == [["german", pytest.approx(0.1), pytest.approx(-0.01), None, None, None]]
    assert "ahead in 1 of 2 cells" in notes[1]


def test_rows_of_linear_models_keep_to_their_norm():
    task = toy()
    assert np.linalg.norm(task.rows(), axis=1).max() <= task.row_norm + 1e-6
    assert tables.coded(task)[:, 1].max() == 2


@pytest.mark.deep
def test_a_run_that_was_cut_off_goes_on(tmp_path, monkeypatch):
    """Runs that are in the file are not made again, and the others are."""
    monkeypatch.setattr(sources, "load", lambda name, data_dir: toy())
    made = []
    monkeypatch.setattr(tables, "ours", lambda task, cell: made.append(cell) or {"seconds": 0.0, "auc": 0.5})
    monkeypatch.setattr(tables, "without_privacy", tables.ours)
    for variable in tables.PYTHONS.values():
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(tables, "write_pages", lambda *_: None)
    tables.main(Settings(None, tmp_path, data="german"))
    lines = (tmp_path / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(made) == 2 * 2 * 5 * tables.MOST + 2 * tables.MOST
    (tmp_path / "runs.jsonl").write_text("\n".join(lines[:-7]) + "\n", encoding="utf-8")
    made.clear()
    tables.main(Settings(None, tmp_path, data="german"))
    assert len(made) == 7
    assert sorted((tmp_path / "runs.jsonl").read_text(encoding="utf-8").splitlines()) == sorted(lines)


@pytest.mark.parametrize("regression", [False, True])
def test_models_without_privacy_learn(regression):
    for method in table_pages.PLAIN:
        found = tables.without_privacy(toy(regression), tables.Cell("toy", method, None, None, 0))
        assert table_pages.measure(found) == ("r2" if regression else "auc")
        assert found[table_pages.measure(found)] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("method", table_pages.OURS)
def test_ours_learn_a_number_in_its_own_units(method):
    """The linear model is told the middle of the range, the additive one the range."""
    found = tables.ours(toy(regression=True), tables.Cell("toy", method, "add_remove", 8.0, 0))
    assert found["r2"] > 0.7


def test_another_package_is_asked_in_its_own_interpreter(monkeypatch):
    """Answers come back by ε; a package that fails is told with its own words."""
    monkeypatch.setenv("GOSSAMER_EBM_PYTHON", sys.executable)
    cells = [tables.Cell("toy", "DP-EBM", None, epsilon, 0) for epsilon in (1.0, 4.0)]
    with pytest.raises(RuntimeError, match=r"DP-EBM failed on toy: [\s\S]*No module named 'interpret'"):
        list(tables.of_a_rival(toy(), cells))


def test_a_job_is_answered_for_every_epsilon(tmp_path, monkeypatch):
    public = json.dumps({"epsilons": [0.5, 2.0]})
    np.savez(tmp_path / "job.npz", y=np.arange(3), public=np.array(public))
    monkeypatch.setitem(rivals.RIVALS, "toy", lambda job, public, epsilon: (epsilon * job["y"], job["y"]))
    rivals.main("toy", str(tmp_path / "job.npz"), str(tmp_path / "answer.npz"))
    with np.load(tmp_path / "answer.npz") as answer:
        np.testing.assert_array_equal(answer["scores1"], [0, 2, 4])
        assert set(answer) == {f"{name}{place}" for name in ("scores", "labels", "seconds") for place in (0, 1)}


def rises(scores):
    """Whether scores, by seed (rows) and ε (columns), rise: clearly from first to last, and nowhere clearly fall.

    Seeds share their splits, so differences are paired. A fall of three standard errors is clear; so is a rise of two.
    """
    steps = np.diff(scores, axis=1)
    whole = scores[:, -1] - scores[:, 0]

    def error(differences):
        return differences.std(axis=0, ddof=1) / np.sqrt(len(differences)) + 1e-4

    return bool(whole.mean() > 2 * error(whole) and (steps.mean(axis=0) > -3 * error(steps)).all())


def test_committed_scores_rise_with_epsilon():
    """On every table, for our additive model under both relations. A model that is flat is not said to rise."""
    found = table_pages.cells_of(RUNS)
    for table, method, relation in dict.fromkeys(cell[:3] for cell in found if cell[1] == "additive"):
        of = [found.get((table, method, relation, epsilon), []) for epsilon in table_pages.EPSILONS]
        if sum(map(bool, of)) < 3:
            continue  # census, so far
        by_seed = [{run["seed"]: run[table_pages.measure(run)] for run in runs} for runs in of if runs]
        seeds = set.intersection(*map(set, by_seed))
        scores = np.array([[each[seed] for each in by_seed] for seed in sorted(seeds)])
        assert rises(scores), (table, relation)
        flat = scores[:, :1] + (scores[:, ::-1] - scores[:, ::-1].mean(axis=0)) * 0.1
        assert not rises(flat), (table, relation)


@pytest.mark.deep
@pytest.mark.parametrize("table", ["breast cancer", "diabetes", "digits"])
def test_scores_rise_with_epsilon_but_not_by_a_flat_rule(table):
    """Five seeds at three ε. The control trains as for the smallest ε, whatever it may spend."""
    task = sources.load(table)

    def scores(epsilons):
        cells = [[tables.Cell(table, "additive", "replace_one", e, seed) for e in epsilons] for seed in range(5)]
        return np.array([[tables._main(tables.ours(task, cell)) for cell in row] for row in cells])

    honest = scores((0.1, 1.0, 8.0))
    assert rises(honest)
    assert not rises(np.column_stack([honest[:, 0], scores((0.1,))[:, 0], honest[:, 0]]))
