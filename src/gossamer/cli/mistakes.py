"""What a mistake in the input is called: one sentence that names the file and what to do."""

import errno

_REASONS = {
    errno.ENOENT: "does not exist. Check the path.",
    errno.EEXIST: "is a file where a folder is needed. Check the path.",
    errno.ENOTDIR: "cannot exist: a part of this path is a file, not a folder. Check the path.",
    errno.EISDIR: "is a folder. Name a file.",
    errno.EACCES: "cannot be used: you do not have permission. Ask for it, or choose another place.",
    errno.EPERM: "cannot be used: you do not have permission. Ask for it, or choose another place.",
    errno.EROFS: "cannot be written to: the disk is read-only. Choose another place.",
    errno.ENOSPC: "cannot be written: no space left on the disk. Make room, or choose another place.",
}
"""What the operating system's errors mean for the file that they name."""


def sentence(error: Exception) -> str:
    """Return what an error says; of the operating system's own, what it means for the file."""
    if isinstance(error, OSError) and error.filename is not None and error.errno in _REASONS:
        return f"{error.filename} {_REASONS[error.errno]}"
    return str(error)
