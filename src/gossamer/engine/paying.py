"""`ledger=`: a run in Python pays from a budget file before its first query, as `gossamer fit --budget` does.

Whoever passes a ledger says that the records are of the table that the file is about: arrays are not the bytes of a
file, and the folds of a cross-validation are parts of the table. So every run is charged in full, whichever rows it
is given, and what all of them release together keeps the budget of the file: a run on some of the rows is a run on the
table. A ledger is a path: copies of an estimator, in other threads and processes too, spend from the same file.

Without a ledger nobody adds up. So a process remembers what its runs asked of which table, and warns once when a table
comes again. It knows a table by a salted hash of its shape and of a few of its rows, so that no table is kept alive and
none is read to the end. That is for the owner of the records, before the first query, and no part of the guarantee: a
table that was copied row by row into another order, or some rows of it, is not recognised. Runs with a fixed seed are
for tests, and not remembered.
"""

import hashlib
import secrets
import warnings
from typing import Any, NamedTuple

import jax
import numpy as np

from gossamer.base import processes
from gossamer.base.exceptions import AccountingError, WeakGuaranteeWarning
from gossamer.base.messages import shown
from gossamer.base.trees import PyTree
from gossamer.engine.checkpoints import Checkpoints
from gossamer.privacy.budget import Budget
from gossamer.privacy.budget_file import BudgetFile, OverdrawnError
from gossamer.privacy.composition import compose
from gossamer.privacy.planning import Plan

_SAMPLE = 64
"""How many rows a table is known by."""
_MOST = 1000
"""How many runs are remembered; a process that makes more has been warned of what it does."""


class _Known(NamedTuple):
    """The table of a budget file, by its own word."""

    source: str
    sha256: str


class Memory:
    """What the runs of a process without a ledger asked, by the table. It speaks once."""

    def __init__(self) -> None:
        self.salt = secrets.token_bytes(16)
        self.runs: dict[bytes, Plan | Budget] = {}
        self.has_spoken = False

    def note(self, records: PyTree, planned: Plan | Budget, unit: str) -> None:
        """Remember a run; warn if there was one on the same table, with what both cost together."""
        budget = _budget_of(planned)
        table = _rows_of(records)
        if self.has_spoken or table is None or not budget.is_private or len(self.runs) >= _MOST:
            return
        key = hashlib.sha256(self.salt + repr((unit, budget.neighbors)).encode() + table).digest()
        first = self.runs.setdefault(key, planned)
        if first is planned:
            return
        self.has_spoken = True
        epsilon, delta = _together(first, planned)
        warnings.warn(
            f"this is another run on the same records, and no ledger pays for it. Both together have epsilon = "
            f"{epsilon:.3g} at delta = {delta:.2g}; the certificate of each is about that run alone. Pass "
            "ledger=gs.BudgetFile(path) to keep one budget over all runs. (This is said once.)",
            WeakGuaranteeWarning,
            stacklevel=4,
        )


MEMORY = Memory()


def _budget_of(planned: Plan | Budget) -> Budget:
    return planned if isinstance(planned, Budget) else planned.budget


def _together(first: Plan | Budget, second: Plan | Budget) -> tuple[float, float]:
    """Return ε and δ of two runs: of two schedules by composing them, else by adding."""
    one, other = _budget_of(first), _budget_of(second)
    if isinstance(first, Plan) and isinstance(second, Plan):
        delta = max(one.delta, other.delta)
        try:
            return compose([first, second], delta), delta
        except AccountingError:
            pass
    return one.epsilon + other.epsilon, one.delta + other.delta


def _rows_of(records: PyTree) -> bytes | None:
    """Return the shapes and a few rows of a table; None if that tells nothing, or would cost a copy of the table."""
    content = []
    for leaf in jax.tree.leaves(records):
        if isinstance(leaf, jax.Array) and {each.platform for each in leaf.devices()} != {"cpu"}:
            return None
        if not isinstance(leaf, np.ndarray | jax.Array) or not leaf.ndim or not leaf.shape[0]:
            return None
        rows = np.asarray(leaf)[np.linspace(0, leaf.shape[0] - 1, _SAMPLE).astype(int)]
        if rows.ndim > 1 and (rows == rows[0]).all():  # what stands in for rows that are not known yet
            return None
        content += [repr((leaf.shape, str(leaf.dtype))).encode(), rows.tobytes()]
    return b"".join(content)


def pay(
    ledger: Any,
    planned: Plan | Budget,
    what: str,
    checkpoints: Checkpoints | None = None,
    unit: str = "row",
    records: PyTree | None = None,
) -> None:
    """Reserve what a plan costs, if there is a ledger; a run that is continued has paid. Refuse what would overdraw.

    What is known by its ε and δ alone is given as a budget. Without a ledger the run is remembered by its records, if
    they are given.
    """
    if ledger is None:
        if records is not None and not (checkpoints and checkpoints.resume):
            MEMORY.note(records, planned, unit)
        return
    if not isinstance(ledger, BudgetFile):
        raise TypeError(f"ledger = {shown(ledger)} must be a gs.BudgetFile(path), or None.")
    budget = _budget_of(planned)

    def reserve() -> int:
        table: Any = _Known(str(ledger.path), ledger.grant().data)
        try:
            return ledger.reserve(planned, table, what, unit).id
        except OverdrawnError as error:
            raise OverdrawnError(
                f"{error} {what} was refused before it asked anything: it costs epsilon = {budget.epsilon:g}, delta = "
                f"{budget.delta:g}, and {len(ledger.entries())} runs have been paid for. Every fit pays, also each of "
                "those of a cross-validation or a grid search."
            ) from None

    def once() -> Any:
        if not processes.is_first():
            return None
        if checkpoints is None:
            return reserve()
        return checkpoints.remember("ledger", f"{budget} {what} {ledger.path.resolve()}", reserve)

    processes.all_agree(once)
