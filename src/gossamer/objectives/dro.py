"""Distributionally robust optimisation: the worst case over distributions near that of the records (paper DRO).

    penalised   min over x of  max over p of  Σ p_i ℓ(x; z_i) − λ D_ψ(p, 1/n)
                = min over x, η of  (1/n) Σ λ ψ*((ℓ(x; z_i) − Gη)/λ) + Gη                                      (eq. 3)
    KL ball     min over x of  max over p with KL(p, 1/n) ≤ ρ of  Σ p_i ℓ(x; z_i)
                = min over x, λ ≥ λ0 of  λ ln( (1/n) Σ exp(ℓ(x; z_i)/λ) ) + λρ           (eq. 5, exact for λ0 → 0)

The first is a mean over the records of a function of (x, η), the second a function of such means. p itself, a number
for each record, is never formed but to evaluate. In the ball losses are cut to [0, B] by `loss_bound`, a public
number: then KL(p, 1/n) ≤ B²/(8λ²) (Hoeffding), so that no λ above B/√(8ρ) is ever best, and methods need not look
there.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossamer import geometry
from gossamer.base.trees import PyTree
from gossamer.objectives.divergences import KL, ChiSquare, Divergence, KLCVaR, WorstCase, turning_point
from gossamer.objectives.erm import ERM
from gossamer.objectives.problem import Problem


@dataclass(frozen=True)
class DRO(Problem):
    """min over x of the worst case of the mean loss, over distributions near the uniform one on the records.

    The starting point and `result.params` are the model's x. The dual (η of a penalty, λ of the ball) is the method's.

    Args:
      loss: `loss(params, record)` → scalar, written for ONE record in JAX.
      divergence: how far is far: `gs.ChiSquare()`, `gs.KL()`, `gs.KLCVaR(alpha)` or `gs.CressieRead(k)`.
      penalty: λ, the price of one unit of divergence; 1 if there is no radius. Solved by `DoubleSpider`.
      radius: ρ, the most divergence that is allowed, in place of a penalty; for `gs.KL()`. By `RecursiveSpider`.
      loss_bound: B; losses are cut to [0, B]. A record beyond it keeps the weight of B and has no gradient, so choose
        it above what losses come to, without looking at the records. None: 10 for the ball, no cut for a penalty.
      scale: G, public, of η: the dual moves G times as far for the same step. For a penalty.
      smallest_penalty: λ0, below which the λ of the ball never falls.
      regularizer: a public penalty of x such as `gs.L2(1e-2)`, handled by its proximal operator.
      constraint: a public convex set for x such as `gs.L2Ball(1.0)`, handled by projection.

    Example:
      >>> import gossamer as gs
      >>> problem = gs.DRO(gs.objectives.logistic, divergence=gs.ChiSquare(), penalty=1.0)
      >>> problem.worst_case([0.0, 1.0]).weights
      array([0.25, 0.75])
    """

    loss: Callable[[PyTree, PyTree], jax.Array]
    divergence: Divergence = ChiSquare()  # noqa: RUF009  (frozen)
    penalty: float | None = None
    radius: float | None = None
    loss_bound: float | None = None
    scale: float = 1.0
    smallest_penalty: float = 1e-3
    regularizer: geometry.Regularizer = geometry.Zero()  # noqa: RUF009  (frozen)
    constraint: geometry.Constraint | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.divergence, Divergence):
            raise TypeError(
                f"divergence = {self.divergence!r} must be gs.ChiSquare(), gs.KL(), gs.KLCVaR(alpha) or "
                "gs.CressieRead(k)."
            )
        if self.radius is None and self.penalty is None:
            object.__setattr__(self, "penalty", 1.0)
        if self.radius is not None and self.penalty is not None:
            raise ValueError(
                f"penalty = {self.penalty!r} and radius = {self.radius!r}: give one of them. A ball has its own λ, "
                "which the method finds."
            )
        if self.radius is not None and not isinstance(self.divergence, KL | KLCVaR):
            raise ValueError(
                f"radius = {self.radius!r} needs divergence = gs.KL() or gs.KLCVaR(alpha), got {self.divergence!r}. "
                "Give a penalty instead."
            )
        if self.radius is not None and self.radius >= self.log_largest_weight:
            raise ValueError(
                f"radius = {self.radius!r} must be below −ln alpha = {self.log_largest_weight:.4g}: no distribution "
                "with weights of at most 1/alpha is farther. Choose a smaller alpha."
            )
        if self.radius is not None and self.loss_bound is None:
            object.__setattr__(self, "loss_bound", 10.0)
        for name in ("penalty", "radius", "loss_bound", "scale", "smallest_penalty"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int | float) and 0 < value < math.inf):
                raise ValueError(f"{name} = {value!r} must be a finite number above 0.")
        geometry.check(self.regularizer, self.constraint)

    def prox(self, params: PyTree, step: jax.Array | float) -> PyTree:
        """Return the proximal point of step·r within the constraint: post-processing, no record is touched."""
        return geometry.prox(self.regularizer, self.constraint, params, step)

    @property
    def largest_penalty(self) -> float:
        """The largest λ that can be best for the ball: B/√(8ρ), or λ0."""
        assert self.radius is not None and self.loss_bound is not None
        return max(self.smallest_penalty, self.loss_bound / math.sqrt(8 * self.radius))

    def record_value(self, params: PyTree, record: PyTree) -> jax.Array:
        """Return the loss of one record, cut to [0, B] if there is a bound."""
        value = self.loss(params, record)
        return value if self.loss_bound is None else jnp.clip(value, 0.0, self.loss_bound)

    def dual_loss(self, fixed_dual: bool = False) -> "DualLoss":
        """Return λψ*((ℓ(x; z) − Gη)/λ) + Gη as a loss of the pair (x, η); with `fixed_dual` it has no gradient in η."""
        if self.penalty is None:
            raise ValueError("a KL ball is no mean over the records: use RecursiveSpider, or a penalty in its place.")
        return DualLoss(self, self.penalty, fixed_dual)

    def lifted(self) -> ERM:
        """Return the penalised problem as an ERM over pairs (x, η): for SGD, GD, Spider and their like.

        It is an average of a loss of one record like any other, so nothing about privacy is new. Start from
        `init=(params, 0.0)`; `result.params` is the pair. One threshold then covers both, which is what `DoubleSpider`
        does better.
        """
        if self.constraint is not None or not isinstance(self.regularizer, geometry.Zero):
            raise ValueError(
                "a lifted problem is about pairs (x, η), and a regularizer or constraint about x alone. Use "
                "DoubleSpider, or leave them out."
            )
        return ERM(self.dual_loss())

    def objective(self, params: PyTree, data: PyTree) -> jax.Array:
        """Return the exact worst case on a table, differentiable: not private."""
        losses = jax.lax.map(lambda record: self.record_value(params, record), data, batch_size=4096)
        # The dual minimises, so its own dependence on x has no share in the gradient.
        fixed = jax.lax.stop_gradient(losses)
        penalty = self._penalty(fixed)
        eta = self.divergence.shift(fixed, penalty)
        worst = penalty * jnp.mean(self.divergence.conjugate((losses - eta) / penalty)) + eta
        return worst + penalty * (self.radius or 0.0) + self.regularizer.value(params)

    def worst_case(self, losses: Any) -> WorstCase:
        """Return the distribution that is worst for these losses, and the objective there, in float64. Not private.

        Losses are taken as they are, without the cut at `loss_bound`, and without the penalty of x.
        """
        with jax.enable_x64(True):
            penalty = float(self._penalty(jnp.asarray(np.asarray(losses, np.float64))))
        weights, value = self.divergence.worst_case(losses, penalty)
        return WorstCase(weights, value + penalty * (self.radius or 0.0))

    @property
    def log_largest_weight(self) -> float:
        """The logarithm of the largest weight that the worst case may give to a record."""
        return getattr(self.divergence, "log_largest_weight", math.inf)

    def _penalty(self, losses: jax.Array) -> jax.Array:
        """Return λ: the problem's own, or for a ball the best λ ≥ λ0, at which the worst case is at distance ρ."""
        if self.penalty is not None:
            return jnp.asarray(self.penalty, losses.dtype)
        radius = self.radius
        assert radius is not None
        low = jnp.asarray(self.smallest_penalty, losses.dtype)
        high = jnp.maximum(low, (jnp.max(losses) - jnp.min(losses)) / math.sqrt(8 * radius))

        def near(penalty: jax.Array) -> jax.Array:
            weights = self.divergence.weight((losses - self.divergence.shift(losses, penalty)) / penalty)
            return jnp.mean(self.divergence(weights)) <= radius

        return turning_point(near, low, high)


@dataclass(frozen=True)
class DualLoss:
    """λψ*((ℓ(x; z) − Gη)/λ) + Gη, as a function of the pair (x, η) and of one record."""

    problem: DRO
    penalty: float
    fixed_dual: bool = False

    def __call__(self, point: tuple[PyTree, jax.Array], record: PyTree) -> jax.Array:
        """Return it for one record."""
        x, eta = point
        shift = self.problem.scale * (jax.lax.stop_gradient(eta) if self.fixed_dual else eta)
        excess = (self.problem.record_value(x, record) - shift) / self.penalty
        return self.penalty * self.problem.divergence.conjugate(excess) + shift

    def in_dual(self, point: tuple[PyTree, jax.Array], record: PyTree) -> jax.Array:
        """Return its derivative in η: G(1 − t), t the record's weight. It needs no gradient of the loss."""
        x, eta = point
        excess = (self.problem.record_value(x, record) - self.problem.scale * eta) / self.penalty
        return self.problem.scale * (1.0 - self.problem.divergence.weight(excess))
