"""What a table may still cost: a file that every run reserves its ε and δ from before it touches a record.

*Privacy.* If every run on a table reserves its (ε_j, δ_j) here first, all that is ever published about the table is
(ε, δ)-differentially private together, ε and δ those that the file was made with: even if each run, its budget
included, is chosen after looking at the results of those before (Rogers, Roth, Ullman and Vadhan, *Privacy odometers
and filters*, 2016). The proof is an induction over the runs that are still to come. Let P and Q be the laws under two
neighbouring tables, y the output of the next run, which costs (ε₁, δ₁), and S a set of outcomes. Whatever y is, the
runs after it may cost (ε − ε₁, δ − δ₁) at most, so P(S | y) ≤ f(y) + δ − δ₁ with f(y) = min(1, e^(ε−ε₁) Q(S | y)). As f
is between 0 and 1, P(S) ≤ E_P f + δ − δ₁ ≤ e^ε₁ E_Q f + δ₁ + δ − δ₁ ≤ e^ε Q(S) + δ. Runs may overlap in time: a run
takes no input after its start, so its output may be thought of as drawn then and uncovered bit by bit. Sums are not the
least bound: accounting for all runs as one schedule would be tighter, but needs the runs fixed in advance.

What is reserved is spent. It is written durably before a run begins and nothing gives it back: a crash, or a run that
was never looked at, loses budget and never gains any.

*What it cannot prevent:* a second budget file for the same table, an old copy of this one that is put back, a run that
does not use it, or another table about the same people (one more row makes it another table). Keep it on a local disk:
the locks of network file systems are not to be trusted.

*It is a secret of the table's owner,* who alone may read it: it holds the SHA-256 of the table, to know it again under
another name, and whoever sees that can confirm a guess of the whole table.
"""

import contextlib
import decimal
import hashlib
import os
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gossamer.privacy.budget import Budget, Neighbors
from gossamer.privacy.facts import scope

if TYPE_CHECKING:
    from gossamer.tables.table import Table

_APPLICATION = 0x676F7373
"""SQLite's mark of what kind of file it is: "goss"."""
_FORMAT = 2
"""1 had no unit: every grant was for rows."""
_PATIENCE = 30.0
"""Seconds to wait for another process that has the file locked."""
# Sums of float64 numbers in decimal need less than 700 digits; a sum that needed more would be an error, not rounded.
_EXACT = decimal.Context(prec=1000, traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow])
_TABLES = """
CREATE TABLE budget (epsilon TEXT NOT NULL, delta TEXT NOT NULL, neighbors TEXT NOT NULL, data TEXT NOT NULL,
                     time TEXT NOT NULL, unit TEXT NOT NULL);
CREATE TABLE reservation (id INTEGER PRIMARY KEY AUTOINCREMENT, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
                          what TEXT NOT NULL, time TEXT NOT NULL);
CREATE TRIGGER kept BEFORE DELETE ON reservation BEGIN SELECT RAISE(ABORT, 'nothing is given back'); END;
CREATE TRIGGER fixed BEFORE UPDATE ON reservation BEGIN SELECT RAISE(ABORT, 'nothing is given back'); END;
"""


class BudgetFileError(ValueError):
    """A budget file that cannot be used, or not for this table or relation; nothing was reserved."""


class OverdrawnError(BudgetFileError):
    """More was asked for than is left; nothing was reserved."""


class Amount(NamedTuple):
    """Some ε and δ, exactly: the decimal numbers that were written down."""

    epsilon: Decimal
    delta: Decimal

    def __str__(self) -> str:
        return f"epsilon = {_shown(self.epsilon)}, delta = {_shown(self.delta)}"


@dataclass(frozen=True)
class Grant:
    """What a budget file was made with."""

    amount: Amount
    neighbors: Neighbors
    data: str
    """The fingerprint of the table."""
    time: str
    unit: str
    """Whom it is about (`gossamer.privacy.facts.scope`): a row, or a person by the ids of a column."""


@dataclass(frozen=True)
class Reservation:
    """What one run has taken, whether or not it was ever finished."""

    id: int
    amount: Amount
    what: str
    time: str


class BudgetFile:
    """The budget of one table.

    Args:
      path: a file made by `BudgetFile.create` or `gossamer budget init`.

    Example:
      >>> import tempfile
      >>> folder = Path(tempfile.mkdtemp())
      >>> _ = (folder / "table.csv").write_text("age\\n41\\n")
      >>> file = BudgetFile.create(folder / "table.csv.budget", 0.3, 1e-6, "replace_one", folder / "table.csv")
      >>> for epsilon in (0.1, 0.2):
      ...     _ = file.reserve(epsilon, 5e-7, "replace_one", folder / "table.csv", "a first look")
      >>> file.remaining()
      Amount(epsilon=Decimal('0.0'), delta=Decimal('0E-7'))
    """

    def __init__(self, path: Path | str):
        self.path = Path(path)
        with self._transaction("BEGIN") as connection:
            self._read(connection)

    @classmethod
    def create(
        cls,
        path: Path | str,
        epsilon: float,
        delta: float,
        neighbors: Neighbors,
        data: "Path | str | Table",
        person: str | None = None,
    ) -> "BudgetFile":
        """Make the budget file of a table; a file that exists is left alone.

        Args:
          path: where to make it.
          epsilon: ε that all runs together may cost.
          delta: δ that all runs together may cost.
          neighbors: which tables count as neighbours, for every run.
          data: the table's file, or the table as `read_table` read it.
          person: the column of ids, if all runs are to protect persons; None: rows. How many rows of a person count may
            differ between runs.
        """
        amount, path = _amount(epsilon, delta, neighbors), Path(path)
        data = fingerprint(data)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            raise FileExistsError(
                f"{path} exists and is left alone: a budget is not granted twice. `gossamer budget show {path}` says "
                "what is left of it."
            ) from None
        try:
            with contextlib.closing(_connect(path)) as connection, connection:
                connection.executescript(
                    f"BEGIN; PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {_FORMAT}; {_TABLES}"
                )
                unit = _unit(person)
                row = (str(amount.epsilon), str(amount.delta), neighbors, data, _now(), unit)
                connection.execute("INSERT INTO budget VALUES (?, ?, ?, ?, ?, ?)", row)
        except BaseException:
            path.unlink()
            raise
        return cls(path)

    def reserve(
        self,
        epsilon: float,
        delta: float,
        neighbors: Neighbors,
        data: "Path | str | Table",
        what: str = "",
        person: str | None = None,
    ) -> Reservation:
        """Take from what is left, before a record is touched; it never comes back. Refuse what would overdraw.

        Args:
          epsilon: ε of the run.
          delta: δ of the run.
          neighbors: which tables count as neighbours in the run's guarantee.
          data: the table's file, or the table as `read_table` read it; the file's bytes count, not its name.
          what: what it is for, in the words of whoever asks.
          person: the column of ids, if the run protects persons; None: rows.
        """
        amount = _amount(epsilon, delta, neighbors)
        data = fingerprint(data)
        # IMMEDIATE: whoever else reads what is left with a view to taking it waits until this transaction has ended.
        with self._transaction("BEGIN IMMEDIATE") as connection:
            grant, taken = self._read(connection)
            self._check_grant(grant, neighbors, data, _unit(person))
            left = _left(grant, taken)
            if amount.epsilon > left.epsilon or amount.delta > left.delta:
                raise OverdrawnError(
                    f"{amount} is more than {self.path} has left, which is {left}. Ask for no more; if it is too "
                    "little, this table has been asked enough."
                )
            time = _now()
            row = (str(amount.epsilon), str(amount.delta), what, time)
            cursor = connection.execute("INSERT INTO reservation (epsilon, delta, what, time) VALUES (?, ?, ?, ?)", row)
            assert cursor.lastrowid is not None
            reservation = Reservation(cursor.lastrowid, amount, what, time)
        return reservation

    def grant(self) -> Grant:
        """Return what the file was made with."""
        with self._transaction("BEGIN") as connection:
            return self._read(connection)[0]

    def entries(self) -> list[Reservation]:
        """Return what was taken, the first run first."""
        with self._transaction("BEGIN") as connection:
            return self._read(connection)[1]

    def remaining(self) -> Amount:
        """Return what is left."""
        with self._transaction("BEGIN") as connection:
            return _left(*self._read(connection))

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        """Give a connection inside a transaction, which is committed unless there is an error; say what went wrong."""
        if not self.path.exists():
            raise FileNotFoundError(f"{self.path} does not exist. Make a budget file by `gossamer budget init`.")
        try:
            with contextlib.closing(_connect(self.path)) as connection:
                connection.execute(begin)
                with connection:
                    yield connection
        except sqlite3.Error as error:
            raise BudgetFileError(f"{self.path} {_reason(error)} Nothing was reserved.") from error

    def _read(self, connection: sqlite3.Connection) -> tuple[Grant, list[Reservation]]:
        """Return all that the file says, after looking whether it is a budget file and whole."""
        if connection.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
            raise BudgetFileError(f"{self.path} is no budget file. Make one by `gossamer budget init`.")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version not in (1, _FORMAT):
            raise BudgetFileError(
                f"{self.path} has format {version}, and this version of Gossamer knows {_FORMAT}. Use a newer Gossamer."
            )
        if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("its pages do not fit together")
        unit = "unit" if version == _FORMAT else "'row'"
        grants = connection.execute(f"SELECT epsilon, delta, neighbors, data, time, {unit} FROM budget").fetchall()
        if len(grants) != 1:
            raise sqlite3.DatabaseError(f"it has {len(grants)} grants instead of one")
        ((epsilon, delta, *facts),) = grants
        rows = connection.execute("SELECT id, epsilon, delta, what, time FROM reservation ORDER BY id").fetchall()
        taken = [Reservation(number, _stored(*amount), what, when) for number, *amount, what, when in rows]
        return Grant(_stored(epsilon, delta), *facts), taken

    def _check_grant(self, grant: Grant, neighbors: Neighbors, data: str, unit: str) -> None:
        if unit != grant.unit:
            raise BudgetFileError(
                f"the run is about each {unit}, but {self.path} is a budget for each {grant.unit}, and the two do not "
                "add up. Train by the unit of the budget (--person COLUMN, or none)."
            )
        if neighbors != grant.neighbors:
            raise BudgetFileError(
                f"neighbors = {neighbors!r}, but {self.path} is a budget for neighbors = {grant.neighbors!r}, and the "
                f"two do not add up. Use {grant.neighbors!r}."
            )
        if data != grant.data:
            raise BudgetFileError(
                f"{self.path} is the budget of another table, or this one has changed since. Use the table that it was "
                "made for; a table with other people in it may have a budget of its own (gossamer budget init)."
            )


def fingerprint(data: "Path | str | Table") -> str:
    """Return the SHA-256 of a file's bytes, as they are, or as they were when a table was read from it.

    It is as secret as the file: it confirms a guess of the whole of it.
    """
    if not isinstance(data, Path | str):
        if data.sha256 is None:
            raise ValueError(f"{data.source} was not read from a file, so that no budget file can know it again.")
        return data.sha256
    with open(data, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unit(person: str | None) -> str:
    return scope(person, None if person is None else "normalised")


def _amount(epsilon: float, delta: float, neighbors: Neighbors) -> Amount:
    """Return what is asked for as decimals: 0.1 means one tenth, which is what a certificate states."""
    budget = Budget(epsilon, delta, neighbors)
    if not budget.is_private:
        raise ValueError(f"epsilon = {epsilon!r} is no budget: a run without privacy costs more than any file holds.")
    return Amount(Decimal(repr(float(epsilon))), Decimal(repr(float(delta))))


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path.absolute().as_uri() + "?mode=rw", uri=True, timeout=_PATIENCE, isolation_level=None
    )
    # Beyond FULL, EXTRA makes the end of a transaction itself survive a loss of power: none is ever taken back.
    connection.execute("PRAGMA synchronous = EXTRA")
    return connection


def _stored(epsilon: str, delta: str) -> Amount:
    try:
        amount = Amount(Decimal(epsilon), Decimal(delta))
    except (decimal.InvalidOperation, TypeError, ValueError) as error:
        raise sqlite3.DatabaseError("it has amounts that are no numbers") from error
    if not all(value.is_finite() and value > 0 for value in amount):
        raise sqlite3.DatabaseError("it has amounts that are not above 0")
    return amount


def _left(grant: Grant, taken: Iterable[Reservation]) -> Amount:
    with decimal.localcontext(_EXACT):
        return Amount(
            grant.amount.epsilon - sum(entry.amount.epsilon for entry in taken),
            grant.amount.delta - sum(entry.amount.delta for entry in taken),
        )


def _reason(error: sqlite3.Error) -> str:
    """Return what is the matter with a file and what to do, to follow its name."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_BUSY:
        return f"has been locked by another process for {_PATIENCE:g} seconds. Try again when that is done."
    if code == sqlite3.SQLITE_READONLY:
        return "cannot be written to. Ask its owner for the permission to, also for the folder that it is in."
    if code == sqlite3.SQLITE_CANTOPEN:
        return "cannot be opened. Is it a file, and may you read it?"
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return f"cannot be used: {error}. Make room, or look after the disk, and try again."
    return f"is damaged, or is no budget file: {error}. Take stock of the runs on this table before making another."


def _shown(value: Decimal) -> str:
    """Return a number exactly, in few characters if these do."""
    short = f"{float(value):.6g}"
    return short if Decimal(short) == value else str(value)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
