"""Tables larger than memory: a Parquet or Arrow file, encoded once by a schema into arrays that stay on disk.

A Parquet file is read by groups of rows, so that one row costs as much as thousands; a run that samples needs rows one
by one. The arrays made here have every row in one place, and `gs.solve` reads only those of a sample.
"""

from pathlib import Path

import numpy as np

from gossamer.tables.parquet import parquet_pieces
from gossamer.tables.schema import Schema


def map_table(path: str | Path, schema: Schema, folder: str | Path) -> tuple[np.memmap, np.memmap]:
    """Encode a Parquet or Arrow file piece by piece; return rows and labels as arrays on disk, which `gs.solve` takes.

    Args:
      path: a .parquet, .arrow or .feather file.
      schema: what its columns mean. Rows have norm `schema.row_norm` at most; labels are the index of their class.
      folder: where rows.npy and labels.npy are written, readable by their owner alone: they are the records. Files
        that are there already are replaced.
    """
    path, folder = Path(path), Path(folder)
    n, pieces = parquet_pieces(path)
    if n == 0:
        raise ValueError(f"{path} has no rows.")
    folder.mkdir(parents=True, exist_ok=True)
    names = [folder / "rows.npy", folder / "labels.npy"]
    for name in names:
        name.unlink(missing_ok=True)
        name.touch(mode=0o600)
    rows = np.lib.format.open_memmap(names[0], "w+", np.float32, (n, schema.width))
    labels = np.lib.format.open_memmap(names[1], "w+", np.float32, (n,))
    start = 0
    for piece in pieces:
        stop = start + piece.n
        rows[start:stop] = schema.encode(piece)
        labels[start:stop] = schema.class_codes(piece)
        start = stop
    rows.flush()
    labels.flush()
    return np.load(names[0], mmap_mode="r"), np.load(names[1], mmap_mode="r")
