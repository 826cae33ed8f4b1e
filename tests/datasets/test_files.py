"""Where files are looked for, and what happens when they are missing, wrong or damaged."""

import gzip
import hashlib
import lzma
import os
from pathlib import Path

import pytest

from gossamer.datasets import files

TEXT = b"1, 2, 3\n" * 100


def digest(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def server(tmp_path):
    """Return a function that publishes bytes at an address."""
    root = tmp_path / "server"
    root.mkdir()

    def publish(name, content):
        (root / name).write_bytes(content)
        return (root / name).as_uri()

    return publish


def test_directory_is_the_argument_then_the_variable_then_a_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("GOSSAMER_DATA", str(tmp_path / "variable"))
    assert files.directory(tmp_path / "argument") == tmp_path / "argument"
    assert files.directory() == tmp_path / "variable"
    monkeypatch.delenv("GOSSAMER_DATA")
    assert files.directory() == tmp_path / "cache" / "gossamer"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert files.directory() == Path.home() / ".cache" / "gossamer"


def test_a_file_in_place_is_used_as_it_is(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"anything")
    assert files.locate(tmp_path, "a.txt", url="file:///nowhere", sha256="0") == tmp_path / "a.txt"


@pytest.mark.parametrize(
    ("sent", "sha256"),
    [
        (gzip.compress(TEXT, 1, mtime=5), digest(TEXT)),
        (gzip.compress(TEXT, 1, mtime=5), digest(gzip.compress(TEXT, 1, mtime=5))),
        (TEXT, digest(TEXT)),
    ],
    ids=["compressed otherwise", "the very file", "not compressed"],
)
def test_a_download_is_compared_by_content_and_kept_compressed(tmp_path, server, sent, sha256):
    path = files.locate(tmp_path / "data", "set/a.gz", server("a", sent), sha256)
    assert gzip.decompress(path.read_bytes()) == files.read(path) == TEXT
    assert [p.name for p in path.parent.iterdir()] == ["a.gz"]


@pytest.mark.parametrize("sent", [TEXT + b"!", b"<html>", gzip.compress(TEXT)[:-9]], ids=["other", "html", "cut"])
def test_a_download_with_another_checksum_is_dropped(tmp_path, server, sent):
    with pytest.raises(ValueError, match="does not have the SHA-256 checksum") as error:
        files.locate(tmp_path / "data", "set/a.gz", server("a.gz", sent), digest(TEXT))
    assert_tells_where(error, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_a_failed_download_says_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"download from file:///nowhere/a.gz failed") as error:
        files.locate(tmp_path / "data", "set/a.gz", "file:///nowhere/a.gz", digest(TEXT))
    assert_tells_where(error, tmp_path / "data")


def test_a_file_without_an_address_says_how_to_obtain_it(tmp_path):
    with pytest.raises(FileNotFoundError, match="Ask the librarian") as error:
        files.locate(tmp_path / "data", "set/a.gz", None, None, obtain="Ask the librarian.")
    assert_tells_where(error, tmp_path / "data")


def assert_tells_where(error, directory):
    for word in ("set/a.gz", str(directory), "GOSSAMER_DATA", "--data-dir"):
        assert word in str(error.value)


def test_an_interrupted_write_leaves_nothing(tmp_path, server, monkeypatch):
    def interrupted(source, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        files.locate(tmp_path / "data", "a.gz", server("a", TEXT), digest(TEXT))
    assert list((tmp_path / "data").iterdir()) == []


FLIPPED = bytearray(gzip.compress(TEXT))
FLIPPED[-6] ^= 1  # in the checksum of the archive


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.gz", gzip.compress(TEXT)[:-9]),
        ("a.gz", bytes(FLIPPED)),
        ("a.gz", b"plain text"),
        ("a.xz", lzma.compress(TEXT)[:-9]),
        ("a.xz", b"plain text"),
    ],
    ids=["cut gzip", "corrupt gzip", "no gzip", "cut xz", "no xz"],
)
def test_a_damaged_file_is_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="is damaged or incomplete") as error:
        files.read(tmp_path / name)
    assert str(tmp_path / name) in str(error.value)
