"""`gossamer schema`: draft what a person then confirms."""

from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import shared


def schema(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet, one row a record.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    reading: shared.Reading,
    group: Annotated[str | None, typer.Option(help="The column of groups, for worst-group.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the schema; printed if not given.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Draft a schema of a table: kinds of columns, bounds and categories, all of them read from the data.

    What is read from the data leaks until a person confirms that it is public: compare each bound with what is known
    without the records, correct it, and delete the line `read_from_data = true` beside it.
    """
    from gossamer.base import atomic
    from gossamer.privacy import wording
    from gossamer.tables.drafting import draft
    from gossamer.tables.schema_files import schema_to_dict, schema_to_toml

    if out is not None and out.exists():
        raise ValueError(f"{out} exists. Choose another name: what a person has confirmed in it would be lost.")
    records = reading.read(table)
    drafted = draft(records, target, group)
    shared.note(drafted.remarks(records))
    leaks = drafted.leaks()
    text = schema_to_toml(drafted)
    if out is not None:
        atomic.write_text(out, text, 0o600)
    shared.say(
        as_json,
        {
            "file": None if out is None else str(out),
            "schema": schema_to_dict(drafted),
            "leaks": list(map(wording.leak, leaks)),
        },
        f"drafted {len(drafted.columns)} columns into {out}" if out is not None else text.rstrip("\n"),
    )
    typer.echo(
        f"gossamer: warning: {len(leaks)} declarations were read from the data and leak until they are confirmed. "
        "Compare each with public knowledge, correct it, and delete the line `..read_from_data = true` beside it.",
        err=True,
    )
