"""Per-record clipping behind one interface: Σ clip(h(z_i), C) over the rows of a batch that count.

Backends differ in how they get there, never in what they return:

* `linear`: closed form for linear models;
* `moments`: products of blocks, for second moments and outer products;
* `ghost`: norms and sums from the factors of a backward pass, without per-record gradients;
* `vmap`: one vector per record, for anything.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree
from gossamer.oracle.clipping import ghost, linear, moments, per_record
from gossamer.oracle.clipping.factors import Clip, as_blocks, fits, withheld
from gossamer.oracle.lattice import BLOCK, Lattice, zeros_like
from gossamer.oracle.people import Person
from gossamer.oracle.queries import Difference, Gradient, Joint, Loss, OuterProducts, SecondMoments

Backend = Literal["auto", "linear", "ghost", "vmap"]
_VMAP_FLOATS = 1 << 25
"""How many floats of per-record vectors may be in memory at a time by default: 128 MB."""
_GHOST_ROWS = 8192
_PERSON_ROWS = 1024
"""Rows of persons at a time, whose factors then stay in the processor's cache."""
_LINEAR_ROWS = 1 << 16
_MAPPED_ROWS = 1 << 12
"""Where rows are computed before they are used: they should still be in the cache then."""
"""Chunks are multiples of `lattice.BLOCK`, so that it does not matter to exact sums where they are cut."""


def clip_and_sum(
    h: Callable[[PyTree], PyTree],
    batch: PyTree,
    mask: jax.Array,
    clip: Clip,
    backend: Backend = "auto",
    *,
    microbatch: int | None = None,
    spot: jax.Array | int = 0,
    lattice: Lattice | None = None,
) -> PyTree:
    """Return Σ clip(h(z_i), C) over the rows where `mask` holds: in lattice points, if there is a lattice.

    With a tuple of thresholds h returns a tuple of blocks, each clipped by its own norm. `microbatch` bounds how
    many rows are in memory at a time; the default bounds the memory of per-record vectors. What row `spot` adds is
    measured where norms are not those of vectors in memory, and so is every sum: one that no clipped vectors can add
    up to is NaN (`factors.fits`).
    """
    # Norms must be those of the vectors that are summed: no TF32 or bfloat16 products on accelerators.
    with jax.default_matmul_precision("highest"):
        return _clip_and_sum(h, batch, mask, clip, _How(backend, microbatch, spot, lattice))


class _How(NamedTuple):
    """How sums are taken; what they are does not depend on it."""

    backend: Backend
    microbatch: int | None
    spot: jax.Array | int
    lattice: Lattice | None


def _clip_and_sum(h: Callable[[PyTree], PyTree], batch: PyTree, mask: jax.Array, clip: Clip, how: _How) -> PyTree:
    if isinstance(h, Joint):
        if not isinstance(clip, tuple) or len(clip) != len(h.parts):
            raise ValueError(
                f"a joint query of {len(h.parts)} parts needs a tuple of as many thresholds, got {clip!r}."
            )
        return tuple(_clip_and_sum(part, batch, mask, c, how) for part, c in zip(h.parts, clip, strict=True))
    backend, lattice = how.backend, how.lattice
    if backend == "auto":
        backend = _best_backend(h, batch, clip)

    def in_chunks(total: Callable[[PyTree, jax.Array], PyTree], rows: int) -> PyTree:
        return _in_chunks(lambda batch, mask: _checked(total(batch, mask), mask, clip, lattice), batch, mask, rows)

    if isinstance(h, SecondMoments) and isinstance(batch, Person):
        few = max(1, _affordable_rows(h, batch) // 4)  # their squares are in memory too
        return in_chunks(lambda rows, m: per_record.clipped_sum(h, rows, m, clip, lattice), few)
    if isinstance(h, SecondMoments | OuterProducts):
        return in_chunks(lambda rows, m: moments.clipped_sum(h, rows, m, clip, lattice), _MAPPED_ROWS)
    if backend == "linear":
        if not linear.supports(h, clip):
            raise ValueError(
                "backend = 'linear' needs the gradient of a linear model's loss (gs.objectives.logistic and its "
                "like) and one threshold. Use backend = 'auto'."
            )
        if isinstance(batch, Person):
            rows = _affordable_rows(h, batch)
        else:
            rows = _LINEAR_ROWS if h.loss.row is None else _MAPPED_ROWS  # type: ignore[attr-defined]
        return in_chunks(lambda rows, m: linear.clipped_sum(h, rows, m, clip, lattice), rows)  # type: ignore[arg-type]
    if backend == "ghost" and isinstance(h, Gradient | Difference) and ghost.supports(h.loss, h.at, batch):
        chunk = _GHOST_ROWS
        if isinstance(batch, Person):
            chunk = BLOCK * max(1, _PERSON_ROWS // (BLOCK * batch.present.shape[1]))
        return in_chunks(lambda rows, m: _ghost_sum(h, rows, m, clip, how), how.microbatch or chunk)
    if backend in ("ghost", "vmap"):
        affordable = how.microbatch or _affordable_rows(h, batch)
        return in_chunks(lambda rows, m: per_record.clipped_sum(h, rows, m, clip, lattice), affordable)
    raise ValueError(f"backend = {backend!r} must be one of 'auto', 'linear', 'ghost', 'vmap'.")


def _best_backend(h: Any, batch: PyTree, clip: Clip) -> Backend:
    if linear.supports(h, clip):
        return "linear"
    if isinstance(h, Gradient | Difference) and ghost.supports(h.loss, h.at, batch):
        return "ghost"
    return "vmap"


def _ghost_sum(h: Gradient | Difference, batch: PyTree, mask: jax.Array, clip: Clip, how: _How) -> PyTree:
    spot = how.spot % len(mask)
    if isinstance(h, Gradient):
        return ghost.clipped_gradient(h.loss, h.at, batch, mask, clip, spot=spot, lattice=how.lattice)
    return ghost.clipped_difference(h.loss, h.at, h.other, batch, mask=mask, clip=clip, spot=spot, lattice=how.lattice)


def _checked(total: PyTree, mask: jax.Array, clip: Clip, lattice: Lattice | None) -> PyTree:
    """Return a sum, or NaN if it is longer than its records' thresholds and the rounding of their sum can make it."""
    # Adding k vectors in any order is wrong by at most k roundings of the sum of their lengths.
    most = jnp.sum(mask) * (1 + len(mask) * float(jnp.finfo(jnp.float32).eps))
    blocks, thresholds = as_blocks(total, clip)
    checked = []
    for block, threshold in zip(blocks, thresholds, strict=True):
        # Rounding to the lattice moves every entry by half a point for each block that was added up.
        within = fits(block, most, threshold) if lattice is None else lattice.fits(block, most, len(mask))
        checked.append(jax.tree.map(lambda leaf, within=within: withheld(leaf, ~within), block))
    return tuple(checked) if isinstance(clip, tuple) else checked[0]


def _affordable_rows(h: Callable[[PyTree], PyTree], batch: PyTree) -> int:
    record = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), batch)
    size = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(jax.eval_shape(h, record)))
    return max(1, min(4096, _VMAP_FLOATS // max(1, size)))


def _in_chunks(total: Callable[[PyTree, jax.Array], PyTree], batch: PyTree, mask: jax.Array, rows: int) -> PyTree:
    """Add up `total` over chunks of at most `rows` rows; the last one may be shorter."""
    size = mask.shape[0]
    if size <= rows:
        return total(batch, mask)

    def chunk(start: jax.Array | int, count: int) -> PyTree:
        cut = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, start, count), (batch, mask))
        return total(*cut)

    def add(sums: PyTree, start: jax.Array) -> tuple[PyTree, None]:
        return jax.tree.map(jax.lax.add, sums, chunk(start, rows)), None

    whole, rest = divmod(size, rows)
    shapes = jax.eval_shape(lambda: chunk(0, rows))
    first = chunk(whole * rows, rest) if rest else zeros_like(shapes)
    return jax.lax.scan(add, first, jnp.arange(0, whole * rows, rows, dtype=jnp.int32))[0]


def clipped_sum(
    loss: Loss,
    params: PyTree,
    batch: PyTree,
    clip: Clip = 1.0,
    backend: Backend = "auto",
    microbatch: int | None = None,
) -> PyTree:
    """Return Σ_i clip(∇loss(params; z_i), clip). A building block: NOT private by itself.

    Args:
      loss: `loss(params, record)` → scalar, for one record.
      params: a pytree of float arrays.
      batch: records stacked along a leading axis.
      clip: the norm bound of one record's gradient, or a tuple of bounds if `params` is a tuple of blocks.
      backend: "auto", "linear", "ghost" or "vmap".
      microbatch: how many rows to have in memory at a time.
    """
    return clip_and_sum(Gradient(loss, params), batch, _all_rows(batch), clip, backend, microbatch=microbatch)


def clipped_difference(
    loss: Loss,
    params: PyTree,
    other: PyTree,
    batch: PyTree,
    clip: Clip = 1.0,
    backend: Backend = "auto",
    microbatch: int | None = None,
) -> PyTree:
    """Return Σ_i clip(∇loss(params; z_i) − ∇loss(other; z_i), clip). A building block: NOT private by itself.

    The arguments are those of `clipped_sum`; both gradients are taken at the same record.
    """
    return clip_and_sum(Difference(loss, params, other), batch, _all_rows(batch), clip, backend, microbatch=microbatch)


def _all_rows(batch: PyTree) -> jax.Array:
    return jnp.ones(jax.tree.leaves(batch)[0].shape[0], bool)


__all__ = ["Backend", "Clip", "clip_and_sum", "clipped_difference", "clipped_sum"]
