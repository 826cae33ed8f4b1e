"""Empirical risk minimisation: an average loss, a regulariser and a constraint; losses of linear models."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from gossamer import geometry
from gossamer.base.messages import shown
from gossamer.base.trees import PyTree
from gossamer.objectives.problem import Problem
from gossamer.oracle.clipping.linear import LinearLoss


@dataclass(frozen=True)
class ERM(Problem):
    """min over x in the constraint of (1/n) Σ loss(x; z_i) + r(x).

    Args:
      loss: `loss(params, record)` → scalar, written for ONE record in JAX.
      regularizer: a public penalty such as `gs.L2(1e-2)`, handled by its proximal operator.
      constraint: a public convex set such as `gs.L2Ball(1.0)`, handled by projection.
    """

    loss: Callable[[PyTree, PyTree], jax.Array]
    regularizer: geometry.Regularizer = geometry.Zero()  # noqa: RUF009  (frozen)
    constraint: geometry.Constraint | None = None

    def __post_init__(self) -> None:
        if not callable(self.loss):
            raise TypeError(
                f"loss = {shown(self.loss)} must be a function loss(params, record) of ONE record, such as "
                "gs.objectives.logistic."
            )
        penalty: Any = self.regularizer
        if isinstance(penalty, type) or not (hasattr(penalty, "prox") and hasattr(penalty, "value")):
            raise TypeError(
                f"regularizer = {shown(penalty)} must be a penalty such as gs.L2(strength); for none leave it out."
            )
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


def _squared(score: jax.Array, target: jax.Array) -> jax.Array:
    return 0.5 * jnp.square(score - target)


@dataclass(frozen=True)
class _Huber:
    threshold: float

    def __call__(self, score: jax.Array, target: jax.Array) -> jax.Array:
        inside = jnp.clip(score - target, -self.threshold, self.threshold)
        return inside * (score - target - 0.5 * inside)


@dataclass(frozen=True)
class _SmoothedHinge:
    width: float

    def __call__(self, score: jax.Array, target: jax.Array) -> jax.Array:
        # A target beyond 0 and 1 would multiply slope and curvature, which are promised for every target.
        shortfall = 1.0 - jnp.where(target > 0.5, score, -score)
        inside = jnp.clip(shortfall, 0.0, self.width)
        return inside * (shortfall - 0.5 * inside) / self.width


logistic = LinearLoss(_logistic, lipschitz=1.0, curvature=0.25)
"""Logistic loss of a linear score for targets 0 and 1."""

# The gradient is p − e_target, of norm at most √2; the Hessian diag(p) − ppᵀ has norm at most ½ (Gershgorin).
softmax = LinearLoss(_softmax, lipschitz=math.sqrt(2), curvature=0.5)
"""Cross-entropy of k linear scores for integer targets 0, …, k−1."""

squared = LinearLoss(_squared, curvature=1.0)
"""Half the squared error of a linear score; its gradient has no bound, so clipping decides what an outlier can do."""


def huber(threshold: float = 1.0) -> LinearLoss:
    """Return the loss that is squared up to this error and grows linearly beyond: outliers weigh no more than it."""
    return LinearLoss(_Huber(_positive("threshold", threshold)), lipschitz=threshold, curvature=1.0)


def smoothed_hinge(width: float = 0.5) -> LinearLoss:
    """Return the hinge loss max(0, 1 − margin) for targets 0 and 1, its corner replaced by a parabola of this width."""
    return LinearLoss(_SmoothedHinge(_positive("width", width)), lipschitz=1.0, curvature=1.0 / width)


def _positive(name: str, value: float) -> float:
    if not 0 < value < math.inf:
        raise ValueError(f"{name} = {value!r} must be a finite number above 0.")
    return float(value)
