"""`gossamer report`: write a run's report again."""

from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import shared


def report(
    run: Annotated[Path, typer.Argument(help="The folder of a run, as `gossamer fit --out` wrote it.")],
    as_json: shared.AsJson = False,
) -> None:
    """Write RUN/report.html from the run's certificate, history and pipeline: one page that needs no network."""
    from gossamer.report import write_report
    from gossamer.runs.folder import require_finished

    require_finished(run)
    path = write_report(run)
    shared.say(as_json, {"report": str(path)}, f"written to {path}")
