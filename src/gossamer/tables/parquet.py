"""Tables from Parquet and Arrow files, by pyarrow, which is optional."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gossamer.tables.table import Table, TableBuilder

_PIECE = 1 << 16


def parse_parquet(content: bytes, path: Path) -> Table:
    """Read the bytes of a Parquet file, every value as the text that a CSV would have: 3, 2.5, true, 2026-01-31."""
    with _opened(path, io.BytesIO(content)) as file:
        return _table(path, file.read())


def parquet_pieces(path: Path) -> tuple[int, Iterator[Table]]:
    """Return the number of rows of a Parquet or Arrow file, and its tables piece by piece."""
    with _opened(path) as file:
        rows = file.num_rows if isinstance(file, _ArrowFile) else file.metadata.num_rows

    def pieces() -> Iterator[Table]:
        import pyarrow as pa

        with _opened(path) as file:
            for batch in file.iter_batches(batch_size=_PIECE):
                if batch.num_rows:
                    yield _table(path, pa.Table.from_batches([batch]))

    return rows, pieces()


class _ArrowFile:
    """An Arrow file with the face of a Parquet file."""

    def __init__(self, path: Path):
        import pyarrow as pa

        self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
        batches = range(self._reader.num_record_batches)
        self.num_rows = sum(self._reader.get_batch(i).num_rows for i in batches)

    def iter_batches(self, batch_size: int) -> Iterator[Any]:
        """Yield the rows, at most so many at a time."""
        for i in range(self._reader.num_record_batches):
            batch = self._reader.get_batch(i)
            for start in range(0, batch.num_rows, batch_size):
                yield batch.slice(start, batch_size)


@contextmanager
def _opened(path: Path, content: io.BytesIO | None = None) -> Iterator[Any]:
    """Open a file, or what was read from it."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError(
            f"{path} is a Parquet file, and reading it needs pyarrow: pip install 'gossamer[parquet]'. "
            "Or save the table as CSV."
        ) from None
    try:
        yield _ArrowFile(path) if path.suffix in (".arrow", ".feather") else pq.ParquetFile(content or path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"{path} could not be read as Parquet ({reason}). Export or copy it again.") from None


def _table(path: Path, arrow: Any) -> Table:
    table = TableBuilder(str(path), arrow.column_names)
    for name, column in zip(arrow.column_names, arrow.columns, strict=True):
        if not _is_plain(column.type):
            raise ValueError(
                f"{path}: column {name!r} has type {column.type}, which is not a number, a truth value, text or a "
                "date. Leave it out of the file, or make plain columns of it."
            )
    if arrow.num_rows:
        table.add([_texts(column) for column in arrow.columns])
    return table.table()


def _is_plain(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    plain = (
        types.is_null,
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_decimal,
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_date,
        types.is_timestamp,
    )
    return any(is_of(kind) for is_of in plain)


def _texts(column: Any) -> list[str]:
    import pyarrow as pa

    return ["" if text is None else text for text in column.cast(pa.large_string()).to_pylist()]
