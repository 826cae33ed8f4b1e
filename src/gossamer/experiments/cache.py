"""Finished runs of a long experiment, in a file of one JSON line each, so that it goes on where it was interrupted."""

import json
from pathlib import Path
from typing import Any


class Cache:
    """Outcomes of runs. A run is described by a list of all that decides it."""

    def __init__(self, path: Path):
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.found = {json.dumps(line["run"]): line for line in map(json.loads, lines)}

    def get(self, run: list[Any]) -> dict[str, Any] | None:
        """Return the outcome of a run that was described in exactly this way."""
        return self.found.get(json.dumps(run))

    def put(self, run: list[Any], **outcome: float) -> dict[str, Any]:
        """Write an outcome at once."""
        line = {"run": run, **outcome}
        self.found[json.dumps(run)] = line
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        return line
