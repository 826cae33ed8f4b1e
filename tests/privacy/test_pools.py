"""Budget files with pools: how many runs fit, what is charged, and how files of format 1 become ones of format 2."""

import contextlib
import dataclasses
import sqlite3
from decimal import Decimal

import numpy as np
import pytest
from testkit import racing
from testkit.selecting import gaussian

import gossamer as gs
from gossamer.privacy import accounting, budget_store, pools
from gossamer.privacy.budget_file import BudgetFile, BudgetFileError, OverdrawnError
from gossamer.privacy.facts import scope_of
from gossamer.privacy.perturbed import PerturbedObjective
from gossamer.privacy.pools import Amount


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("age\n41\n")
    return path


def grant(table, epsilon=1.0, delta=1e-5, neighbors="replace_one", **options):
    return BudgetFile.create(table.with_name("budget"), epsilon, delta, neighbors, table, **options)


def planned(epsilon=0.3, delta=1e-6, neighbors="replace_one", method=None):
    method = gs.methods.GD(steps=20) if method is None else method
    return gs.plan(method, 5000, gs.Budget(epsilon, delta, neighbors))


@pytest.mark.parametrize(
    ("whole", "run", "sums", "fit"),
    [
        ((1.0, 1e-5), (0.1, 1e-7), 10, 121),
        ((1.0, 1e-5), (0.3, 1e-6), 3, 12),
        ((1.0, 1e-5), (1.0, 1e-6), 1, 1),
        ((3.0, 1e-5), (0.1, 1e-7), 30, 878),
        ((3.0, 1e-5), (0.3, 1e-6), 10, 86),
        ((3.0, 1e-5), (1.0, 1e-6), 3, 9),
    ],
)
def test_how_many_runs_fit(table, whole, run, sums, fit):
    file = grant(table, *whole)
    file.reserve(planned(*run), table)
    assert 1 + file.more_like_the_last() == fit
    assert min(int(Decimal(str(a)) / Decimal(str(b))) for a, b in zip(whole, run, strict=True)) == sums


def test_as_many_fit_as_it_says_and_no_more(table):
    file = grant(table)
    file.reserve(planned(), table)
    for _ in range(file.more_like_the_last()):
        file.reserve(planned(), table)
    with pytest.raises(OverdrawnError, match=r"mu\^2 = .* is more than .*asked enough"):
        file.reserve(planned(), table)
    assert len(file.entries()) == 12
    assert all(value >= 0 for value in file.remaining())
    assert file.spent_epsilon() <= 1.0


def test_the_pools_keep_the_promise():
    for epsilon, delta, aside in [(1.0, 1e-5, Amount()), (3.0, 1e-6, pools.pair(0.5, 2e-7))]:
        made = pools.divide(gs.Budget(epsilon, delta), aside)
        left = epsilon - float(aside.epsilon)
        total = made.delta + made.tail + made.cut + Decimal(float(gaussian(float(made.variance) ** 0.5)(left)))
        assert Decimal("0.99") * Decimal(str(delta)) < total <= Decimal(str(delta))
    whole = pools.pair(1.0, 1e-5)
    assert pools.divide(gs.Budget(1.0, 1e-5), whole) == whole
    with pytest.raises(ValueError, match=r"set aside .* is more than"):
        pools.divide(gs.Budget(1.0, 1e-5), pools.pair(1.1, 1e-6))


def test_samples_that_are_cut_are_charged_at_the_epsilon_of_the_whole(table):
    file = grant(table, 3.0)
    plan = planned(0.3, method=gs.methods.SGD(steps=20, batch_size=200))
    taken = file.reserve(plan, table).amount
    by_the_run = plan.truncation_delta
    assert float(taken.cut) == pytest.approx(by_the_run * (1 + np.exp(3.0)) / (1 + np.exp(0.3)), rel=1e-6)
    assert taken.cut > Decimal(by_the_run) * 8


def test_a_charge_is_rounded_up_and_found_from_the_schedule_alone():
    plan = planned()
    made = pools.divide(gs.Budget(1.0, 1e-5), Amount())
    whole = gs.Budget(1.0, 1e-5)
    taken = pools.charge(plan, whole, made)
    mu = accounting.gaussian_mu(accounting.costs_of(plan.schedule), "replace_one")
    assert mu**2 < float(taken.variance) < 1.001 * mu**2
    boast = dataclasses.replace(plan, budget=gs.Budget(0.001, 1e-6))
    assert pools.charge(boast, whole, made).variance == pytest.approx(taken.variance, rel=Decimal("1e-3"))


def test_perturbed_objectives_and_strangers_take_from_what_was_set_aside(table):
    file = grant(table, 3.0, aside=(1.0, 2e-6))
    query = gs.Query("minimiser", 1, PerturbedObjective(0.01))

    class Minimiser:
        def schedule(self, n):
            return gs.Schedule((query,))

    plan = gs.plan(Minimiser(), 5000, gs.Budget(0.5, 1e-6))
    for asked in (plan, gs.Budget(0.4, 5e-7)):
        file.reserve(asked, table)
    assert file.remaining()[:2] == (Decimal("0.1"), Decimal("5e-7"))
    assert file.remaining().variance == file.grant().pools.variance
    with pytest.raises(OverdrawnError, match="set aside for it"):
        file.reserve(plan, table)
    file.reserve(planned(), table)


def test_another_unit_or_relation_or_an_infinite_cost_is_refused(table):
    file = grant(table, unit="person")
    with pytest.raises(BudgetFileError, match=r"unit = 'row', but .* Use 'person'"):
        file.reserve(planned(), table)
    with pytest.raises(BudgetFileError, match="neighbors = 'add_remove'"):
        file.reserve(planned(neighbors="add_remove"), table, unit="person")
    with pytest.raises(ValueError, match="no budget: a run without privacy"):
        file.reserve(gs.plan(gs.methods.GD(steps=2), 100, gs.Budget(float("inf"), 1e-6)), table, unit="person")
    with pytest.raises(TypeError, match=r"planned = 0\.3 must be"):
        file.reserve(0.3, table)
    assert file.entries() == []
    file.reserve(planned(), table, unit="person")


FORMAT_1 = """
CREATE TABLE budget (epsilon TEXT NOT NULL, delta TEXT NOT NULL, neighbors TEXT NOT NULL, data TEXT NOT NULL,
                     time TEXT NOT NULL);
CREATE TABLE reservation (id INTEGER PRIMARY KEY AUTOINCREMENT, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
                          what TEXT NOT NULL, time TEXT NOT NULL);
CREATE TRIGGER kept BEFORE DELETE ON reservation BEGIN SELECT RAISE(ABORT, 'nothing is given back'); END;
CREATE TRIGGER fixed BEFORE UPDATE ON reservation BEGIN SELECT RAISE(ABORT, 'nothing is given back'); END;
"""


@pytest.fixture
def old(table):
    """Return a file as Gossamer 0.1 made it, with one run."""
    from gossamer.privacy.budget_file import fingerprint

    path = table.with_name("old.budget")
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(f"PRAGMA application_id = {0x676F7373}; PRAGMA user_version = 1; {FORMAT_1}")
        row = ("1.0", "1e-05", "replace_one", fingerprint(table), "2025-01-01")
        connection.execute("INSERT INTO budget VALUES (?, ?, ?, ?, ?)", row)
        connection.execute("INSERT INTO reservation (epsilon, delta, what, time) VALUES ('0.2', '1e-06', 'fit', '')")
    return BudgetFile(path)


def test_a_file_of_format_1_goes_on_adding_up(old, table):
    entry = old.reserve(planned(0.3, 1e-6), table)
    assert entry.amount == pools.pair(0.3, 1e-6)
    assert old.entries()[1] == entry
    assert old.remaining()[:2] == (Decimal("0.5"), Decimal("8E-6"))
    assert old.more_like_the_last() == 1
    assert old.grant().unit == "row"
    with pytest.raises(BudgetFileError, match="is a budget for unit = 'row'"):
        old.reserve(planned(0.1, 1e-6), table, unit=scope_of("patient_id"))
    with pytest.raises(OverdrawnError):
        old.reserve(planned(0.6, 1e-6), table)


def test_migration_keeps_what_was_spent_and_makes_room(old, table):
    before = old.entries()
    old.migrate()
    assert [entry.amount for entry in old.entries()] == [entry.amount for entry in before]
    made = old.grant().pools
    assert made[:2] == (Decimal("0.2"), Decimal("1E-6"))
    assert old.remaining()[:2] == (0, 0)
    assert made.variance == pools.divide(gs.Budget(0.8, 9e-6), Amount()).variance
    old.reserve(planned(0.1, 1e-7), table)
    assert 1 + old.more_like_the_last() == pytest.approx(80, abs=5)  # sums would take 8
    with pytest.raises(BudgetFileError, match="has format 2 already"):
        old.migrate()
    with (
        contextlib.closing(sqlite3.connect(old.path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="pools do not move"),
    ):
        connection.execute("UPDATE budget SET variance = '100'")


def test_a_migration_that_fails_changes_nothing(old, table, monkeypatch):
    before = old.path.read_bytes()
    monkeypatch.setattr(budget_store, "TABLES", (*budget_store.TABLES, "CREATE nonsense"))
    with pytest.raises(BudgetFileError):
        old.migrate()
    assert old.entries()[0].what == "fit"
    monkeypatch.undo()
    assert old.path.read_bytes() == before
    old.reserve(planned(0.3, 1e-6), table)


def test_a_run_that_was_priced_before_a_migration_is_refused(old, table, monkeypatch):
    """Between pricing and reserving somebody migrates: the price is for other pools."""
    from gossamer.privacy import budget_file

    price = budget_file._price

    def slow(*arguments):
        priced = price(*arguments)
        old.migrate()
        return priced

    monkeypatch.setattr(budget_file, "_price", slow)
    with pytest.raises(BudgetFileError, match="migrated a moment ago"):
        old.reserve(planned(), table)
    assert len(old.entries()) == 1


@pytest.mark.slow
def test_a_migration_and_a_run_race_and_nothing_is_lost_or_overdrawn(old, table):
    migrated, reserved = racing.migration_against_run(old.path, table)
    assert migrated == "done"
    assert len(old.entries()) == 1 + (reserved == "done")
    assert all(value >= 0 for value in old.remaining())


def test_a_full_disk_loses_nothing(table, monkeypatch):
    file = grant(table)
    file.reserve(planned(), table)
    with contextlib.closing(sqlite3.connect(file.path)) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connect = budget_store._connect

    def full(path):
        connection = connect(path)
        connection.execute(f"PRAGMA max_page_count = {pages}")
        return connection

    monkeypatch.setattr(budget_store, "_connect", full)
    with pytest.raises(BudgetFileError, match="full"):
        for _ in range(100):
            file.reserve(planned(0.02, 1e-8), table, "x" * 3000)
    monkeypatch.undo()
    entries = len(file.entries())
    assert file.remaining() == file.grant().pools.minus(entry.amount for entry in file.entries())
    file.reserve(planned(0.02, 1e-8), table)
    assert len(file.entries()) == entries + 1
