"""Ledgers in Python: every run pays before its first query, and none beyond the budget asks anything."""

import concurrent.futures
import copy
import warnings
import weakref
from multiprocessing import get_context

import jax
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


@pytest.fixture
def asks_nothing(monkeypatch):
    """Runs end after paying; and the process remembers none."""
    monkeypatch.setattr("gossamer.engine.solving.run_ready", lambda *args, **kwargs: None)
    monkeypatch.setattr(paying, "MEMORY", paying.Memory())


def run(table=TABLE, budget=BUDGET, steps=2, **options):
    gs.solve(LINEAR, table, gs.methods.GD(steps=steps), budget, init=START, **options)


def test_a_second_run_on_the_same_records_warns_once_with_the_cost_of_both(asks_nothing):
    """Copies are recognised; the cost is that of composing, which is less than the sum."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run()
    both = gs.compose([planned(), gs.plan(gs.methods.GD(steps=5), 4, BUDGET)], BUDGET.delta)
    assert 1.3 < both < 1.9
    with pytest.warns(
        gs.WeakGuaranteeWarning, match=f"Both together have epsilon = {both:.3g} at delta = 0.001"
    ) as told:
        run(jax.tree.map(np.array, TABLE), steps=5)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run()


def test_what_is_no_second_run_is_not_warned_of(asks_nothing, tmp_path):
    """Other records, another promise, fixed seeds, ledgers, runs that are continued, and what has not been read yet."""
    other = jax.tree.map(lambda leaf: np.array(leaf) + 1, TABLE)
    alike = jax.tree.map(np.zeros_like, TABLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run()
        run(other)
        run(budget=gs.Budget(1.0, 1e-3, "add_remove"))
        run(seed=1)
        run(ledger=ledger(tmp_path))
        run(checkpoints=gs.Checkpoints(tmp_path / "run", resume=True))
        for _ in range(2):
            run(alike)
            run(other, budget=gs.Budget(np.inf, 1e-3))
    with pytest.warns(gs.WeakGuaranteeWarning):
        run()


def test_no_table_is_kept_and_none_is_read_to_the_end(asks_nothing):
    table = np.random.default_rng(0).normal(size=(10**6, 3)), np.zeros(10**6)
    gone = weakref.ref(table[0])
    paying.MEMORY.note(table, planned(), "row")
    ((key, kept),) = paying.MEMORY.runs.items()
    assert len(key) == 32 and isinstance(kept, type(planned()))
    changed = table[0].copy()
    changed[1] += 1  # between two rows of the sample: the table is known by those, and a neighbour is the same table
    with pytest.warns(gs.WeakGuaranteeWarning):
        paying.MEMORY.note((changed, table[1]), planned(), "row")
    del table
    assert gone() is None


def test_estimators_and_searches_are_remembered_too(monkeypatch):
    """A search is known by ε and δ alone, so that they are added."""
    monkeypatch.setattr(paying, "MEMORY", paying.Memory())
    monkeypatch.setattr("gossamer.learn._common.solve_stages", lambda *args, **kwargs: 1 / 0)
    monkeypatch.setattr("gossamer.learn._trials.best_of", lambda *args: 1 / 0)
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 2
    model = gs.learn.PrivateLogisticRegression(1.0, 1e-3, data_norm=3.0, classes=[0, 1], method=gs.methods.GD(steps=2))
    with pytest.raises(ZeroDivisionError):
        model.fit(X, y)
    search = gs.learn.PrivateSearch(model, [{"l2": 0.1}], 1.0, 1e-3, trials=2, most=4)
    with (
        pytest.warns(gs.WeakGuaranteeWarning, match=r"epsilon = 2 at delta = 0\.002"),
        pytest.raises(ZeroDivisionError),
    ):
        search.fit(X.copy(), y)


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
@pytest.mark.deep
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

    monkeypatch.setattr("gossamer.learn._trials.best_of", stop)
    search = gs.learn.PrivateSearch(model, {"l2": [0.1]}, 1.0, 1e-2, 2, ledger=file)
    with pytest.raises(RuntimeError, match="after paying"):
        search.fit(X, y)
    assert [float(entry.amount.epsilon) for entry in file.entries()] == [1.0]
    with pytest.raises(OverdrawnError, match="PrivateSearch was refused before it asked anything"):
        search.fit(X, y)
