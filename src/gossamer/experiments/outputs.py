"""How experiments write what they found: tables, figures, certificates."""

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from gossamer.privacy.certificate import Certificate


def write_table(
    path_stem: Path,
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    command: str,
    notes: Sequence[str] = (),
) -> None:
    """Write a table twice: `path_stem`.md with four digits to read, `path_stem`.csv with eight to compute with.

    Args:
      path_stem: where, without a suffix.
      title: what the table shows.
      columns: its header.
      rows: numbers (also of NumPy or JAX), text, or None for an empty cell.
      command: the command that makes it again.
      notes: sentences below the table.
    """
    for number, row in enumerate(rows, 1):
        if len(row) != len(columns):
            raise ValueError(f"row {number} of {title!r} has {len(row)} cells for {len(columns)} columns.")
    plain = [[_plain(cell) for cell in row] for row in rows]
    numeric = [all(isinstance(row[j], int | float | None) for row in plain) for j in range(len(columns))]
    lines = [
        f"# {title}",
        "",
        _line(_escape(column) for column in columns),
        _line("---:" if right else "---" for right in numeric),
        *(_line(_readable(cell) for cell in row) for row in plain),
        "",
        *(f"- {note}" for note in notes),
        *([""] if notes else []),
        f"Made by `{command}`.",
    ]
    _suffixed(path_stem, ".md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with _suffixed(path_stem, ".csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([f"{cell:.8g}" if isinstance(cell, float) else cell for cell in row] for row in plain)


def save_figure(path_stem: Path, draw: Callable[[Any], None], size: tuple[float, float] = (7.0, 4.5)) -> None:
    """Write `path_stem`.png: `draw` is handed an empty matplotlib figure of `size` inches."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib, which is not installed: pip install gossamer[plots]") from error
    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    # Without the version of matplotlib in it, the same figure is the same file.
    figure.savefig(_suffixed(path_stem, ".png"), dpi=150, metadata={"Software": None})


def write_certificates(directory: Path, certificates: Mapping[str, Certificate]) -> None:
    """Write each certificate to `directory`/NAME.json, for `gossamer verify`."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, certificate in certificates.items():
        _suffixed(directory / name, ".json").write_text(certificate.to_json() + "\n", encoding="utf-8")


def _suffixed(path_stem: Path, suffix: str) -> Path:
    # Not `with_suffix`: a stem such as "epsilon-0.5" has a dot of its own.
    return path_stem.with_name(path_stem.name + suffix)


def _plain(cell: Any) -> Any:
    """Turn a scalar of NumPy or JAX into Python's own."""
    return cell.item() if hasattr(cell, "item") else cell


def _readable(cell: Any) -> str:
    if cell is None:
        return ""
    if not isinstance(cell, float):
        return _escape(str(cell))
    if math.isfinite(cell) and 1e4 <= abs(cell) < 1e7:
        return f"{cell:.0f}"  # where four digits would mean an exponent
    return f"{cell:.4g}"


def _escape(text: str) -> str:
    return text.replace("|", r"\|")


def _line(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"
