"""Ledgers in Python: every run pays before its first query, and none beyond the budget asks anything."""

import concurrent.futures
import copy
import warnings
from multiprocessing import get_context

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from testkit.racing import reaches
from testkit.tables import LINEAR, START, TABLE

import gossamer as gs
from gossamer.engine import paying
from gossamer.privacy.budget_file import OverdrawnError

BUDGET = gs.Budget(1.0, 1e-3)


def ledger(folder, epsilon=1.5, delta=1e-2, aside=None):
    """A file whose pools, by default, hold three runs of BUDGET: by ε alone there would be one."""
    (folder / "table.csv").write_text("age\n41\n")
    table = folder / "table.csv"
    return gs.BudgetFile.create(folder / "table.budget", epsilon, delta, "replace_one", table, aside=aside)


def planned(budget=BUDGET):
    return gs.plan(gs.methods.GD(steps=2), 4, budget)


def test_a_run_pays_before_its_first_query_and_the_last_one_is_refused(tmp_path, monkeypatch):
    file = ledger(tmp_path)
    asked = []

    def run(*args, **kwargs):
        asked.append(len(file.entries()))
        raise RuntimeError("after paying")

    monkeypatch.setattr("gossamer.engine.solving.run_ready", run)
    for paid in (1, 2, 3):
        with pytest.raises(RuntimeError, match="after paying"):
            gs.solve(LINEAR, TABLE, gs.methods.GD(steps=2), BUDGET, init=START, ledger=file)
        assert asked[-1] == paid
    with pytest.raises(OverdrawnError, match=r"GD was refused before it asked anything.*3 runs have been paid for"):
        gs.solve(LINEAR, TABLE, gs.methods.GD(steps=2), BUDGET, init=START, ledger=file)
    assert len(asked) == 3
    with pytest.raises(TypeError, match=r"must be a gs.BudgetFile"):
        gs.solve(LINEAR, TABLE, gs.methods.GD(steps=2), BUDGET, init=START, ledger=str(file.path))


def test_a_mistake_costs_nothing(tmp_path):
    file = ledger(tmp_path)
    with pytest.raises(ValueError, match="nothing to train"):
        gs.solve(LINEAR, TABLE, gs.methods.GD(steps=2), BUDGET, init=jnp.zeros(2, int), ledger=file)
    assert file.entries() == []


def test_a_run_that_is_continued_has_paid(tmp_path):
    file, checkpoints = ledger(tmp_path), gs.Checkpoints(tmp_path / "saved")
    paying.pay(file, planned(), "GD", checkpoints)
    again = gs.Checkpoints(tmp_path / "saved", resume=True)
    paying.pay(file, planned(), "GD", again)
    assert len(file.entries()) == 1


@pytest.mark.parametrize("pool", [concurrent.futures.ThreadPoolExecutor, concurrent.futures.ProcessPoolExecutor])
@pytest.mark.slow
def test_one_of_many_wins_the_last_epsilon(pool, tmp_path):
    """A hundred races: four copies of a ledger reach for what is enough for one of them."""
    spawned = {} if pool is concurrent.futures.ThreadPoolExecutor else {"mp_context": get_context("spawn")}
    with pool(4, **spawned) as racers:
        for race in range(100):
            (tmp_path / f"{race}").mkdir()
            file = ledger(tmp_path / f"{race}", epsilon=2.0, aside=(1.5, 2e-3))
            won = list(racers.map(reaches, [copy.deepcopy(file) for _ in range(4)], [BUDGET] * 4))
            assert sum(won) == 1


@pytest.mark.slow
def test_a_grid_search_overdraws_and_is_refused(tmp_path):
    """Two settings, three folds and the final fit cost seven times what one fit does; the file has room for six."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    file = ledger(tmp_path, epsilon=2.0, delta=0.1)
    model = gs.learn.PrivateLogisticRegression(
        1.0, 1e-2, data_norm=3.0, classes=[0, 1], method=gs.methods.GD(steps=2), random_state=0, ledger=file
    )
    assert clone(model).ledger.path == file.path
    search = GridSearchCV(model, {"l2": [0.0, 0.1]}, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(OverdrawnError, match=r"6 runs have been paid for.*Every fit pays.*grid search"):
            search.fit(X, y)
    assert len(file.entries()) == 6
    assert file.more_like_the_last() == 0


def test_a_search_pays_as_a_whole(tmp_path, monkeypatch):
    """What is inside of a search pays nothing, so that a ledger there is refused."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    file = ledger(tmp_path, epsilon=3.0, delta=0.1, aside=(1.5, 0.05))
    model = gs.learn.PrivateLogisticRegression(data_norm=3.0, classes=[0, 1], method=gs.methods.GD(steps=2))
    with pytest.raises(ValueError, match=r"PrivateSearch\(..., ledger=...\)"):
        gs.learn.PrivateSearch(clone(model).set_params(ledger=file), {"l2": [0.1]}, 1.0, 1e-2, 2).fit(X, y)
    assert file.entries() == []

    def stop(*args, **kwargs):
        raise RuntimeError("after paying")

    monkeypatch.setattr("gossamer.learn.search._best_of", stop)
    search = gs.learn.PrivateSearch(model, {"l2": [0.1]}, 1.0, 1e-2, 2, ledger=file)
    with pytest.raises(RuntimeError, match="after paying"):
        search.fit(X, y)
    assert [float(entry.amount.epsilon) for entry in file.entries()] == [1.0]
    with pytest.raises(OverdrawnError, match="PrivateSearch was refused before it asked anything"):
        search.fit(X, y)
