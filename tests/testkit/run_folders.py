"""A small table, its schema, and the folder of a run on it."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from gossamer.cli import app

SCHEMA = """\
target = "ill"
classes = ["no", "=yes"]
group = "ward"
groups = ["A", "B"]

[columns.age]
kind = "number"
low = 0
high = 100

[columns.bill]
kind = "amount"
high = 10000

[columns.ward]
kind = "category"
values = ["A", "B"]
"""
QUICK = ("--steps", "4", "--seed", "0", "--epsilon", "2")


def write_table(path: Path, n: int = 60) -> Path:
    """Write a table whose older patients are ill; one class is spelled like a formula of a spreadsheet."""
    rng = np.random.default_rng(0)
    age, bill = rng.integers(0, 100, n), rng.integers(0, 10_000, n) * (rng.random(n) < 0.5)
    lines = [
        f"{a},{b},{'AB'[i % 2]},{'=yes' if a > 50 else 'no'}" for i, (a, b) in enumerate(zip(age, bill, strict=True))
    ]
    path.write_text("\n".join(["age,bill,ward,ill", *lines, ""]))
    return path


def write_inputs(folder: Path) -> tuple[str, str]:
    """Write the table and its schema; return their paths."""
    (folder / "schema.toml").write_text(SCHEMA)
    return str(write_table(folder / "table.csv")), str(folder / "schema.toml")


def gossamer(*arguments: object, code: int = 0):
    """Call the command line in this process; an error that `main` would print is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, Exception) and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


@functools.cache
def finished_run() -> Path:
    """Return a folder with a table, a schema and a run on them, made once; copy it before changing it."""
    folder = Path(tempfile.mkdtemp(prefix="gossamer-run-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    table, schema = write_inputs(folder)
    gossamer("fit", table, "--schema", schema, "--out", folder / "run", *QUICK)
    return folder
