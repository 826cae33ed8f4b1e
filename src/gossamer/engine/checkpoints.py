"""Runs that survive being killed: where a run saves itself, and what it refuses to continue from.

A checkpoint holds the whole run between two steps, the keys of its randomness included, in one file of plain arrays
that is written at once or not at all. A continued run draws the same samples and the same noise as one that was never
interrupted, so it gives the same answers, bit for bit, and costs no more privacy than that one. Two rules keep it so:

* The first checkpoint is written before the first query. A run that was killed early, and whose progress somebody
  may have watched, cannot start again with other noise by mistake.
* A checkpoint is continued only by the same program on the same records. Other records under the same noise would
  reveal the difference between the two tables without any noise at all.

The file holds the key: whoever has it and the model can subtract the noise. It is readable by its owner alone; remove
it (`Checkpoints.remove`) once the result is stored, and never publish it. The digest of the records in it is as
confidential as they are.
"""

import dataclasses
import hashlib
import io
import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.base.atomic import write_bytes, write_text
from gossamer.base.trees import PyTree, is_key

_FORMAT = 2
_CHECKSUM_BYTES = 32
_OWNER_ONLY = 0o600
_CHUNK = 1 << 16


@dataclass(frozen=True)
class Checkpoints:
    """Where a run saves itself, how often, and whether it continues what it finds there.

    Args:
      folder: a folder for this run alone; it is made if it does not exist.
      every: steps between two checkpoints; there is always one before the first query and one at the end.
      resume: whether to continue from a checkpoint in the folder. With none there, the run begins. Without `resume`, a
        folder that has one is refused: to begin again would spend the privacy again.
    """

    folder: str | Path
    every: int = 100
    resume: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.every, int) and self.every >= 1):
            raise ValueError(f"every = {self.every!r} must be a whole number of at least 1: steps between checkpoints.")

    def of_stage(self, place: int) -> "Checkpoints":
        """Return where a stage of the run saves itself, by its place among the stages."""
        return dataclasses.replace(self, folder=Path(self.folder, f"stage {place}"))

    def begin(self, identity: dict[str, str], run: PyTree) -> PyTree:
        """Return the run to go on with: the one that was saved, else the given one, which is saved first.

        Args:
          identity: what a saved run must agree with, by name.
          run: a pytree of arrays and keys, as it is before the first query.
        """
        if self._run.exists():
            self._check_resume(self._run)
            return self._load(identity, run)
        self.save(identity, run)
        return run

    def save(self, identity: dict[str, str], run: PyTree) -> None:
        """Replace the saved run."""
        arrays = {f"leaf_{i}": _to_numpy(leaf) for i, leaf in enumerate(jax.tree.leaves(run))}
        about = json.dumps({"format": _FORMAT, "identity": identity})
        content = io.BytesIO()
        np.savez(content, about=np.frombuffer(about.encode(), np.uint8), **arrays)  # type: ignore[arg-type]
        # The archive's own sums cover its arrays, and not what stands between them.
        write_bytes(self._run, content.getvalue() + _checksum(content.getvalue()), _OWNER_ONLY)

    def next_due(self, done: int) -> int:
        """Return the first step after `done` at which to save."""
        return (done // self.every + 1) * self.every

    def due(self, done: int, steps: int) -> bool:
        """Return whether to save after this step, of so many."""
        return done % self.every == 0 or done == steps

    def remember(self, name: str, of: str, make: Callable[[], Any]) -> Any:
        """Return what was remembered under a name, else what `make` returns, and remember it.

        For what a run pays for before its first step, such as a reservation in a budget file: a continued run must not
        pay for it twice.

        Args:
          name: what it is.
          of: what it was made from; another value on resuming is refused.
          make: makes it; anything that JSON can hold.
        """
        known = json.loads(self._answers.read_text(encoding="utf-8")) if self._answers.exists() else {}
        if name in known:
            self._check_resume(self._answers)
            if known[name]["of"] != of:
                raise ValueError(_differs(self._answers, name))
            return known[name]["value"]
        known[name] = {"of": of, "value": make()}
        write_text(self._answers, json.dumps(known), _OWNER_ONLY)
        return known[name]["value"]

    def remove(self) -> None:
        """Remove the checkpoint, and with it the key of the run's noise."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _run(self) -> Path:
        return Path(self.folder, "run.npz")

    @property
    def _answers(self) -> Path:
        return Path(self.folder, "answers.json")

    def _check_resume(self, found: Path) -> None:
        if not self.resume:
            raise ValueError(
                f"{found} is the checkpoint of a run that was begun. Continue it with resume=True (--resume); to begin "
                "again would spend the privacy again. If that is meant, choose another folder."
            )

    def _load(self, identity: dict[str, str], like: PyTree) -> PyTree:
        try:
            content = self._run.read_bytes()
            content, checksum = content[:-_CHECKSUM_BYTES], content[-_CHECKSUM_BYTES:]
            if checksum != _checksum(content):
                raise ValueError("its checksum is another one.")
            with np.load(io.BytesIO(content), allow_pickle=False) as file:
                arrays = dict(file)
            about = json.loads(arrays.pop("about").tobytes())
            found = about["identity"] if about["format"] == _FORMAT else {}
        except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile) as error:
            raise ValueError(f"{self._run} is not a whole checkpoint: {error}") from error
        for name, value in identity.items():
            if found.get(name) != value:
                raise ValueError(_differs(self._run, name))
        leaves, structure = jax.tree.flatten(like)
        if len(leaves) != len(arrays):
            raise ValueError(_differs(self._run, "state"))
        loaded = [_from_numpy(arrays[f"leaf_{i}"], leaf, self._run) for i, leaf in enumerate(leaves)]
        return jax.tree.unflatten(structure, loaded)


def digest_records(data: PyTree) -> str:
    """Return a digest of a table: names, types and every number. As confidential as the table itself."""
    running = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(data):
        running.update(f"{jax.tree_util.keystr(path)} {leaf.dtype} {leaf.shape}\n".encode())
        for start in range(0, leaf.shape[0], _CHUNK):
            running.update(np.ascontiguousarray(leaf[start : start + _CHUNK]).tobytes())
    return running.hexdigest()


def digest(*texts: str) -> str:
    """Return a digest of some texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def _differs(path: Path, name: str) -> str:
    return (
        f"{path} belongs to a run of another {name}, and cannot be continued here. Use what the run was begun with; or "
        "choose another folder to begin a new run, which spends privacy of its own."
    )


def _to_numpy(leaf: Any) -> np.ndarray:
    array = np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)
    # NumPy's files know no bfloat16: its bits are kept.
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")


def _from_numpy(array: np.ndarray, like: Any, path: Path) -> jax.Array:
    wanted = _to_numpy(like)
    if array.shape != wanted.shape or array.dtype != wanted.dtype:
        raise ValueError(_differs(path, "state"))
    if is_key(like):
        return jax.random.wrap_key_data(jnp.asarray(array), impl=jax.random.key_impl(like))
    return jnp.asarray(array.view(like.dtype))
