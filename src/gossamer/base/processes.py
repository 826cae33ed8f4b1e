"""One run in many processes: what they must agree on, and what becomes of the rest when one is lost.

JAX starts the processes' service and moves the bytes (`jax.distributed.initialize`). With one process all of this does
nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from gossamer.base.exceptions import LostProcessError
from gossamer.base.trees import PyTree, is_key

Checked = TypeVar("Checked")


def many() -> bool:
    """Return whether the run has more than one process."""
    return jax.process_count() > 1


def is_first() -> bool:
    """Return whether this process speaks for all: progress, checkpoints."""
    return jax.process_index() == 0


def from_first(tree: PyTree) -> PyTree:
    """Return what the first process has: arrays and keys, the same shapes everywhere."""
    return _through_words(multihost_utils.broadcast_one_to_all, tree) if many() else tree


def of_all(number: int) -> list[int]:
    """Return this number as every process has it."""
    if not many():
        return [number]
    high, low = divmod(number, 1 << 31)  # JAX's integers have 32 bits
    pairs = np.asarray(multihost_utils.process_allgather(np.array([high, low], np.int32)))
    return [int(high) << 31 | int(low) for high, low in pairs.reshape(-1, 2)]


def all_agree(check: Callable[[], Checked]) -> Checked:
    """Return what a check returns; where it refuses in one process, all refuse, instead of waiting for that one."""
    refused: Exception | None = None
    try:
        checked = check()
    except (ValueError, TypeError, OSError) as error:
        refused = error
    failed = [process for process, bad in enumerate(of_all(int(refused is not None))) if bad]
    if refused is not None:
        raise refused
    if failed:
        raise ValueError(f"process {failed[0]} refused its part of the run; its own message says why.")
    return checked


def on_mesh(tree: PyTree, mesh: Mesh | None) -> PyTree:
    """Return arrays and keys as every device of a mesh has them."""
    if mesh is None:
        return tree
    everywhere = NamedSharding(mesh, P())

    def put(word: np.ndarray) -> jax.Array:
        return jax.make_array_from_callback(word.shape, everywhere, lambda index: word[index])

    return _through_words(lambda words: jax.tree.map(put, words), tree)


def off_mesh(tree: PyTree, mesh: Mesh | None) -> PyTree:
    """Return arrays that are the same on all devices as arrays of one device of this process."""
    if mesh is None:
        return tree
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)


@contextmanager
def watched(remedy: str) -> Iterator[None]:
    """Turn the end of a connection to another process into words."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        said = str(error)
        if not many() or not any(word in said for word in ("Gloo", "onnection", "oordination", "NCCL", "UNAVAILABLE")):
            raise
        raise LostProcessError(
            f"process {jax.process_index()} of {jax.process_count()} stopped: it lost its connection to another "
            f"process of the run, which has ended or cannot be reached. The scheduled privacy counts as spent. {remedy}"
        ) from error


def _through_words(move: Callable[[PyTree], PyTree], tree: PyTree) -> PyTree:
    """Move a pytree with keys as the words that keys are made of."""
    words = jax.tree.map(lambda leaf: np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf), tree)
    moved = move(words)
    return jax.tree.map(
        lambda word, leaf: jax.random.wrap_key_data(word, impl=jax.random.key_impl(leaf)) if is_key(leaf) else word,
        moved,
        tree,
    )
