"""`gossamer predict`: what a model says about the rows of a table."""

from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import shared


def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a run, as `gossamer fit --out` wrote it.")],
    table: Annotated[Path, typer.Argument(help="CSV or Parquet with the schema's columns; it needs no target.")],
    reading: shared.Reading,
    out: Annotated[Path | None, typer.Option(help="A file .csv or .parquet; printed as CSV if not given.")] = None,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities in place of scores.")] = False,
    as_json: shared.AsJson = False,
) -> None:
    """Write the number of each row, its predicted label, and its score or probabilities; or its predicted number.

    The column that `gossamer fit --id` named is repeated.

    Of two classes, the score is that of the last one in the schema, and its column says so: above 0, that is the label.
    In CSV, a label that a spreadsheet would run as a formula begins with an apostrophe.
    """
    from gossamer.runs.folder import load
    from gossamer.runs.predicting import csv_text, predict_table, write_predictions

    if out is not None and out.resolve() == table.resolve():
        raise ValueError(f"--out {out} is the table itself. Name another file.")
    loaded = load(run)
    records = reading.read(table)
    columns = predict_table(loaded, records, proba)
    shared.note(loaded.schema.remarks(records))
    if out is None:
        shared.say(as_json, columns, csv_text(columns).rstrip("\n"))
    else:
        write_predictions(out, columns)
        shared.say(as_json, {"rows": records.n, "file": str(out)}, f"{records.n} rows written to {out}")
