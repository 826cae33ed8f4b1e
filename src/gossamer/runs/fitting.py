"""From a table to the folder of a run.

Whatever can be wrong with what a person asked for is found before anything is spent: the table is read and encoded, the
method is checked against the problem and planned, and only then is the budget reserved and the first query asked. An
error in line 17 costs nothing.
"""

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.exceptions import PrivacyLeakWarning
from gossamer.runs import folder
from gossamer.runs.recipe import Recipe
from gossamer.tables.schema import Schema
from gossamer.tables.table import Table

if TYPE_CHECKING:
    from gossamer.budget import Budget
    from gossamer.checkpoints import Checkpoints

CHECKPOINT = "checkpoint"
"""Where a run saves itself, inside its folder. It holds the key of the noise, and is removed when the run is done."""


def fit_table(
    table: Table,
    schema: Schema,
    recipe: Recipe,
    budget: "Budget",
    *,
    seed: int | None = None,
    progress: bool = False,
    checkpoints: "Checkpoints | None" = None,
    reserve: Callable[[], Any] | None = None,
) -> Any:
    """Train a model on a table within a budget; return the fitted estimator.

    Args:
      table: the records.
      schema: what is public about them; what it does not confirm as public is warned of and goes on the certificate.
      recipe: what to train for, and how.
      budget: what may be spent.
      seed: None takes entropy from the operating system. A number is for tests: the noise is then reproducible.
      progress: whether to show a progress bar on a terminal.
      checkpoints: where the run saves itself.
      reserve: called after all checks and before the first query, to pay.
    """
    from gossamer.planning import plan
    from gossamer.solving import check_match

    estimator = recipe.estimator(schema, budget, random_state=seed, progress=progress, checkpoints=checkpoints)
    groups = (schema.group_of(table),) if recipe.grouped else ()
    task = estimator.pose(schema.encode(table), schema.labels(table), *groups)
    task = task._replace(method=recipe.configured(task.method))
    check_match(task.problem, task.method, budget)
    leaks = _warn_of(schema.leaks())
    if recipe.grouped:
        leaks += estimator._warn_of_leaks(group_shares="the share of rows in each group")
    if reserve is not None:
        plan(task.method, table.n, budget)  # a schedule that no noise can pay for is refused here, and costs nothing
        reserve()
    return estimator.spend(task, leaks)


def prepare_folder(out: Path, every: int | None, resume: bool) -> "Checkpoints | None":
    """Refuse a folder that has a run already, unless to resume it; return where the run saves itself, if it shall."""
    from gossamer.checkpoints import Checkpoints

    begun = (out / CHECKPOINT).exists()
    if begun and not resume:
        raise ValueError(
            f"{out} has a run that was begun and not finished. Continue it with --resume; to begin again would spend "
            "the privacy again. If that is meant, choose another folder."
        )
    found = [name for name in folder.FILES if (out / name).exists()]
    if found and not begun:
        raise ValueError(f"{out} has {found[0]} of another run. Choose another folder: no run is overwritten.")
    # Whether the folder can be made is better known now than when the privacy is spent.
    out.mkdir(parents=True, exist_ok=True)
    if every is None and not resume:
        return None
    return (
        Checkpoints(out / CHECKPOINT, resume=resume) if every is None else Checkpoints(out / CHECKPOINT, every, resume)
    )


def remove_checkpoint(out: Path) -> None:
    """Remove what a finished run saved of itself, the key of its noise included."""
    shutil.rmtree(out / CHECKPOINT, ignore_errors=True)


def reserve_from(file: Path, table: Path, budget: "Budget", what: str, checkpoints: "Checkpoints | None") -> None:
    """Reserve a run's cost in a budget file; a run that is continued has paid."""
    from gossamer.budget_file import BudgetFile, fingerprint

    def reserve() -> int:
        return BudgetFile(file).reserve(budget.epsilon, budget.delta, budget.neighbors, table, what).id

    if checkpoints is None:
        reserve()
    else:
        checkpoints.remember("reservation", f"{budget} {file.resolve()} {fingerprint(table)}", reserve)


def _warn_of(leaks: tuple[str, ...]) -> tuple[str, ...]:
    if leaks:
        warnings.warn(
            f"{len(leaks)} of the schema's declarations were read from the data, outside the privacy guarantee; the "
            "certificate names them. Confirm them: `gossamer schema TABLE` drafts a file to check and to pass as "
            "--schema.",
            PrivacyLeakWarning,
            stacklevel=3,
        )
    return leaks
