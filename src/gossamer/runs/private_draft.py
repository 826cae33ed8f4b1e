"""A schema that costs and protects: what is not declared is bought, and nothing is trained."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from gossamer.engine.bounds import bounds_stage, check_size, found_bounds
from gossamer.engine.discovery import discovery_stage
from gossamer.engine.stages import plan_stages, solve_stages
from gossamer.learn._buying import CLASSES, cells_of, check_classes, kind_of
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
    numbers = schema.target_numbers(table) if schema.target_undeclared == "number" else None
    searched = bounds_stage(cells_of(schema, table, numbers), lambda: noise[0])
    stages = [dataclasses.replace(searched, name=TRAINING, share=1.0)]
    if schema.target_undeclared == "classes":
        found = discovery_stage(CLASSES, [np.asarray(schema.target_texts(table))], budget)
        stages = [found, dataclasses.replace(stages[0], share=1.0 - found.share)]
    planned = plan_stages(stages, table.n, budget)
    (query,) = searched.method.schedule(table.n)
    noise[0] = planned.schedule[query.name].calibrated_noise()
    check_size(table.n, len(names) + (numbers is not None), noise[0])
    result, answers = solve_stages(stages, table.n, budget, seed=seed, progress=False)
    bounds = found_bounds(result.params, noise[0], table.n)
    last = None if numbers is None else bounds.pop()
    classes = in_order(answers[CLASSES][0], table.decimal) if CLASSES in answers else ()
    if CLASSES in answers:
        check_classes(classes)
    kinds = dict(zip(names, map(kind_of, bounds), strict=True))
    ends = last if isinstance(last, tuple) else None
    return schema.completed(kinds).with_target(classes, ends), result.certificate
