"""`gossamer reproduce`: the papers' tables and figures."""

from pathlib import Path
from typing import Annotated

import typer

from gossamer.cli import shared
from gossamer.experiments import NAMES, Settings, run


def reproduce(
    name: Annotated[str, typer.Argument(help=f"Which experiment: {', '.join(NAMES)}.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="Where data files are; else $GOSSAMER_DATA, else a cache directory.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where to write results; ./reproduce/NAME if not given.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version that only shows that it works.")] = False,
    seed: Annotated[int, typer.Option(help="Fixes all randomness: the data sets are public.")] = 0,
    data: Annotated[str | None, typer.Option(help="Which data set, where an experiment has a choice.")] = None,
    as_json: shared.AsJson = False,
) -> None:
    """Make a paper's tables and figures again, from public data."""
    settings = Settings(data_dir, out if out is not None else Path("reproduce", name), quick, seed, data)
    run(name, settings)
    shared.say(as_json, {"experiment": name, "folder": str(settings.out)}, f"written to {settings.out}")
