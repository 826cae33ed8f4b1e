"""From the folder of a run to its report. The files may have been edited or made up: each is checked as it is read."""

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gossamer import atomic
from gossamer.budget import Budget
from gossamer.certificate import Certificate
from gossamer.report.page import render

_T = TypeVar("_T")


def write_report(folder: Path) -> Path:
    """Write report.html of a run from its certificate.json, history.csv and pipeline.json; return its path."""
    folder = Path(folder)
    certificate = _read(folder / "certificate.json", _certificate)
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
    # Whatever a file of another shape meets on its way into the classes; each names what it met.
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, csv.Error) as error:
        raise ValueError(f"{path} is broken: {error}") from None


def _certificate(text: str) -> Certificate:
    certificate = Certificate.from_json(text)
    Budget(certificate.epsilon, certificate.delta, certificate.neighbors)
    kinds: dict[str, Any] = {
        "n": int,
        **dict.fromkeys(("method", "seed"), str),
        **dict.fromkeys(("capacities", "configuration", "problem", "versions"), dict),
    }
    for name, kind in kinds.items():
        if type(getattr(certificate, name)) is not kind:
            raise TypeError(f"{name} must be of type {kind.__name__}.")
    if not all(type(size) is int and 1 <= size < 2**63 for size in (certificate.n, *certificate.capacities.values())):
        raise ValueError("n and the capacities must be whole numbers of at least 1, and n below 2⁶³.")
    numbers: list[Any] = [certificate.truncation_delta, *(query.noise_multiplier for query in certificate.schedule)]
    if not all(type(value) in (int, float) and 0 <= value < math.inf for value in numbers):
        raise ValueError("truncation_delta and the noise multipliers must be finite numbers of at least 0.")
    texts = [*certificate.assumptions, *(text for query in certificate.schedule for text in (query.name, query.clip))]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("assumptions, names and clips of queries must be texts.")
    return certificate


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
