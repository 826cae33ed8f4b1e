"""`ledger=`: a run in Python pays from a budget file before its first query, as `gossamer fit --budget` does.

Whoever passes a ledger says that the records are of the table that the file is about: arrays are not the bytes of a
file, and the folds of a cross-validation are parts of the table. So every run is charged in full, whichever rows it
is given, and what all of them release together keeps the budget of the file: a run on some of the rows is a run on the
table. A ledger is a path: copies of an estimator, in other threads and processes too, spend from the same file.
"""

from typing import Any, NamedTuple

from gossamer.base import processes
from gossamer.base.messages import shown
from gossamer.engine.checkpoints import Checkpoints
from gossamer.privacy.budget import Budget
from gossamer.privacy.budget_file import BudgetFile, OverdrawnError
from gossamer.privacy.planning import Plan


class _Known(NamedTuple):
    """The table of a budget file, by its own word."""

    source: str
    sha256: str


def pay(
    ledger: Any, planned: Plan | Budget, what: str, checkpoints: Checkpoints | None = None, unit: str = "row"
) -> None:
    """Reserve what a plan costs, if there is a ledger; a run that is continued has paid. Refuse what would overdraw.

    What is known by its ε and δ alone is given as a budget.
    """
    if ledger is None:
        return
    if not isinstance(ledger, BudgetFile):
        raise TypeError(f"ledger = {shown(ledger)} must be a gs.BudgetFile(path), or None.")
    budget = planned if isinstance(planned, Budget) else planned.budget

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
