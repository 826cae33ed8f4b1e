"""Ghost clipping: per-record clipped gradients, and differences of gradients, at the price of a plain gradient.

The loss of one record is traced (`trace`), the operations where parameters meet the record are found and grouped by
leaf (`analysis`, `chain`, `sites`), one forward and backward pass over the batch reads inputs and errors there, and
norms and clipped sums come from those factors (`contributions`, `sums`). Whatever is not understood is
differentiated record by record at that one operation: slower, never wrong.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ...lattice import Lattice
from ..factors import Clip
from .analysis import Analysis, Pass, analyse, run
from .explain import explain_clipping
from .sums import clipped_sum
from .trace import UnsupportedError, trace

__all__ = ["clipped_difference", "clipped_gradient", "explain_clipping", "supports"]

Loss = Callable[[Any, Any], jax.Array]


def clipped_gradient(
    loss: Loss,
    params: Any,
    batch: Any,
    mask: jax.Array,
    clip: Clip,
    *,
    spot: jax.Array | int = 0,
    lattice: Lattice | None = None,
) -> Any:
    """Σ_i clip(∇loss(params, z_i), clip) over the rows whose mask is set, accumulated in float32.

    Args:
      loss: `loss(params, record)`, one real number.
      params: a pytree of floating point arrays; a tuple of blocks when `clip` is a tuple.
      batch: records stacked on a leading axis of every leaf.
      mask: which rows count; the others may hold anything.
      clip: a bound on the joint norm, or a tuple with one bound for each block.
      spot: the row whose contribution is measured; if it is too long, the sum is NaN.
      lattice: on which to add up exactly.
    """
    analysis = _analysis(loss, params, batch)
    passes = [_run(analysis, params, batch, mask)]
    return clipped_sum(analysis, passes, params, mask, clip, spot=spot, lattice=lattice)


def clipped_difference(
    loss: Loss,
    params: Any,
    other: Any,
    batch: Any,
    mask: jax.Array,
    clip: Clip,
    *,
    spot: jax.Array | int = 0,
    lattice: Lattice | None = None,
) -> Any:
    """Σ_i clip(∇loss(params, z_i) − ∇loss(other, z_i), clip) over the rows whose mask is set, in float32.

    The arguments are those of `clipped_gradient`, and `other` is like `params`.
    """
    analysis = _analysis(loss, params, batch)
    passes = [_run(analysis, point, batch, mask) for point in (params, other)]
    return clipped_sum(analysis, passes, params, mask, clip, spot=spot, lattice=lattice)


def supports(loss: Loss, params: Any, batch: Any) -> bool:
    """Whether the loss can be taken apart; if not, it must be differentiated as a whole for each record."""
    try:
        _analysis(loss, params, batch)
    except UnsupportedError:
        return False
    return True


def _analysis(loss: Loss, params: Any, batch: Any) -> Analysis:
    record = jax.eval_shape(lambda rows: jax.tree.map(lambda x: x[0], rows), batch)
    return analyse(trace(loss, params, record))


def _run(analysis: Analysis, params: Any, batch: Any, mask: jax.Array) -> Pass:
    zero = jnp.zeros(mask.shape, jnp.float32)
    return run(analysis, jax.tree.leaves(params), [*jax.tree.leaves(batch), zero], len(mask))
