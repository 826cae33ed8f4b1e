"""Worst-group risk as a minimax problem (Sagawa et al., 2020).

    min over x, max over y in the simplex, of   Σ_g y_g L_g(x) − (μ/2)‖y − 1/k‖²,      L_g the mean loss in group g

A record of group g has loss y_g ℓ(x; z)/p_g, with public shares p_g of the groups: if they are exact, its mean over
all records is Σ_g y_g L_g. In general it is Σ_g y_g (n_g/(n p_g)) L_g: a group whose share is overstated counts for
less. So without shares, p_g = 1/k, the worst group is the one with the largest total loss n_g L_g: a rare group has to
be very bad to be seen. Shares that are computed from the records are a release of their own:
`gs.objectives.group_shares` buys them.

What one record can do. Its gradient in y is e_g ℓ/p_g, of norm at most B/min p for losses up to B: take that for
`clip_y`, and losses beyond B·p_g/min p count as that much. Its gradient in x is (y_g/p_g)∇ℓ: where the worst group is a
rare one, it is 1/p_g times as long as in an average risk, and so is the `clip_x` that leaves it alone. Privacy does not
depend on either.

The strongly concave term. With μ = 0 the maximum is at a corner, and y jumps between groups. With μ > 0 the largest
group loss is replaced by a smooth function at most (μ/2)(1 − 1/k) below it, and y has the closed form
y* = Π(1/k + L/μ), Π the projection on the simplex, where L is the mean of bounded statistics e_g min(ℓ, B)/p_g: methods
take it with `ascent="best_response"`, by one query for k numbers.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree
from gossamer.geometry import Constraint, Simplex
from gossamer.objectives.minimax import Minimax


def GroupDRO(  # noqa: N802  (it stands beside ERM and Minimax)
    loss: Callable[[PyTree, PyTree], jax.Array],
    groups: int,
    shares: tuple[float, ...] | None = None,
    strong_concavity: float = 0.0,
    loss_bound: float | None = None,
    constraint_x: Constraint | None = None,
) -> Minimax:
    """Return the problem of the worst group's risk; start from `init=(x0, jnp.full(groups, 1 / groups))`.

    A record is a tuple whose last entry is its group 0, …, groups − 1, as in `(features, label, group)`; the loss is
    given the rest of it. A record of any other group counts for nothing.

    Args:
      loss: `loss(params, record)` → scalar for a record without its group, as for `gs.ERM`.
      groups: k, their number.
      shares: the public share p_g of each group; None: 1/k each, which weighs groups by their size.
      strong_concavity: μ, of the term that keeps y near 1/k; 0 is the worst group itself.
      loss_bound: B, up to which a record's loss counts in y's best response; with μ > 0 the problem then offers one.
      constraint_x: a public convex set for x.

    Example:
      >>> import gossamer as gs, jax.numpy as jnp
      >>> problem = gs.GroupDRO(gs.objectives.logistic, groups=3, shares=(0.7, 0.2, 0.1))
      >>> result = gs.solve(
      ...     problem, (jnp.ones((100, 2)), jnp.arange(100) % 2, jnp.arange(100) % 3), gs.methods.SGDA(batch_size=50),
      ...     gs.Budget(1.0, 1e-5), init=({"weights": jnp.zeros(2)}, jnp.full(3, 1 / 3)),
      ... )
      >>> bool(jnp.all(result.params[1] >= 0))
      True
    """
    if not (isinstance(groups, int) and groups >= 2):
        raise ValueError(f"groups = {groups!r} must be a whole number of at least 2; for one group use gs.ERM.")
    shares = (1 / groups,) * groups if shares is None else tuple(map(float, shares))
    if len(shares) != groups or not all(p > 0 for p in shares) or not math.isclose(sum(shares), 1.0, abs_tol=1e-3):
        raise ValueError(f"shares = {shares} must be {groups} numbers above 0 that add up to 1: a share of each group.")
    if not 0 <= strong_concavity < math.inf:
        raise ValueError(f"strong_concavity = {strong_concavity!r} must be a finite number of at least 0.")
    if loss_bound is not None and not (0 < loss_bound < math.inf and strong_concavity > 0):
        raise ValueError(
            f"loss_bound = {loss_bound!r} must be a finite number above 0, with a strong_concavity = "
            f"{strong_concavity!r} above 0: it is for the best response, which has no closed form without."
        )
    grouped = _GroupLoss(loss, tuple(1 / p for p in shares))
    return Minimax(
        grouped,
        constraint_x=constraint_x,
        constraint_y=Simplex(),
        best_response=None if loss_bound is None else _GroupResponse(grouped, float(loss_bound), strong_concavity),
        public=_Concave(strong_concavity) if strong_concavity else None,
    )


@dataclass(frozen=True)
class _GroupLoss:
    """y_g ℓ(x; z)/p_g of one record."""

    loss: Callable[[PyTree, PyTree], jax.Array]
    weights: tuple[float, ...]
    """1/p_g."""

    def __call__(self, x: PyTree, y: jax.Array, record: tuple[PyTree, ...]) -> jax.Array:
        direction, loss = self.parts(x, record)
        return jnp.dot(direction, y) * loss

    def parts(self, x: PyTree, record: tuple[PyTree, ...]) -> tuple[jax.Array, jax.Array]:
        """Return e_g/p_g, zero for an unknown group, and ℓ(x; z)."""
        *rest, group = record
        return jax.nn.one_hot(group, len(self.weights)) * jnp.array(self.weights), self.loss(x, tuple(rest))


@dataclass(frozen=True)
class _Concave:
    """−(μ/2)‖y − 1/k‖²."""

    strength: float

    def __call__(self, x: PyTree, y: jax.Array, key: jax.Array) -> jax.Array:
        return -0.5 * self.strength * jnp.sum(jnp.square(y - 1 / y.size))


@dataclass(frozen=True)
class _GroupResponse:
    """y* = Π(1/k + L/μ), by one query for the k group losses L."""

    loss: _GroupLoss
    bound: float
    strength: float

    @property
    def clip(self) -> float:
        """B/min p: the largest statistic."""
        return self.bound * max(self.loss.weights)

    def statistic(self, x: PyTree, record: tuple[PyTree, ...]) -> jax.Array:
        direction, loss = self.loss.parts(x, record)
        return direction * jnp.minimum(loss, self.bound)

    def solve(self, mean: jax.Array) -> jax.Array:
        return Simplex().project(1 / mean.size + mean / self.strength)
