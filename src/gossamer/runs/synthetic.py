"""Tables made from a schema alone: nobody's records."""

import numpy as np

from gossamer.tables.encoding import Declaration
from gossamer.tables.kinds import Amount, Category, Number
from gossamer.tables.schema import Schema
from gossamer.tables.table import Table, TableBuilder


def synthetic_table(schema: Schema, n: int, seed: int) -> Table:
    """Return n rows with every value drawn by itself: uniform between bounds and among categories, classes and groups.

    If persons are protected, each has one row.
    Half of the amounts are 0. Targets have nothing to do with the rest: a model knows of them only what it memorised.
    """
    rng = np.random.default_rng(seed)
    columns = {name: _column(declared, n, rng) for name, declared in schema.features.items()}
    if schema.target_range is not None:
        columns[schema.target] = _column(Declaration(Number(*schema.target_range)), n, rng)
    lists = {schema.target: schema.classes, schema.group: schema.groups}
    columns |= {name: rng.choice(values, n).tolist() for name, values in lists.items() if name is not None and values}
    if schema.person is not None:
        columns[schema.person] = list(map(str, range(n)))
    builder = TableBuilder("a table made from the schema", tuple(columns))
    builder.add(columns.values())
    return builder.table()


def _column(declared: Declaration, n: int, rng: np.random.Generator) -> list[str]:
    kind = declared.kind
    if isinstance(kind, Category):
        return rng.choice(kind.values, n).tolist()
    low = 0.0 if isinstance(kind, Amount) else float(kind.low)  # type: ignore[union-attr]  # ignored ones are no features
    values = low + rng.random(n) * (float(kind.high) - low)  # type: ignore[union-attr]
    if isinstance(kind, Amount):
        values *= rng.random(n) < 0.5
    return [repr(value) for value in values.tolist()]
