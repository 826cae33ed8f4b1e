"""Empirical risk minimisation: an average loss, a regulariser and a constraint; losses of linear models."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from gossamer import geometry
from gossamer.oracle.clipping.linear import LinearLoss

PyTree = Any


@dataclass(frozen=True)
class ERM:
    """min over x in the constraint of (1/n) Σ loss(x; z_i) + r(x).

    Args:
      loss: `loss(params, record)` → scalar, written for ONE record in JAX.
      regularizer: a public penalty such as `gs.L2(1e-2)`, handled by its proximal operator.
      constraint: a public convex set such as `gs.L2Ball(1.0)`, handled by projection.
    """

    loss: Callable[[PyTree, PyTree], jax.Array]
    regularizer: geometry.Regularizer = geometry.Zero()  # noqa: RUF009  (frozen)
    constraint: geometry.Constraint | None = None

    def __post_init__(self):
        geometry.check(self.regularizer, self.constraint)

    def prox(self, params: PyTree, step: jax.Array | float) -> PyTree:
        """Return the proximal point of step·r within the constraint: post-processing, no record is touched."""
        return geometry.prox(self.regularizer, self.constraint, params, step)

    def objective(self, params: PyTree, data: PyTree) -> jax.Array:
        """Return the exact objective on a table: not private."""
        losses = jax.lax.map(lambda record: self.loss(params, record), data, batch_size=4096)
        return jnp.mean(losses) + self.regularizer.value(params)


def _logistic(score: jax.Array, target: jax.Array) -> jax.Array:
    # log(1 + exp(−margin)) with the margin's sign from a 0/1 target.
    return jax.nn.softplus(score) - target * score


def _softmax(scores: jax.Array, target: jax.Array) -> jax.Array:
    return jax.nn.logsumexp(scores) - jnp.take(scores, target)


logistic = LinearLoss(_logistic)
"""Logistic loss of a linear score for targets 0 and 1."""

softmax = LinearLoss(_softmax)
"""Cross-entropy of k linear scores for integer targets 0, …, k−1."""
