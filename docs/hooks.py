"""What the build of the documentation needs besides mkdocs.yml."""

import sys
from pathlib import Path
from typing import Any

import matplotlib


def on_startup(**_: Any) -> None:
    """Let examples import their `figures`, and draw without a screen."""
    sys.path.insert(0, str(Path(__file__).parent / "examples"))
    matplotlib.use("Agg")
