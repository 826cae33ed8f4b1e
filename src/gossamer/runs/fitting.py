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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gossamer.base.exceptions import DivergedError, OverspentError, PrivacyLeakWarning, WeakGuaranteeWarning
from gossamer.base.leak import Leak
from gossamer.base.messages import first_few
from gossamer.runs.posing import posed
from gossamer.runs.recipe import Recipe
from gossamer.tables.ids import persons_of
from gossamer.tables.schema import Schema
from gossamer.tables.table import Table

if TYPE_CHECKING:
    from gossamer.engine.checkpoints import Checkpoints
    from gossamer.privacy.budget import Budget, Neighbors
    from gossamer.privacy.planning import Plan

CHECKPOINT = "checkpoint"
"""Where a run saves itself, inside its folder. It holds the key of the noise, and is removed when the run is done."""
_SAVES = 10
"""How often a run saves itself if nobody says: a short one takes seconds to compile, and milliseconds to save."""
_ROOM = 1 << 20
"""Bytes that a folder must have room for before anything is spent."""
FEWEST_ROWS = 10
"""Noise that hides one of fewer people hides all of them."""
_WEAK_DELTA = 1e-2
"""A promise that may fail once in a hundred times is worth a warning to those who did not ask for it."""


def promise(
    table: Table,
    schema: Schema,
    epsilon: float,
    delta: float | None,
    neighbors: "Neighbors",
    *,
    weak_delta: bool = False,
) -> "Budget":
    """Return what a run on a table promises; without a δ, n ** -1.1, with a warning where that is weak.

    n is the number of persons, if they are protected. A δ above 1/n is refused unless it is meant.
    """
    from gossamer.privacy.budget import Budget

    ids = schema.person_of(table)
    n, what = (table.n, "row") if ids is None else (persons_of(ids).number, "person")
    if n < FEWEST_ROWS:
        raise ValueError(
            f"{table.source} has {n} {what}{'s' * (n > 1)}, and at least {FEWEST_ROWS} are needed. The noise "
            "that hides one of so few people leaves nothing to learn."
        )
    budget = Budget(epsilon, n**-1.1 if delta is None else delta, neighbors)
    if budget.is_private and budget.delta * n > 1 and not weak_delta:
        raise ValueError(
            f"delta = {budget.delta:g} is above 1/n = {1 / n:.2g}: it would allow publishing one of the {n} {what}s "
            f"in the clear. Nothing was spent. Choose a smaller one, such as --delta {n**-1.1:.1g}; `gossamer fit` "
            "takes it as it is with --weak-delta."
        )
    if delta is None and budget.is_private and budget.delta > _WEAK_DELTA:
        warnings.warn(
            f"delta = {budget.delta:.2g}, which is n ** -1.1 for n = {n}, is weak: that is about the "
            "probability that the promise fails altogether. Choose a smaller one, such as --delta 1e-5.",
            WeakGuaranteeWarning,
            stacklevel=2,
        )
    return budget


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
    reserve: Callable[["Plan"], Any] | None = None,
) -> tuple[Any, Schema]:
    """Train a model on a table within a budget; return the fitted estimator, and the schema with what was bought.

    Args:
      table: the records.
      schema: what is public about them; what it does not confirm as public is warned of and goes on the certificate.
      recipe: what to train for, and how.
      budget: what may be spent.
      seed: None takes entropy from the operating system. A number is for tests: the noise is then reproducible.
      progress: whether to show a progress bar on a terminal.
      checkpoints: where the run saves itself.
      every: steps between two checkpoints; None is a tenth of the run.
      reserve: called with the plan after all checks and before the first query, to pay.
    """
    parameters = {"random_state": seed, "progress": progress, "checkpoints": checkpoints}
    estimator, task = posed(table, schema, recipe, budget, **parameters)
    if checkpoints is not None:
        every = math.ceil(task.method.steps / _SAVES) if every is None else every
        estimator.set_params(checkpoints=dataclasses.replace(checkpoints, every=every))
    leaks = warn_of(schema.leaks())
    planned = estimator.rehearse(task)
    if reserve is not None:
        reserve(planned)
    return named(estimator.spend(task, leaks), schema, recipe)


def named(model: Any, schema: Schema, recipe: Recipe) -> tuple[Any, Schema]:
    """Return a fitted estimator that predicts in the schema's terms, and the schema with what was bought."""
    schema = getattr(model, "schema_", schema)
    if recipe.record.target == "number":
        model.intercept_ += schema.target_middle  # it was trained on what is left after subtracting it
    else:
        model.classes_ = np.array(schema.classes)  # the names of the codes that it was trained on
    return model, schema


@contextlib.contextmanager
def run_folder(out: Path, save: bool, resume: bool) -> Iterator["Checkpoints | None"]:
    """Make the folder of a run and give where the run saves itself, if it shall; see to what is left after an error.

    A folder that has anything in it is refused, unless to resume the run there. What something outside the run ends can
    be continued, and the error says how; a run that diverged is over: its key is removed. Folders that were made for
    nothing are removed again.
    """
    from gossamer.engine.checkpoints import Checkpoints

    made = [each for each in (out / CHECKPOINT, out, *out.parents) if not each.exists()]
    try:
        _make(out, resume)
        yield Checkpoints(out / CHECKPOINT, resume=resume) if save else None
    except (DivergedError, OverspentError):
        remove_checkpoint(out)
        raise
    except (OSError, RuntimeError, KeyboardInterrupt) as error:
        if not _is_begun(out):
            raise
        raise RuntimeError(
            f"{str(error) or 'interrupted'}. The run is saved, with what it has paid for. Once the cause is gone, "
            f"repeat the command with --resume. Until the run is finished, {out / CHECKPOINT} holds the key of its "
            "noise."
        ) from error
    finally:
        for each in made:
            with contextlib.suppress(OSError):  # it is not empty, or was never made
                each.rmdir()


def _make(out: Path, resume: bool) -> None:
    """Make a folder, or refuse what is there."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file. Name a new folder for the run.")
    begun = _is_begun(out)
    if begun and not resume:
        raise ValueError(
            f"{out} has a run that was begun and not finished. Continue it with --resume. Starting again would spend "
            "the privacy again; if you want that, choose another folder."
        )
    found = sorted(each.name for each in out.glob("[!.]*") if each.name != CHECKPOINT)
    if found and not begun:
        raise ValueError(
            f"--out {out} is not empty (it has {first_few(found)}). Name a new folder: nothing is overwritten."
        )
    # Whether the folder can be made and written to is better known now than when the privacy is spent.
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=out) as file:
        file.write(bytes(_ROOM))


def remove_checkpoint(out: Path) -> None:
    """Remove what a finished run saved of itself, the key of its noise included."""
    try:
        shutil.rmtree(out / CHECKPOINT)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise OSError(
            f"{error}. The run is finished, but {out / CHECKPOINT} could not be removed. Remove it yourself: it holds "
            "the key of the noise."
        ) from error


class Payment(NamedTuple):
    """What a run costs, and the budget file that pays for it."""

    file: Path
    table: Table
    schema: Schema
    budget: "Budget"
    objective: str
    out: Path | None

    def reserve(self, checkpoints: "Checkpoints | None", planned: "Plan | Budget") -> int:
        """Reserve the cost and return the reservation's number; a run that is continued has paid, for the same."""
        from gossamer.privacy.budget_file import BudgetFile, fingerprint
        from gossamer.privacy.facts import scope_of

        def pay() -> int:
            what = f"{self.objective}, {self.out}"
            return BudgetFile(self.file).reserve(planned, self.table, what, scope_of(self.schema.person)).id

        if checkpoints is None:
            return pay()
        of = f"{self.budget} {self.objective} {self.file.resolve()} {fingerprint(self.table)}"
        return int(checkpoints.remember("reservation", of, pay))


def _is_begun(out: Path) -> bool:
    """Return whether a run has saved itself in a folder; what has a dot before its name is half of a file."""
    return any((out / CHECKPOINT).glob("[!.]*"))


def warn_of(leaks: tuple[Leak, ...]) -> tuple[Leak, ...]:
    """Warn of what was read from the data."""
    if leaks:
        warnings.warn(
            f"{len(leaks)} of the schema's declarations were read from the data, outside the privacy guarantee; the "
            "certificate names them. To confirm them as public, let `gossamer schema TABLE` draft a file, check it, "
            "and pass it as --schema.",
            PrivacyLeakWarning,
            stacklevel=3,
        )
    return leaks
