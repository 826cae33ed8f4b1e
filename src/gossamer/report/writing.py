"""From the folder of a run to its report. The files may have been edited or made up: each is checked as it is read."""

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gossamer.base import atomic
from gossamer.privacy.certificate import Certificate
from gossamer.report.page import render

_T = TypeVar("_T")


def write_report(folder: Path) -> Path:
    """Write report.html of a run from its certificate.json, history.csv and pipeline.json; return its path."""
    folder = Path(folder)
    certificate = _read(folder / "certificate.json", Certificate.from_json)
    history = _read(folder / "history.csv", _history)
    pipeline = _read(folder / "pipeline.json", _pipeline)
    path = folder / "report.html"
    atomic.write_text(path, render(certificate, history, pipeline))
    return path


def _read(path: Path, parse: Callable[[str], _T]) -> _T:
    try:
        return parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing. Name the folder that `gossamer fit --out` wrote.") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8: byte {error.start} does not fit.") from None
    except (RecursionError, TypeError, ValueError, csv.Error) as error:
        raise ValueError(f"{path} is broken: {error}") from None


def _history(text: str) -> dict[str, np.ndarray]:
    header, *rows = csv.reader(text.splitlines()) if text.strip() else [[]]
    if len(set(header)) < len(header):
        raise ValueError("two columns have the same name.")
    for line, row in enumerate(rows, start=2):
        if len(row) != len(header):
            raise ValueError(f"line {line} has {len(row)} cells, the first line {len(header)}.")
    return {
        name: np.array([float(row[column]) if row[column] else math.nan for row in rows])
        for column, name in enumerate(header)
    }


def _pipeline(text: str) -> dict[str, Any]:
    content = json.loads(text)
    if not isinstance(content, dict):
        raise TypeError("it must hold one JSON object.")
    return content
