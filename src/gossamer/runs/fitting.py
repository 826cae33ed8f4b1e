"""From a table to the folder of a run.

Whatever can be wrong with what a person asked for is found before anything is spent: the table is read and encoded, the
method is checked against the problem and planned, and only then is the budget reserved and the first query asked. An
error in line 17 costs nothing. From then on the run is saved as it goes: nothing that happens to it costs it again.
"""

import contextlib
import dataclasses
import math
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.exceptions import DivergedError, OverspentError, PrivacyLeakWarning
from gossamer.runs import folder
from gossamer.runs.recipe import Recipe
from gossamer.tables.schema import Schema
from gossamer.tables.table import Table

if TYPE_CHECKING:
    from gossamer.budget import Budget
    from gossamer.checkpoints import Checkpoints

CHECKPOINT = "checkpoint"
"""Where a run saves itself, inside its folder. It holds the key of the noise, and is removed when the run is done."""
_SAVES = 10
"""How often a run saves itself if nobody says: a short one takes seconds to compile, and milliseconds to save."""
_ROOM = 1 << 20
"""Bytes that a folder must have room for before anything is spent."""


def fit_table(
    table: Table,
    schema: Schema,
    recipe: Recipe,
    budget: "Budget",
    *,
    seed: int | None = None,
    progress: bool = False,
    checkpoints: "Checkpoints | None" = None,
    every: int | None = None,
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
      every: steps between two checkpoints; None is a tenth of the run.
      reserve: called after all checks and before the first query, to pay.
    """
    estimator = recipe.estimator(schema, budget, random_state=seed, progress=progress, checkpoints=checkpoints)
    groups = (schema.group_of(table),) if recipe.grouped else ()
    task = estimator.pose(schema.encode(table), schema.labels(table), *groups)
    if checkpoints is not None:
        every = math.ceil(task.method.steps / _SAVES) if every is None else every
        estimator.set_params(checkpoints=dataclasses.replace(checkpoints, every=every))
    leaks = _warn_of(schema.leaks())
    estimator.rehearse(task)
    if reserve is not None:
        reserve()
    return estimator.spend(task, leaks)


def prepare_folder(out: Path, save: bool, resume: bool) -> "Checkpoints | None":
    """Refuse a folder that has a run already, unless to resume it; return where the run saves itself, if it shall."""
    from gossamer.checkpoints import Checkpoints

    begun = _is_begun(out)
    if begun and not resume:
        raise ValueError(
            f"{out} has a run that was begun and not finished. Continue it with --resume; to begin again would spend "
            "the privacy again. If that is meant, choose another folder."
        )
    found = [name for name in folder.FILES if (out / name).exists()]
    if found and not begun:
        raise ValueError(f"{out} has {found[0]} of another run. Choose another folder: no run is overwritten.")
    # Whether the folder can be made and written to is better known now than when the privacy is spent.
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=out) as file:
        file.write(bytes(_ROOM))
    return Checkpoints(out / CHECKPOINT, resume=resume) if save else None


@contextlib.contextmanager
def kept(out: Path | None) -> Iterator[None]:
    """Say how to continue a run that something outside it ends; one that diverged is over: its key is removed."""
    try:
        yield
    except (DivergedError, OverspentError):
        if out is not None:
            remove_checkpoint(out)
        raise
    except (OSError, RuntimeError, KeyboardInterrupt) as error:
        if out is None or not _is_begun(out):
            raise
        raise RuntimeError(
            f"{str(error) or 'interrupted'}. The run is saved, with what it has paid: once the cause is gone, repeat "
            f"the command with --resume. Until it is finished, {out / CHECKPOINT} holds the key of its noise."
        ) from error


def remove_checkpoint(out: Path) -> None:
    """Remove what a finished run saved of itself, the key of its noise included."""
    try:
        shutil.rmtree(out / CHECKPOINT)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise OSError(
            f"{error}. The run is over, but {out / CHECKPOINT} could not be removed: remove it, for it holds the key "
            "of the noise."
        ) from error


def reserve_from(file: Path, table: Table, budget: "Budget", what: str, checkpoints: "Checkpoints | None") -> None:
    """Reserve a run's cost in a budget file; a run that is continued has paid."""
    from gossamer.budget_file import BudgetFile, fingerprint

    def reserve() -> int:
        return BudgetFile(file).reserve(budget.epsilon, budget.delta, budget.neighbors, table, what).id

    if checkpoints is None:
        reserve()
    else:
        checkpoints.remember("reservation", f"{budget} {file.resolve()} {fingerprint(table)}", reserve)


def _is_begun(out: Path) -> bool:
    """Return whether a run has saved itself in a folder; what has a dot before its name is half of a file."""
    return any((out / CHECKPOINT).glob("[!.]*"))


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
