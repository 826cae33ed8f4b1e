"""`gossamer schema`: draft what a person then confirms."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli import shared

if TYPE_CHECKING:
    from gossamer.tables.schema import Schema
    from gossamer.tables.table import Table


def schema(
    table: Annotated[Path, typer.Argument(help="CSV or Parquet, one row a record.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    reading: shared.Reading,
    group: Annotated[str | None, typer.Option(help="The column of groups, for worst-group.")] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write the schema; printed if not given.")] = None,
    private: Annotated[
        bool, typer.Option("--private", help="Buy it by private answers instead, which costs --epsilon and protects.")
    ] = False,
    epsilon: Annotated[float, typer.Option(help="With --private: ε of what is bought.")] = 0.1,
    delta: Annotated[float | None, typer.Option(help="With --private: δ; n ** -1.1 if not given.")] = None,
    number: Annotated[
        bool, typer.Option("--number", help="With --private: the target is a number. It is not read from the data.")
    ] = False,
    person: Annotated[
        str | None, typer.Option(help="With --private: the column of ids, if persons are protected, by ten rows each.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(help="With --private: a new file for the certificate of what was bought.")
    ] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Draft a schema of a table: kinds of columns, bounds and categories, all of them read from the data.

    What is read from the data leaks until a person confirms that it is public: compare each bound with what is known
    without the records, correct it, and delete the line `read_from_data = true` beside it.
    """
    from gossamer.base import atomic
    from gossamer.privacy import wording
    from gossamer.tables.drafting import draft
    from gossamer.tables.flags import schema_from_flags
    from gossamer.tables.schema_files import schema_to_dict, schema_to_toml

    if out is not None and out.exists():
        raise ValueError(f"{out} exists. Choose another name: what a person has confirmed in it would be lost.")
    records = reading.read(table)
    if private:
        if group is not None:
            raise ValueError("--group does not go with --private: write group and groups, if public, into the schema.")
        opened = schema_from_flags(records, target, number=number, person=person)
        _buy(records, opened, out, certificate, promise=(epsilon, delta), as_json=as_json)
        return
    if person is not None:
        raise ValueError('--person goes with --private. A draft is about rows: write person = "..." into its file.')
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


def _buy(
    records: "Table",
    opened: "Schema",
    out: Path | None,
    certificate: Path | None,
    *,
    promise: tuple[float, float | None],
    as_json: bool,
) -> None:
    """Buy a schema, and say what it cost."""
    import json

    from gossamer.base import atomic
    from gossamer.runs import fitting
    from gossamer.runs.private_draft import private_schema
    from gossamer.tables.schema_files import schema_to_dict, schema_to_toml

    if certificate is not None:
        shared.require_writable("--certificate", certificate)
    shared.note(opened.remarks(records))
    with shared.warnings_as_lines():
        bought, promised = private_schema(records, opened, fitting.promise(records, opened, *promise, "replace_one"))
    if certificate is not None:
        atomic.write_text(certificate, promised.to_json())
    if out is not None:
        atomic.write_text(out, schema_to_toml(bought), 0o600)
    shared.say(
        as_json,
        {
            "file": None if out is None else str(out),
            "schema": schema_to_dict(bought),
            "certificate": json.loads(promised.to_json()),
        },
        f"bought {len(bought.columns)} columns into {out}" if out is not None else schema_to_toml(bought).rstrip("\n"),
    )
    typer.echo(
        f"gossamer: note: this schema has cost ({promised.epsilon:g}, {promised.delta:g}) of the records' privacy, "
        "whatever is trained with it later. To use it again costs nothing.",
        err=True,
    )
