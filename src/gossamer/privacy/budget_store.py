"""How a budget file is kept: a SQLite database, in which rows are added and never changed.

Format 1 had sums of ε and δ: in the words of format 2, all of its budget is set aside for pairs. Such files are read
and reserved from as they are.
"""

import contextlib
import decimal
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from gossamer.privacy.budget import Neighbors
from gossamer.privacy.pools import Amount

_APPLICATION = 0x676F7373
"""SQLite's mark of what kind of file it is: "goss"."""
FORMAT = 2
PATIENCE = 30.0
"""Seconds to wait for another process that has the file locked."""
TABLES = (
    "CREATE TABLE budget (epsilon TEXT NOT NULL, delta TEXT NOT NULL, neighbors TEXT NOT NULL, data TEXT NOT NULL, "
    "time TEXT NOT NULL, unit TEXT NOT NULL, pair_epsilon TEXT NOT NULL, pair_delta TEXT NOT NULL, "
    "variance TEXT NOT NULL, tail TEXT NOT NULL, cut TEXT NOT NULL)",
    "CREATE TABLE reservation (id INTEGER PRIMARY KEY AUTOINCREMENT, epsilon TEXT NOT NULL, delta TEXT NOT NULL, "
    "variance TEXT NOT NULL, tail TEXT NOT NULL, cut TEXT NOT NULL, what TEXT NOT NULL, time TEXT NOT NULL, "
    "schedule TEXT NOT NULL)",
    "CREATE TRIGGER kept BEFORE DELETE ON reservation BEGIN SELECT RAISE(ABORT, 'nothing is given back'); END",
    "CREATE TRIGGER fixed BEFORE UPDATE ON reservation BEGIN SELECT RAISE(ABORT, 'nothing is given back'); END",
    "CREATE TRIGGER granted BEFORE UPDATE ON budget BEGIN SELECT RAISE(ABORT, 'pools do not move'); END",
)
_OUT_OF_THE_WAY = (
    "DROP TRIGGER kept",
    "DROP TRIGGER fixed",
    "ALTER TABLE budget RENAME TO budget_1",
    "ALTER TABLE reservation RENAME TO reservation_1",
)
_GRANT = {
    1: "SELECT epsilon, delta, neighbors, data, time, 'row', epsilon, delta, '0', '0', '0' FROM budget",
    2: "SELECT epsilon, delta, neighbors, data, time, unit, pair_epsilon, pair_delta, variance, tail, cut FROM budget",
}
_TAKEN = {
    1: "SELECT id, epsilon, delta, '0', '0', '0', what, time, '' FROM reservation ORDER BY id",
    2: "SELECT id, epsilon, delta, variance, tail, cut, what, time, schedule FROM reservation ORDER BY id",
}


class BudgetFileError(ValueError):
    """A budget file that cannot be used, or not for this table, relation or unit; nothing was reserved."""


@dataclass(frozen=True)
class Grant:
    """What a budget file was made with."""

    amount: Amount
    """ε and δ of everything together."""
    neighbors: Neighbors
    data: str
    """The fingerprint of the table."""
    time: str
    unit: str
    """Whose data neighbouring tables differ in."""
    pools: Amount
    """What the amount was divided into."""


@dataclass(frozen=True)
class Reservation:
    """What one run has taken, whether or not it was ever finished."""

    id: int
    amount: Amount
    what: str
    time: str
    schedule: str
    """The digest of what was to be asked; empty for what is known by its ε and δ alone."""


def make(path: Path, grant: Grant) -> None:
    """Make a file that does not exist, all at once or not at all."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        raise FileExistsError(
            f"{path} exists and is left alone: a budget is not granted twice. `gossamer budget show {path}` says "
            "what is left of it."
        ) from None
    try:
        with contextlib.closing(_connect(path)) as connection, connection:
            connection.execute("BEGIN")
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            _lay_out(connection, grant)
    except BaseException:
        path.unlink()
        raise


@contextlib.contextmanager
def transaction(path: Path, begin: str) -> Iterator[sqlite3.Connection]:
    """Give a connection inside a transaction, which is committed unless there is an error; say what went wrong."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Make a budget file by `gossamer budget init`.")
    try:
        with contextlib.closing(_connect(path)) as connection:
            connection.execute(begin)
            with connection:
                yield connection
    except sqlite3.Error as error:
        raise BudgetFileError(f"{path} {_reason(error)} Nothing was reserved.") from error


def read(path: Path, connection: sqlite3.Connection) -> tuple[Grant, list[Reservation]]:
    """Return all that a file says, after looking whether it is a budget file and whole."""
    if connection.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
        raise BudgetFileError(f"{path} is no budget file. Make one by `gossamer budget init`.")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version not in _GRANT:
        raise BudgetFileError(
            f"{path} has format {version}, and this version of Gossamer knows 1 and {FORMAT}. Use a newer Gossamer."
        )
    if connection.execute("PRAGMA integrity_check").fetchone() != ("ok",):
        raise sqlite3.DatabaseError("its pages do not fit together")
    grants = connection.execute(_GRANT[version]).fetchall()
    if len(grants) != 1:
        raise sqlite3.DatabaseError(f"it has {len(grants)} grants instead of one")
    ((epsilon, delta, neighbors, data, time, unit, *pools),) = grants
    whole = _stored(epsilon, delta)
    if not (whole.epsilon > 0 and whole.delta > 0):
        raise sqlite3.DatabaseError("it has amounts that are not above 0")
    taken = [
        Reservation(number, _stored(*amounts), what, when, schedule)
        for number, *amounts, what, when, schedule in connection.execute(_TAKEN[version]).fetchall()
    ]
    return Grant(whole, neighbors, data, time=time, unit=unit, pools=_stored(*pools)), taken


def add(connection: sqlite3.Connection, amount: Amount, what: str, schedule: str) -> Reservation:
    """Write a reservation down."""
    time = now()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    columns = {"epsilon": str(amount.epsilon), "delta": str(amount.delta), "what": what, "time": time}
    if version == FORMAT:
        pools = {name: str(getattr(amount, name)) for name in ("variance", "tail", "cut")}
        columns |= {**pools, "schedule": schedule}
    names, marks = ", ".join(columns), ", ".join("?" for _ in columns)
    cursor = connection.execute(f"INSERT INTO reservation ({names}) VALUES ({marks})", tuple(columns.values()))
    assert cursor.lastrowid is not None
    return Reservation(cursor.lastrowid, amount, what, time, schedule if version == FORMAT else "")


def is_old(connection: sqlite3.Connection) -> bool:
    """Return whether a file has format 1."""
    return bool(connection.execute("PRAGMA user_version").fetchone() == (1,))


def modernise(connection: sqlite3.Connection, grant: Grant, taken: list[Reservation]) -> None:
    """Make a file of format 1 one of format 2, in the transaction that it was read in; the old rows stay beside it."""
    for statement in _OUT_OF_THE_WAY:
        connection.execute(statement)
    _lay_out(connection, grant)
    for entry in taken:
        add(connection, entry.amount, entry.what, "")


def now() -> str:
    """Return the time, for the record."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _lay_out(connection: sqlite3.Connection, grant: Grant) -> None:
    """Make the tables of this format, with a grant in them."""
    for statement in TABLES:
        connection.execute(statement)
    facts = (grant.neighbors, grant.data, grant.time, grant.unit)
    row = (str(grant.amount.epsilon), str(grant.amount.delta), *facts, *map(str, grant.pools))
    connection.execute(f"INSERT INTO budget VALUES ({', '.join('?' for _ in row)})", row)
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        path.absolute().as_uri() + "?mode=rw", uri=True, timeout=PATIENCE, isolation_level=None
    )
    # Beyond FULL, EXTRA makes the end of a transaction itself survive a loss of power: none is ever taken back.
    connection.execute("PRAGMA synchronous = EXTRA")
    return connection


def _stored(*texts: str) -> Amount:
    try:
        amount = Amount(*map(Decimal, texts))
    except (decimal.InvalidOperation, TypeError, ValueError) as error:
        raise sqlite3.DatabaseError("it has amounts that are no numbers") from error
    if not all(value.is_finite() and value >= 0 for value in amount) or not any(amount):
        raise sqlite3.DatabaseError("it has amounts that are not above 0")
    return amount


def _reason(error: sqlite3.Error) -> str:
    """Return what is the matter with a file and what to do, to follow its name."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_BUSY:
        return f"has been locked by another process for {PATIENCE:g} seconds. Try again when that is done."
    if code == sqlite3.SQLITE_READONLY:
        return "cannot be written to. Ask its owner for the permission to, also for the folder that it is in."
    if code == sqlite3.SQLITE_CANTOPEN:
        return "cannot be opened. Is it a file, and may you read it?"
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return f"cannot be used: {error}. Make room, or look after the disk, and try again."
    return f"is damaged, or is no budget file: {error}. Take stock of the runs on this table before making another."
