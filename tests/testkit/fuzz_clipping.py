"""How far one hostile record moves a clipped sum, in thresholds, over a zoo of losses.

Gradients by ghost clipping are compiled as users compile them; all else without optimisations, to save time.

    python fuzz_clipping.py PART OF

prints, for every PART-th of OF losses, backend and query, the largest contribution, whether it is right on ordinary
records, and what was refused.
"""

import functools
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
from testkit.loss_zoo import LOSSES
from testkit.per_record import clipped, flat, per_record_gradients

import gossamer as gs
from gossamer.oracle import locality
from gossamer.oracle.clipping import clip_and_sum

ROWS = 16
HOSTILE = (np.nan, np.inf, -np.inf, 1e30, -1e30, 1e19, 1e-19, 1e-30, 1e-44, 0.0, 3e38)
CLIPS = (1e-6, 0.1, 1e3)


def table(seed=0):
    numbers = np.random.default_rng(seed)
    x, y = numbers.normal(size=(ROWS, 6)), numbers.normal(size=ROWS)
    return np.float32(x), np.int32(numbers.integers(0, 100, ROWS)), np.float32(y)


def hostile_table():
    """Rows 0 to 10 hold hostile numbers, some of them in one place only."""
    x, k, y = table(1)
    for row, value in enumerate(HOSTILE):
        x[row, : 6 if row % 2 else 2] = value
    y[3], y[7] = 1e30, np.nan
    return x, k, y


def parameters(seed):
    numbers = np.random.default_rng(seed)
    shapes = {"w": (4, 6), "v": (6,), "b": (4,), "t": (5, 6)}
    return {name: np.float32(0.5 * numbers.normal(size=shape)) for name, shape in shapes.items()}


POINTS = parameters(2), parameters(3)
AS_USERS_DO: dict = {}
BRIEFLY = {"xla_backend_optimization_level": 0}


def examine(query, backend, true, options=BRIEFLY):
    """Return the largest contribution in thresholds and the largest relative error on ordinary records."""

    @functools.partial(jax.jit, compiler_options=options)
    def total(batch, mask, clip):
        return clip_and_sum(query, batch, mask, clip, backend)

    largest = 0.0
    for row in range(ROWS):
        only = np.arange(ROWS) == row
        for clip in CLIPS:
            moved = np.linalg.norm(flat(total(hostile_table(), only, np.float32(clip))))
            largest = max(largest, moved / float(np.float32(clip)))
    clip = np.float32(np.median(np.linalg.norm(true, axis=1)) + 1e-3)
    wanted = clipped(true, clip).sum(axis=0)
    got = flat(total(table(), np.ones(ROWS, bool), clip))
    return largest, float(np.linalg.norm(got - wanted) / (ROWS * clip))


def main(part, of):
    record = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], jnp.asarray(leaf).dtype), table())
    found = {}
    for name in list(LOSSES)[part::of]:
        gradient, difference = gs.Gradient(LOSSES[name], POINTS[0]), gs.Difference(LOSSES[name], *POINTS)
        locality.check(gradient, record, 1000)
        here, there = per_record_gradients(LOSSES[name], table(), *POINTS)
        found[f"{name} ghost gradient"] = examine(gradient, "ghost", here, AS_USERS_DO)
        found[f"{name} vmap gradient"] = examine(gradient, "vmap", here)
        for backend in ("ghost", "vmap"):
            found[f"{name} {backend} difference"] = examine(difference, backend, here - there)
        jax.clear_caches()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
