"""A schema that costs and protects: what is not declared is bought, and nothing is trained."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from gossamer.engine.bounds import bounds_stage, check_size, found_bounds
from gossamer.engine.stages import plan_stages, solve_stages
from gossamer.learn._buying import CLASSES, cells_of, check_classes, classes_stage, kind_of
from gossamer.oracle.people import People
from gossamer.privacy.stages import TRAINING
from gossamer.tables.drafting import in_order
from gossamer.tables.schema import Schema
from gossamer.tables.table import Table

if TYPE_CHECKING:
    from gossamer.privacy.budget import Budget
    from gossamer.privacy.certificate import Certificate


def private_schema(
    table: Table, schema: Schema, budget: "Budget", seed: int | None = None
) -> tuple[Schema, "Certificate"]:
    """Buy what a schema does not declare; return it in full, and the certificate of what that cost.

    To train with the schema, on the same or on other records, adds nothing to that cost but the training's own.
    """
    names, noise = schema.undeclared, [0.0]
    ids = schema.person_of(table)
    people = None if ids is None else People.grouping(ids, schema.rows_per_person)
    n = table.n if people is None else people.n
    numbers = schema.target_numbers(table) if schema.target_undeclared == "number" else None
    searched = bounds_stage(cells_of(schema, table, numbers, people), lambda: noise[0])
    stages = [dataclasses.replace(searched, name=TRAINING, share=1.0)]
    if schema.target_undeclared == "classes":
        found = classes_stage(np.asarray(schema.target_texts(table)), budget, people)
        stages = [found, dataclasses.replace(stages[0], share=1.0 - found.share)]
    planned = plan_stages(stages, n, budget)
    (query,) = searched.method.schedule(n)
    noise[0] = planned.schedule[query.name].calibrated_noise()
    check_size(n, len(names) + (numbers is not None), noise[0])
    result, answers = solve_stages(stages, n, budget, seed=seed, progress=False)
    bounds = found_bounds(result.params, noise[0], n)
    last = None if numbers is None else bounds.pop()
    classes = in_order(answers[CLASSES][0], table.decimal) if CLASSES in answers else ()
    if CLASSES in answers:
        check_classes(classes)
    kinds = dict(zip(names, map(kind_of, bounds), strict=True))
    ends = last if isinstance(last, tuple) else None
    return schema.completed(kinds).with_target(classes, ends), result.certificate
