"""What a table may still cost: a file that every run reserves its cost from before it touches a record.

*Privacy.* If every run on a table reserves its cost here first, all that is ever published about the table is
(ε, δ)-differentially private together, ε and δ those that the file was made with: even if each run, its noise included,
is chosen after looking at the results of those before. `gossamer.privacy.pools` has the proof: the budget is divided
into pools once, when the file is made, and a run takes from them what its schedule costs. The file computes that
itself. Runs may overlap in time: a run takes no input after its start, so its output may be thought of as drawn then
and uncovered bit by bit.

Files of format 1 add up ε and δ (Rogers, Roth, Ullman and Vadhan, *Privacy odometers and filters*, 2016): in the words
of pools, all is set aside for pairs. They go on as they are, until `migrate`. What is left of such a file, (ε', δ'), is
granted anew then: given any results so far, everything to come is (ε', δ')-DP, which is all that sums ask of a run.

What is reserved is spent. It is written durably before a run begins and nothing gives it back: a crash, or a run that
was never looked at, loses budget and never gains any.

*What it cannot prevent:* a second budget file for the same table, an old copy of this one that is put back, a run that
does not use it, or another table about the same people (one more row makes it another table). Keep it on a local disk:
the locks of network file systems are not to be trusted.

*It is a secret of the table's owner,* who alone may read it: it holds the SHA-256 of the table, to know it again under
another name, and whoever sees that can confirm a guess of the whole table.
"""

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.base.messages import shown as described
from gossamer.privacy import budget_store, pools
from gossamer.privacy.budget import Budget, Neighbors
from gossamer.privacy.budget_store import BudgetFileError, Grant, Reservation
from gossamer.privacy.planning import Plan
from gossamer.privacy.pools import Amount

if TYPE_CHECKING:
    from gossamer.tables.table import Table


class OverdrawnError(BudgetFileError):
    """More was asked for than is left; nothing was reserved."""


class BudgetFile:
    """The budget of one table.

    Args:
      path: a file made by `BudgetFile.create` or `gossamer budget init`.

    Example:
      >>> import tempfile
      >>> import gossamer as gs
      >>> folder = Path(tempfile.mkdtemp())
      >>> _ = (folder / "table.csv").write_text("age\\n41\\n")
      >>> file = BudgetFile.create(folder / "table.csv.budget", 1.0, 1e-5, "replace_one", folder / "table.csv")
      >>> plan = gs.plan(gs.methods.GD(steps=10), n=1000, budget=gs.Budget(0.1, 1e-7))
      >>> _ = file.reserve(plan, folder / "table.csv", "a first look")
      >>> file.more_like_the_last()
      120
    """

    def __init__(self, path: Path | str):
        self.path = Path(path)
        self._read()

    @classmethod
    def create(
        cls,
        path: Path | str,
        epsilon: float,
        delta: float,
        neighbors: Neighbors,
        data: "Path | str | Table",
        *,
        aside: tuple[float, float] | None = None,
        unit: str = "row",
    ) -> "BudgetFile":
        """Make the budget file of a table; a file that exists is left alone.

        Args:
          path: where to make it.
          epsilon: ε that all runs together may cost.
          delta: δ that all runs together may cost.
          neighbors: which tables count as neighbours, for every run.
          data: the table's file, or the table as `read_table` read it.
          aside: a part (ε, δ) of it, for what is known by an ε and a δ alone, such as perturbed minimisers and
            mechanisms that are not Gossamer's. Such costs add up, so set aside little. It cannot be changed later.
          unit: whose data neighbouring tables differ in, for every run.
        """
        whole = _budget(epsilon, delta, neighbors)
        set_aside = Amount() if aside is None else _pair(_budget(*aside, neighbors))
        grant = Grant(
            _pair(whole),
            neighbors,
            fingerprint(data),
            time=budget_store.now(),
            unit=unit,
            pools=pools.divide(whole, set_aside),
        )
        budget_store.make(Path(path), grant)
        return cls(path)

    def reserve(
        self, planned: Plan | Budget, data: "Path | str | Table", what: str = "", unit: str = "row"
    ) -> Reservation:
        """Take from what is left, before a record is touched; it never comes back. Refuse what would overdraw.

        Args:
          planned: what the run will ask, `gs.plan(method, n, budget)`: the file finds its cost from the schedule. Or a
            `gs.Budget`, for what is known by its ε and δ alone.
          data: the table's file, or the table as `read_table` read it; the file's bytes count, not its name.
          what: what it is for, in the words of whoever asks.
          unit: whose data neighbouring tables differ in, in the run's guarantee.
        """
        if not isinstance(planned, Plan | Budget):
            raise TypeError(f"planned = {described(planned)} must be a gs.plan(...), or a gs.Budget(epsilon, delta).")
        budget = planned if isinstance(planned, Budget) else planned.budget
        print_of_data = fingerprint(data)
        before = self.grant()
        self._check_grant(before, budget.neighbors, print_of_data, unit)
        amount, digest = _price(planned, before)  # takes seconds, so not while others wait
        # IMMEDIATE: whoever else reads what is left with a view to taking it waits until this transaction has ended.
        with budget_store.transaction(self.path, "BEGIN IMMEDIATE") as connection:
            grant, taken = budget_store.read(self.path, connection)
            if grant != before:
                raise BudgetFileError(f"{self.path} was migrated a moment ago. Nothing was reserved; try again.")
            left = grant.pools.minus(entry.amount for entry in taken)
            if not left.covers(amount):
                raise OverdrawnError(_overdrawn(self.path, amount, left, grant))
            return budget_store.add(connection, amount, what, digest)

    def migrate(self) -> None:
        """Make a file of format 1 one of format 2, in one transaction: all that was reserved stays so.

        Runs in flight have reserved, and count. Older versions of Gossamer refuse the file from then on.
        """
        with budget_store.transaction(self.path, "BEGIN IMMEDIATE") as connection:
            grant, taken = budget_store.read(self.path, connection)
            if not budget_store.is_old(connection):
                raise BudgetFileError(f"{self.path} has format {budget_store.FORMAT} already. Nothing was changed.")
            whole = Budget(float(grant.amount.epsilon), float(grant.amount.delta), grant.neighbors)
            spent = Amount().plus(entry.amount for entry in taken)
            anew = dataclasses.replace(grant, pools=pools.divide(whole, spent))
            budget_store.modernise(connection, anew, taken)

    def grant(self) -> Grant:
        """Return what the file was made with."""
        return self._read()[0]

    def entries(self) -> list[Reservation]:
        """Return what was taken, the first run first."""
        return self._read()[1]

    def remaining(self) -> Amount:
        """Return what is left in each pool."""
        grant, taken = self._read()
        return grant.pools.minus(entry.amount for entry in taken)

    def more_like_the_last(self) -> int | None:
        """Return how many more runs with the cost of the last one fit; None: there was none."""
        grant, taken = self._read()
        if not taken:
            return None
        return pools.more_like(taken[-1].amount, grant.pools.minus(entry.amount for entry in taken))

    def spent_epsilon(self) -> float:
        """Return ε, at the δ of the grant, of what was taken so far: for information, the promise is the grant's."""
        grant, taken = self._read()
        whole = Budget(float(grant.amount.epsilon), float(grant.amount.delta), grant.neighbors)
        return pools.spent_epsilon(whole, grant.pools.minus(entry.amount for entry in taken), grant.pools)

    def _read(self) -> tuple[Grant, list[Reservation]]:
        with budget_store.transaction(self.path, "BEGIN") as connection:
            return budget_store.read(self.path, connection)

    def _check_grant(self, grant: Grant, neighbors: Neighbors, data: str, unit: str) -> None:
        for name, asked, granted in (("neighbors", neighbors, grant.neighbors), ("unit", unit, grant.unit)):
            if asked != granted:
                raise BudgetFileError(
                    f"{name} = {asked!r}, but {self.path} is a budget for {name} = {granted!r}, and the two do not add "
                    f"up. Use {granted!r}."
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


def _price(planned: Plan | Budget, grant: Grant) -> tuple[Amount, str]:
    """Return what is taken from which pool, and the digest of the schedule that it was found from."""
    budget = planned if isinstance(planned, Budget) else planned.budget
    price = _pair(_budget(budget.epsilon, budget.delta, budget.neighbors))
    if isinstance(planned, Budget):
        return price, ""
    schedule = json.dumps(planned.schedule.to_dicts(), sort_keys=True)
    digest = hashlib.sha256(f"{planned.n} {dict(planned.capacities)} {schedule}".encode()).hexdigest()
    perturbed = any(query.sampling.surcharge(1, budget.neighbors).epsilon for query in planned.schedule)
    if perturbed or not grant.pools.is_enveloped:
        return price, digest
    whole = Budget(float(grant.amount.epsilon), float(grant.amount.delta), grant.neighbors)
    return pools.charge(planned, whole, grant.pools), digest


def _overdrawn(path: Path, amount: Amount, left: Amount, grant: Grant) -> str:
    asked = f"{amount} is more than {path} has left, which is {left}."
    if not amount.is_enveloped and grant.pools.is_enveloped:
        return (
            f"{asked} What is known by its epsilon and delta alone is paid from what was set aside for it when the "
            "file was made (gossamer budget init --aside-epsilon --aside-delta). Train by queries with Gaussian noise "
            "instead."
        )
    return f"{asked} Ask for no more; if it is too little, this table has been asked enough."


def _budget(epsilon: float, delta: float, neighbors: Neighbors) -> Budget:
    budget = Budget(epsilon, delta, neighbors)
    if not budget.is_private:
        raise ValueError(f"epsilon = {epsilon!r} is no budget: a run without privacy costs more than any file holds.")
    return budget


def _pair(budget: Budget) -> Amount:
    return pools.pair(budget.epsilon, budget.delta)
