"""What a run buys of a table of which little is declared: kinds and bounds of columns, classes, the size of targets.

They decide what each record's row is, so they must be public, or private answers. `with_columns` makes of the task of a
public stand-in one that buys first, in the schedule of the training, and then encodes the table by the answers.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from gossamer.engine.bounds import BOUNDS, Cells, bounds_stage, check_size, found_bounds, on_scale
from gossamer.engine.discovery import discovery_stage
from gossamer.engine.stages import Answers, Stage, plan_stages
from gossamer.learn._common import PrivateEstimator, Task
from gossamer.oracle.people import People
from gossamer.privacy.budget import Budget
from gossamer.tables.encoding import Encoding
from gossamer.tables.kinds import Hashed, Ignore, Kind, Number
from gossamer.tables.table import Table

CLASSES = "classes of the target"
"""The name of the stage that discovers them, and of its query on certificates."""
STAND_IN = Number(-1.0, 1.0)
"""What an undeclared column is taken for until it is known."""
ENDS = (STAND_IN.low, STAND_IN.high)
E = TypeVar("E", bound=Encoding)


def with_columns(
    encoding: E,
    table: Table,
    budget: Budget,
    pose: Callable[[E, tuple[float, float] | None, Answers | None], Task],
    *,
    more: tuple[Stage, ...] = (),
    target: np.ndarray | None = None,
    people: People | None = None,
) -> Task:
    """Return a task that buys what is not declared of a table's columns, and then is what `pose` makes of that.

    Args:
      encoding: what is declared.
      table: the records.
      budget: of the whole run.
      pose: `pose(encoding, bounds, answers)` → the task of a table that is declared in full, with the targets' bounds.
        Without answers (None) it poses what stands in for it, and must not look at records.
      more: what else is bought.
      target: numbers whose bounds are bought too.
      people: whose row each is (`People.grouping`), if persons are protected and not rows.
    """
    n = table.n if people is None else people.n
    names = encoding.undeclared
    encoding.check(table)
    if not (names or more or target is not None):
        return pose(encoding, None, {})
    standing_in = pose(encoding.completed(dict.fromkeys(names, STAND_IN)), None if target is None else ENDS, None)
    noise = [0.0]
    stages = [*more]
    if names or target is not None:
        stages.append(bounds_stage(cells_of(encoding, table, target, people), lambda: noise[0]))

    def complete(answers: Answers) -> Task:
        found = found_bounds(answers[BOUNDS], noise[0], n) if BOUNDS in answers else []
        last = None if target is None else found.pop()
        completed = encoding.completed(dict(zip(names, map(kind_of, found), strict=True)))
        if not completed.features:
            raise ValueError(
                "hardly any record has a value in any of the columns, as far as noise lets see. The privacy of this "
                "stage is spent. Look at the table, and declare what its columns are."
            )
        task = pose(completed, last if last is None or isinstance(last, tuple) else ENDS, answers)
        task = task if task.complete is None else task.complete(answers)
        # A default that depends on the number of columns would ask otherwise than was planned.
        return task if _asks_like(task, standing_in, n) else task._replace(method=standing_in.method)

    task = standing_in._replace(bought=(*stages, *standing_in.bought), complete=complete)
    planned = plan_stages(task.stages(), n, budget).schedule
    if names or target is not None:
        noise[0] = planned[BOUNDS].calibrated_noise()
        check_size(n, len(names) + (target is not None), noise[0])
    return task


def _asks_like(task: Task, other: Task, n: int) -> bool:
    """Return whether two tasks ask the same, with thresholds that may differ."""
    asked = [[(q.name, q.count, q.sampling, q.noise) for q in each.method.schedule(n)] for each in (task, other)]
    return asked[0] == asked[1]


def cells_of(
    encoding: Encoding, table: Table, target: np.ndarray | None, people: People | None = None
) -> Cells | People:
    """Return what the search for bounds sees of records; if they are persons, of the rows that each has."""
    numbers, there = encoding.cells(table, encoding.undeclared)
    if target is not None:
        numbers, there = np.column_stack([numbers, target]), np.column_stack([there, np.ones(len(target), bool)])
    state = np.where(np.isnan(numbers), np.where(there, 1, 2), 0)
    cells = Cells(on_scale(numbers), state.astype(np.int8))
    return cells if people is None else people.of_table(cells)


def classes_stage(labels: np.ndarray, budget: Budget, people: People | None = None) -> Stage:
    """Return the stage that discovers the classes; a person, like a row, has one: that of its first row."""
    return discovery_stage(CLASSES, [labels if people is None else people.first_of(labels)], budget)


def kind_of(found: tuple[float, float] | str) -> Kind:
    """Return what a column is, by the answer about it."""
    if isinstance(found, tuple):
        return Number(*found)
    return Hashed() if found == "text" else Ignore("hardly any record has a value")


def check_classes(classes: Sequence[Any]) -> None:
    """Refuse fewer than two discovered classes. A record of a class that was not discovered counts as of the first."""
    if len(classes) < 2:
        raise ValueError(
            f"{len(classes)} of the classes were frequent enough to be discovered, and at least two are needed. The "
            "privacy of this stage is spent. Declare the classes from public knowledge, or allow a larger epsilon."
        )


def adopted(task: Task, estimator: PrivateEstimator, inner: PrivateEstimator, **own: Any) -> Task:
    """Return the task of an inner estimator, which sees arrays, so that the outer one gets what that finds out."""

    def adopt(done: Task) -> Task:
        found = {name: value for name, value in vars(inner).items() if name.endswith("_")}
        for name, value in {**found, **own}.items():
            setattr(estimator, name, value)
        return done

    complete = task.complete
    if complete is None:
        return adopt(task)
    return task._replace(complete=lambda answers: adopt(complete(answers)))
