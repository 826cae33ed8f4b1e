"""Processes that reach for the same budget file at the same moment."""

import contextlib
import multiprocessing
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from gossamer.privacy import budget_store, pools
from gossamer.privacy.budget import Budget
from gossamer.privacy.budget_file import BudgetFile, BudgetFileError, OverdrawnError

_PATIENCE = 120
"""Seconds until a racer that says nothing is taken for dead."""


class ReadsThenWrites(BudgetFile):
    """The control: it looks at what is left and takes it in two transactions, as if nobody else were there."""

    barrier = None

    def reserve(self, planned, data, what="", unit="row"):
        left, amount = self.remaining(), pools.pair(planned.epsilon, planned.delta)
        self.barrier.wait(30)
        if not left.covers(amount):
            raise OverdrawnError("nothing left")
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
            budget_store.add(connection, amount, what, "")


def _race(barrier, careless, requests, outcomes):
    kind = ReadsThenWrites if careless else BudgetFile
    ReadsThenWrites.barrier = barrier
    won = []
    for path, table in requests:
        file = kind(path)
        barrier.wait(30)
        try:
            file.reserve(Budget(1.0, 1e-7), table, "race")
            won.append(True)
        except OverdrawnError:
            won.append(False)
    outcomes.put(won)


def _migrate(barrier, path, outcomes):
    barrier.wait(30)
    BudgetFile(path).migrate()
    outcomes.put("done")


def _reserve(barrier, path, table, outcomes):
    barrier.wait(30)
    try:
        BudgetFile(path).reserve(Budget(0.6, 1e-6), table, "race")
        outcomes.put("done")
    except BudgetFileError as error:
        outcomes.put(str(error))


def migration_against_run(path: Path, table: Path) -> list[str]:
    """Return what a migration of a file, and a run that spends from it at the same moment, came to."""
    context = multiprocessing.get_context("spawn")
    barrier, outcomes = context.Barrier(2), [context.Queue(), context.Queue()]
    racers = [
        context.Process(target=_migrate, args=(barrier, path, outcomes[0]), daemon=True),
        context.Process(target=_reserve, args=(barrier, path, table, outcomes[1]), daemon=True),
    ]
    with _running(racers):
        return [outcome.get(timeout=_PATIENCE) for outcome in outcomes]


def wins(racers: int, files: list[Path], table: Path, careless: bool = False) -> list[int]:
    """Return, for each file, how many of the racers got what they asked for."""
    context = multiprocessing.get_context("spawn")
    barrier, outcomes = context.Barrier(racers), context.Queue()
    requests = [(path, table) for path in files]
    processes = [
        context.Process(target=_race, args=(barrier, careless, requests, outcomes), daemon=True) for _ in range(racers)
    ]
    with _running(processes):
        won = [outcomes.get(timeout=_PATIENCE) for _ in processes]
    return [sum(at) for at in zip(*won, strict=True)]


@contextlib.contextmanager
def _running(processes: list) -> Iterator[None]:
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.join(30)


def reaches(ledger: BudgetFile, planned) -> bool:
    """Return whether a ledger could pay for a plan, as a run in Python asks it to."""
    from gossamer.engine.paying import pay  # JAX comes with it: the other racers start without

    try:
        pay(ledger, planned, "race")
    except OverdrawnError:
        return False
    return True
