"""STORM: an estimate of a mean of values that is carried along and slowly forgets (Cutkosky and Orabona, 2019).

s_t = Q(f(w_t) − (1 − β) f(w_{t−1})) + (1 − β) s_{t−1}

β = 1 asks afresh; β = 0 carries along by differences alone, as SPIDER does between refreshes, and never forgets.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree
from gossamer.oracle import Value


def change(function: Callable[[PyTree, PyTree], jax.Array], at: PyTree, before: PyTree, momentum: float = 1.0) -> Value:
    """Return the query h(z) = f(at; z) − m·f(before; z), both at the same record; m = 1 − β."""
    return Value(lambda record: function(at, record) - momentum * function(before, record))


def storm_clip(bound: float, momentum: float, largest_change: jax.Array) -> jax.Array:
    """Return the threshold of `change` for a function with values in [0, bound] that moves by no more than this.

    |f − m f′| ≤ (1 − m) f + m |f − f′|, and never above the bound. The largest change is not trusted: clipping is
    at what is returned here.
    """
    return bound * (1 - momentum) + momentum * jnp.minimum(bound, largest_change)
