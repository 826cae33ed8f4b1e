"""Where data files are, how they come there, and how they are read.

A file that is in place is used as it is: its owner put it there. Only what is downloaded is compared with a checksum,
that of the file or of its uncompressed content, because servers compress the same content differently.
"""

import gzip
import hashlib
import http.client
import lzma
import os
import urllib.request
import zlib
from pathlib import Path

from gossamer.base.atomic import write_bytes

_TIMEOUT_SECONDS = 60
_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"


def directory(data_dir: str | Path | None = None) -> Path:
    """Return where data files are: the argument, else $GOSSAMER_DATA, else a cache directory of this user."""
    if data_dir is not None:
        return Path(data_dir).expanduser()
    if given := os.environ.get("GOSSAMER_DATA"):
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "gossamer"


def locate(
    data_dir: str | Path | None, relative_path: str, url: str | None, sha256: str | None, obtain: str = ""
) -> Path:
    """Return the path of a data file, downloading it first if it is missing.

    Args:
      data_dir: see `directory`.
      relative_path: the file, within that directory.
      url: a public address of it, or None if there is none.
      sha256: the checksum of what the address sends, or of its uncompressed content.
      obtain: how a person gets the file, for the error.
    """
    path = directory(data_dir) / relative_path
    if path.is_file():
        return path

    def explain(why: str) -> str:
        return (
            f"{relative_path} is not in {directory(data_dir)}: {why}. Put the file there, or name the directory that "
            f"has it by --data-dir or the environment variable GOSSAMER_DATA. {obtain}"
        ).rstrip()

    if url is None:
        raise FileNotFoundError(explain("it cannot be downloaded in this form"))
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as response:
            sent = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise FileNotFoundError(explain(f"the download from {url} failed ({error})")) from error
    if not _has_digest(sent, sha256):
        raise ValueError(explain(f"what {url} sent does not have the SHA-256 checksum {sha256} and was dropped"))
    if path.suffix == ".gz" and not sent.startswith(_GZIP):
        sent = gzip.compress(sent, mtime=0)
    write_bytes(path, sent)
    return path


def read(path: Path) -> bytes:
    """Return the uncompressed content of a file."""
    return _decompress(path.read_bytes(), str(path))


def _decompress(content: bytes, name: str) -> bytes:
    try:
        if name.endswith(".gz") or content.startswith(_GZIP):
            return gzip.decompress(content)
        if name.endswith(".xz") or content.startswith(_XZ):
            return lzma.decompress(content)
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise ValueError(f"{name} is damaged or incomplete: {error}. Delete it and get it again.") from error
    return content


def _has_digest(sent: bytes, sha256: str | None) -> bool:
    if hashlib.sha256(sent).hexdigest() == sha256:
        return True
    try:
        return hashlib.sha256(_decompress(sent, "the download")).hexdigest() == sha256
    except ValueError:
        return False
