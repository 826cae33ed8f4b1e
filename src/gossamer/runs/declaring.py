"""Where a run's records come from, and what is public about them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from gossamer.base.messages import is_whole
from gossamer.learn._objectives import Objective
from gossamer.runs import demo
from gossamer.tables.flags import schema_from_flags
from gossamer.tables.schema import Schema
from gossamer.tables.schema_files import read_schema
from gossamer.tables.table import Table


def gather(
    read: Callable[[Path], Table],
    table: Path | None,
    test: Path | None,
    objective: Objective,
    declared: Mapping[str, Any],
) -> tuple[Table, Table | None, Schema]:
    """Return the records, the held-out ones if any, and what is public about them: the demo's if there is no table.

    `declared` is what flags say about the table, by their names.
    """
    if table is not None:
        records = read(table)
        return records, None if test is None else read(test), declare(records, objective, **declared)
    if test is not None or any(declared.values()):
        raise ValueError("TABLE is missing: options about columns need one. Without any, a public table is the demo.")
    return demo.breast_cancer() if objective.target == "classes" else demo.diabetes()


def declare(
    table: Table,
    objective: Objective,
    *,
    schema: Path | None = None,
    target: str | None = None,
    group: str | None = None,
    person: str | None = None,
    rows_per_person: int | None = None,
    id: str | None = None,
    missing: Sequence[str] | None = None,
    **flags: Any,
) -> Schema:
    """Return the schema of a file, or as flags declare it; what they leave out has to be bought."""
    given = {name: value for name, value in flags.items() if value}
    if rows_per_person is not None and not is_whole(rows_per_person):
        raise ValueError(f"--rows-per-person {rows_per_person} must be a whole number of at least 1.")
    if schema is None:
        if target is None:
            raise ValueError("--target is missing: name the column to predict.")
        if person is not None:
            given |= {"person": person, "rows_per_person": rows_per_person or 10}
        elif rows_per_person is not None:
            raise ValueError("--rows-per-person goes with --person, the column that says whose row it is.")
        if id is not None:
            given["ignore"] = [*given.get("ignore", ()), id]
        flagged = schema_from_flags(table, target, group=group, number=objective.target == "number", **given)
        return replace(flagged, id=id).with_absent(missing or ())
    read = read_schema(schema)
    if missing:
        raise ValueError(f'--missing does not go with --schema. Write absent = ["..."] into parts of {schema}.')
    if read.group is None and (group is not None or "groups" in given):
        raise ValueError(
            f"{schema} names no group. Write two lines at the top of it, in place of --group and --groups: group = "
            f'"{group or "COLUMN"}" and groups = ["a", "b"], its public values.'
        )
    if given:
        raise ValueError(f"--schema does not go with flags for {', '.join(given)}. Write them into {schema}.")
    roles: tuple[tuple[str, Any, Any], ...] = (
        ("target", target, read.target),
        ("group", group, read.group),
        ("person", person, read.person),
        ("id", id, read.id),
        ("rows-per-person", rows_per_person, None if read.person is None else read.rows_per_person),
    )
    for name, wanted, found in roles:
        if wanted is not None and wanted != found:
            raise ValueError(
                f"--{name} {wanted} differs from {schema}, where {name.replace('-', '_')} = {found!r}. Correct one of "
                "them."
            )
    return read
