"""Files that are written at once or not at all: no reader and no crash ever meets half of one."""

import os
import tempfile
from pathlib import Path


def write_bytes(path: Path, content: bytes, mode: int = 0o644) -> None:
    """Write a file, durably, under a name of its own, and then move it into place with the given permissions.

    A process that is killed leaves at most a hidden file behind, which nobody reads.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # readable by its owner alone
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def write_text(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file of text in UTF-8."""
    write_bytes(path, text.encode("utf-8"), mode)


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
