"""How much of each record's vector survives clipping, and of which vector: the rules every backend shares.

Norms are rounded up. Whatever a squared norm is computed from, it is at least that of the stored vector in exact
arithmetic: errors of rounding are bounded for any order of summation and added. So a record never passes by more than
the rounding of one square root, one division and one product.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from gossamer.oracle.lattice import zeros_like

Clip = Any
"""A threshold, or a tuple of thresholds: one for each block of a tuple-valued query."""

SMALLEST_CLIP = 1e-8
"""What products below 1e-38 lose in float32 must be little beside it: `gossamer.oracle.lattice` counts."""
TOLERANCE = 1e-3
"""By how much what a record contributes may be seen to pass its threshold before the run is stopped."""
_LONG = 1024
"""From how many terms on a sum is taken in two levels, whose errors grow with the root of their number."""


def clip_factors(squared_norms: jax.Array, clip: jax.Array | float, mask: jax.Array) -> jax.Array:
    """Return s_i = min(1, C/‖v_i‖) for rows that count and 0 for the others.

    A row counts when its mask is set and its squared norm makes sense: a finite number of at least 0 in float32. A
    record whose vector is NaN, infinite or longer than about 1e19 contributes zero, like any other bounded
    contribution, and so does one whose norm came out negative. The caller must still replace non-finite entries
    before it multiplies, since 0 · NaN is NaN. Below `SMALLEST_CLIP`, and at a threshold that is NaN, nothing counts:
    squares of such small vectors underflow, and their norms could not be trusted.
    """
    if not jnp.issubdtype(squared_norms.dtype, jnp.floating):
        raise TypeError(f"squared norms must be real numbers, not {squared_norms.dtype}.")
    squared_norms = squared_norms.astype(jnp.float32)
    clip = jnp.asarray(clip, jnp.float32)
    norms = jnp.sqrt(squared_norms)
    factors = jnp.where(norms > clip, clip / jnp.where(norms > 0, norms, 1.0), 1.0)
    sensible = (squared_norms >= 0) & jnp.isfinite(squared_norms)
    return jnp.where(mask & sensible & (clip >= SMALLEST_CLIP), factors, 0.0)


def raised(value: jax.Array, terms: int) -> jax.Array:
    """Round a sum of so many non-negative terms up, in whatever order it was added."""
    return value * (1 + (terms + 2) * unit(value))


def unit(x: jax.Array) -> float:
    """Return how much one rounding may change a number, relative to it."""
    return float(jnp.finfo(x.dtype).eps) / 2


def squared_norms(x: jax.Array, axes: int = 1) -> jax.Array:
    """Return ‖x‖² over the last axes, rounded up: also by what squares may lose to underflow.

    (A product of two squared norms would otherwise be 0 for 1e-20 and 1e+19, whose product is not.)
    """
    lead = x.shape[: x.ndim - axes]
    x = x.reshape(*lead, math.prod(x.shape[x.ndim - axes :]))
    size = x.shape[-1]
    lost = size * float(jnp.finfo(x.dtype).tiny)
    if size <= _LONG:
        return raised(jnp.sum(x * x, axis=-1), size) + lost
    width = math.isqrt(size)
    whole = size - size % width
    # The barrier keeps the compiler from making one long sum of the two levels.
    squares = lax.optimization_barrier(jnp.sum(jnp.square(x[..., :whole].reshape(*lead, -1, width)), axis=-1))
    total = jnp.sum(squares, axis=-1) + jnp.sum(jnp.square(x[..., whole:]), axis=-1)
    return raised(total, 2 * width + whole // width) + lost


def fits(vector: Any, bound: jax.Array | float, clip: jax.Array | float) -> jax.Array:
    """Whether a pytree's norm is at most `bound` thresholds, measured on the vector itself.

    The second line of defence, which knows nothing of how factors were found: what one record adds is measured, and
    every sum. It fails where the guarantee is broken already and nowhere else: k vectors within the threshold add up to
    no more than k thresholds, whatever the records are. Where it fails the answer is NaN, and the run stops.
    """
    scale = jnp.maximum(bound * jnp.asarray(clip, jnp.float32), jnp.finfo(jnp.float32).tiny)
    squares = sum(jnp.sum(jnp.square(leaf.astype(jnp.float32) / scale)) for leaf in jax.tree.leaves(vector))
    return jnp.asarray(squares) <= (1 + TOLERANCE) ** 2


def withheld(total: jax.Array, broken: jax.Array) -> jax.Array:
    """Return a sum, or NaN in its place, in whatever precision it has."""
    with jax.enable_x64(True):
        return jnp.where(broken, jnp.asarray(math.nan, total.dtype), total)


def once(compute: Callable[[Any], Any], vectors: Any) -> Any:
    """Return compute(vectors), where all that is computed of the vectors is computed of the same numbers.

    A compiler may make a vector anew for each of its uses, and round it differently there: with a product and a sum
    rounded together here, apart there. Where its terms cancel, a vector that is 0 for its norm may then be as long as
    one likes in the sum. So the vectors are stored before `compute`, as what a branch is given, and neither taken apart
    nor made again behind that: the barrier tells the compiler so while it simplifies, the branch while it fuses.
    """
    shapes = jax.eval_shape(compute, vectors)

    def never(_: Any) -> Any:
        return zeros_like(shapes)

    always, vectors = lax.optimization_barrier((jnp.bool_(True), vectors))
    return lax.cond(always, compute, never, vectors)


def as_blocks(tree: Any, clip: Clip) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Split a query's value into blocks, one per threshold: a scalar clip makes the whole tree one block."""
    if not isinstance(clip, tuple):
        return (tree,), (clip,)
    if not isinstance(tree, Sequence) or len(tree) != len(clip):
        got = f"a tuple of {len(tree)}" if isinstance(tree, Sequence) else f"a {type(tree).__name__}"
        raise ValueError(
            f"clip has {len(clip)} thresholds, so the query must return a tuple of {len(clip)} blocks, not {got}. "
            "Pass one number to clip all of it by its joint norm."
        )
    return tuple(tree), clip
