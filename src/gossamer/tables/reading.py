"""Tables from files: CSV and its relatives, plain or compressed by gzip, and Parquet.

Errors say where in the file the trouble is and never what stands there: a terminal or a log is not a place for records.
The exception is the first line, which holds the names of the columns.
"""

import codecs
import csv
import dataclasses
import gzip
import hashlib
import io
import itertools
import re
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path

from gossamer.tables.numerals import MARKS
from gossamer.tables.parquet import parse_parquet
from gossamer.tables.table import Table, TableBuilder

DELIMITERS = (",", ";", "\t", "|")
"""The separators that are tried on the first line."""

_PIECE = 4096
"""Rows turned into columns at a time."""
_FIRST_LINE = 1 << 20
"""The delimiter is looked for in so many characters."""


def read_table(
    path: str | Path, *, encoding: str | None = None, delimiter: str | None = None, decimal: str = "."
) -> Table:
    """Read a table from a file.

    Args:
      path: a file .csv, .tsv or .txt, or one of these with .gz after it, whose first line names the columns; or a
        file .parquet. Empty lines are skipped.
      encoding: of a text file, such as "cp1252"; None takes UTF-8, or UTF-16 if the file begins with its mark.
      delimiter: between the fields of a text file; None takes the one of `DELIMITERS` that the first line has most
        often outside quotes, and tabs in a .tsv.
      decimal: what stands before the decimals of numbers in a text file: "." or ",".
    """
    path = Path(path)
    if str(path) == "-":
        raise ValueError("a table is read from a file, not from standard input ('-'). Save it as .csv and name that.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder. Name one table: a file .csv or .parquet.")
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist. Check the path.")
    name = path.name.lower()
    plain = name.removesuffix(".gz")
    if not (plain.endswith((".csv", ".tsv", ".txt")) or name.endswith(".parquet")):
        raise ValueError(
            f"{path} is not known by its ending as a table. Save it as .csv (.csv.gz, .tsv, .txt) or .parquet; "
            "a spreadsheet has 'Save as' for that."
        )
    content = path.read_bytes()  # once: what is parsed is what the digest is of
    if name.endswith(".parquet"):
        table = parse_parquet(content, path)
    else:
        text = _decoded(content if plain == name else _unzipped(content, path), str(path), encoding)
        if delimiter is None and plain.endswith(".tsv"):
            delimiter = "\t"
        table = parse_csv(text, str(path), delimiter=delimiter, decimal=decimal)
    return dataclasses.replace(table, sha256=hashlib.sha256(content).hexdigest())


def parse_csv(text: str, source: str, *, delimiter: str | None = None, decimal: str = ".") -> Table:
    """Read a table from text whose first line names the columns; `source` is what errors call it."""
    if not text.strip():
        raise ValueError(f"{source} is empty.")
    if decimal not in MARKS:
        raise ValueError(f"decimal = {decimal!r} must be one of {', '.join(map(repr, MARKS))}.")
    if delimiter is None:
        delimiter = _delimiter(text)
    elif len(delimiter) != 1 or delimiter in '"\r\n \0':
        raise ValueError(f"delimiter = {delimiter!r} must be one character, such as one of {DELIMITERS}.")
    rows = _rows(text, source, delimiter)
    _, header = next(rows)
    table = TableBuilder(source, header)
    lines = array("q")
    while piece := list(itertools.islice(rows, _PIECE)):
        numbers, fields = zip(*piece, strict=True)
        lines.extend(numbers)
        for number, row in piece:
            if len(row) != len(header):
                raise ValueError(
                    f"{source}, line {number}: {len(row)} fields where the first line has {len(header)}. Look for a "
                    f"missing or stray {delimiter!r} or quote there; a field that contains {delimiter!r} needs quotes "
                    "around it."
                )
        table.add(zip(*fields, strict=True))
    return dataclasses.replace(table.table(lines), decimal=decimal)


def _rows(text: str, source: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each record with the number of the line where it ends, without empty lines."""
    # Strict: a quote that is never closed would swallow the rest of the file as one field.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except csv.Error as error:
        raise ValueError(
            f"{source}, line {reader.line_num}: {error}. Is a quote missing or left open there or before?"
        ) from None


def _delimiter(text: str) -> str:
    bare = re.sub(r'"[^"]*"', "", text[:_FIRST_LINE])
    first_line = re.split(r"[\r\n]", bare.lstrip("\r\n"), maxsplit=1)[0]
    return max(DELIMITERS, key=first_line.count)


def _decoded(content: bytes, source: str, encoding: str | None) -> str:
    if encoding is None:
        encoding = "utf-16" if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        if b"\0" in content:
            raise ValueError(_no_text(source, f"{content.index(0)} bytes")) from None
        raise ValueError(
            f"{source} is not text in {encoding}: byte {error.start} does not fit. Say which encoding it has, for "
            'example encoding="cp1252" (--encoding cp1252) for files of older Windows programs, or save it as UTF-8.'
        ) from None
    except (LookupError, UnicodeError):
        raise ValueError(
            f"encoding = {encoding!r} is not a known text encoding; try utf-8, utf-16 or cp1252."
        ) from None
    if "\0" in text:
        raise ValueError(_no_text(source, f"{text.index(chr(0))} characters"))
    return text.removeprefix("\ufeff")  # the mark of UTF-8, which Windows programs write


def _no_text(source: str, before: str) -> str:
    return (
        f"{source} has a NUL character (the first after {before}), so it is not a text table: spreadsheets, pictures "
        "and archives have them, whatever their ending is. Export the table as CSV in UTF-8; if it is UTF-16 without a "
        'mark, pass encoding="utf-16-le" (--encoding utf-16-le).'
    )


def _unzipped(content: bytes, path: Path) -> bytes:
    try:
        return gzip.decompress(content)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ValueError(f"{path} is not a whole gzip file ({error}). Compress or copy it again.") from None
