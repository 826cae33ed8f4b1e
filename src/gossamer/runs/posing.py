"""What a recipe's estimator is given of a table: rows, targets and groups, or what it has to buy of them first."""

from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.engine.stages import Answers
from gossamer.learn._buying import CLASSES, ENDS, STAND_IN, adopted, check_classes, classes_stage, with_columns
from gossamer.learn._common import PrivateEstimator, Task
from gossamer.oracle.people import People
from gossamer.runs.recipe import Recipe
from gossamer.tables.drafting import in_order
from gossamer.tables.schema import Schema
from gossamer.tables.table import Table

if TYPE_CHECKING:
    from gossamer.privacy.budget import Budget

_TWO = ("first", "second")
"""What stands in for classes that are not known yet."""


def posed(
    table: Table, schema: Schema, recipe: Recipe, budget: "Budget", **parameters: Any
) -> tuple[PrivateEstimator, Task]:
    """Return the recipe's estimator and its task, which buys what is not declared. Nothing is spent.

    An estimator that has bought something keeps the complete schema, as `schema_`.
    """
    person = schema.person_of(table)
    if schema.is_open and recipe.record.additive:
        raise ValueError(
            f"objective = {recipe.objective!r} needs to know what each column is, and the target. Declare them: "
            "`gossamer schema TABLE` drafts a schema, and with --private it buys one."
        )
    if not schema.is_open:
        schema.check(table)
        estimator = recipe.estimator(schema, budget, **parameters)
        return estimator, estimator.pose(*records_of(table, schema, recipe), person=person)
    people = None if person is None else People.grouping(person, schema.rows_per_person)
    groups = (schema.group_of(table),) if recipe.record.grouped else ()
    finds, buys = (schema.target_undeclared == what for what in ("classes", "number"))
    labels = schema.target_texts(table) if finds else np.array([])
    numbers = schema.target_numbers(table) if buys else None
    standing_in = schema.completed(dict.fromkeys(schema.undeclared, STAND_IN))
    estimator = recipe.estimator(
        standing_in.with_target(() if buys else _TWO, ENDS if buys else None), budget, **parameters
    )

    # What is wrong with a declared target must be found before anything is spent.
    declared = np.array([]) if finds or buys else _targets_of(table, schema, recipe)

    def pose(columns: Schema, bounds: tuple[float, float] | None, answers: Answers | None) -> Task:
        classes = in_order(answers[CLASSES][0], table.decimal) if finds and answers is not None else _TWO
        check_classes(classes)
        complete = columns.with_target(() if buys else classes, bounds)
        inner = recipe.estimator(complete, budget, **parameters)
        if answers is None:
            rows, targets = np.zeros((table.n, complete.width)), np.arange(table.n) % max(len(complete.classes), 1)
            return inner.pose(rows, targets, *groups, person=person)
        if finds:
            codes = {value: code for code, value in enumerate(classes)}
            targets = np.array([codes.get(label, 0) for label in labels])
        elif buys:
            targets = _targets_of(table, complete, recipe)
        else:
            targets = declared
        task = inner.pose(complete.encode(table), targets, *groups, person=person)
        return adopted(task, estimator, inner, schema_=complete)

    more = (classes_stage(labels, budget, people),) if finds else ()
    return estimator, with_columns(schema, table, budget, pose, more=more, target=numbers, people=people)


def records_of(table: Table, schema: Schema, recipe: Recipe) -> tuple[Any, ...]:
    """Return rows, targets and, if the objective needs them, groups, as the recipe's estimator takes them.

    Classes are their places in the schema; numbers are distances from the middle of the schema's range.
    """
    groups = (schema.group_of(table),) if recipe.record.grouped else ()
    return (recipe.rows(schema, table), _targets_of(table, schema, recipe), *groups)


def _targets_of(table: Table, schema: Schema, recipe: Recipe) -> np.ndarray:
    if recipe.record.target == "number":
        return schema.target_numbers(table) - schema.target_middle
    return schema.class_codes(table)
