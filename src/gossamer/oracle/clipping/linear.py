"""The closed form for linear models: a record's gradient is its row times the error of its score.

For loss(params, (x, y)) = ℓ(xᵀW + b, y) the gradient is (x ⊗ e, e) with e = ∂ℓ/∂score, and its squared norm is
(‖x‖² + 1)‖e‖². A difference of two gradients at one record shares the row, so only the errors are subtracted.

A person's gradient is Σ_j w_j (x_j ⊗ e_j, e_j) over its own rows. Its terms may cancel, so its norm is that of the sum,
which is made and stored before it is measured: one vector per person, of as many numbers as there are parameters, where
its rows have that many each. So to exact sums (`gossamer.oracle.lattice`) a person is what a record of one stored row
is: a vector of norm at most C(1 + 1e-6) that is added as it is. How its own rows were rounded when they were added up
changes what the person contributes, and not by how much that may exceed the threshold.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree
from gossamer.oracle.clipping.factors import clip_factors, once, raised, squared_norms
from gossamer.oracle.clipping.per_record import clip_vectors
from gossamer.oracle.lattice import Lattice, add_up
from gossamer.oracle.people import Person, PersonLoss, loss_of_row
from gossamer.oracle.queries import Difference, Gradient


@dataclass(frozen=True)
class LinearLoss:
    """loss(params, (x, y)) = pointwise(xᵀ·weights + intercept, y).

    `params` is a dict with "weights" of shape (d,) or (d, k) and, if wanted, "intercept" of shape () or (k,).

    Args:
      pointwise: the loss of a score and a target.
      lipschitz: a bound on ‖∂pointwise/∂score‖, if there is one.
      curvature: a bound on the largest eigenvalue of ∂²pointwise/∂score², if there is one.
      row: a public function of one record's x whose value takes the place of x, such as a basis; None: x itself.
    """

    pointwise: Callable[[jax.Array, jax.Array], jax.Array]
    lipschitz: float | None = None
    curvature: float | None = None
    row: Callable[[PyTree], jax.Array] | None = None

    def lipschitz_constant(self, row_norm: float, intercept: bool = True) -> float:
        """Return a bound on one record's gradient norm when no row is longer than `row_norm`."""
        return _known("lipschitz", self.lipschitz) * math.hypot(row_norm, intercept)

    def smoothness_constant(self, row_norm: float, intercept: bool = True) -> float:
        """Return a bound L on the Hessian of one record's loss when no row is longer than `row_norm`."""
        return _known("curvature", self.curvature) * (row_norm**2 + intercept)

    def rows(self, x: PyTree) -> jax.Array:
        """Return what scores are linear in, for every x of a batch."""
        return x if self.row is None else jax.vmap(self.row)(x)

    def scores(self, params: PyTree, rows: jax.Array) -> jax.Array:
        """Return rowᵀ·weights + intercept for one row or many."""
        return rows @ params["weights"] + params.get("intercept", 0.0)

    def errors(self, params: PyTree, batch: PyTree) -> jax.Array:
        """Return ∂pointwise/∂score for every row of a batch of rows and targets."""
        rows, targets = batch
        return jax.vmap(jax.grad(self.pointwise))(self.scores(params, rows), targets)

    def __call__(self, params: PyTree, record: PyTree) -> jax.Array:
        """Return the loss of one record."""
        x, target = record
        return self.pointwise(self.scores(params, x if self.row is None else self.row(x)), target)


def _known(name: str, value: float | None) -> float:
    if value is None:
        raise ValueError(f"{name} is not bounded for this loss, or not known: give it as LinearLoss(..., {name}=...).")
    return value


def supports(h: Any, clip: Any) -> bool:
    """Whether h is a gradient, or a difference, of a linear model's loss under one joint threshold."""
    if not isinstance(h, Gradient | Difference) or isinstance(clip, tuple):
        return False
    return isinstance(loss_of_row(h.loss), LinearLoss)


def clipped_sum(
    h: Gradient | Difference,
    batch: PyTree,
    mask: jax.Array,
    clip: jax.Array | float,
    lattice: Lattice | None = None,
) -> PyTree:
    """Return Σ clip(h(z_i)) over the masked rows; on a lattice, if there is one."""
    if isinstance(h.loss, PersonLoss):
        return clip_vectors(_of_persons(h, h.loss, batch), mask, clip, lattice)
    loss: Any = h.loss
    # In the table's own integers or half floats squares would wrap around or round.
    batch = (loss.rows(batch[0]).astype(jnp.float32), batch[1])
    errors = _errors(h, loss, batch)
    has_intercept = "intercept" in h.at

    def clipped(factored: tuple[jax.Array, jax.Array]) -> PyTree:
        rows, errors = factored
        row_squared = squared_norms(rows) + (1.0 if has_intercept else 0.0)
        error_squared = squared_norms(errors, errors.ndim - 1)
        factors = clip_factors(raised(row_squared * error_squared, 2), clip, mask)
        counts = factors > 0
        weighted = jnp.where(counts if errors.ndim == 1 else counts[:, None], errors, 0.0)
        weighted = weighted * (factors if errors.ndim == 1 else factors[:, None])
        # Rows that do not count may hold NaN, and 0 · NaN is NaN; but blanking them copies the batch.
        # The branch chooses operands and not programs: one record must not change how others are added up.
        rows = jax.lax.cond(
            jnp.isfinite(row_squared).all(),
            lambda rows: rows,
            lambda rows: jnp.where(counts[:, None], rows, 0.0),
            rows,
        )
        total = {"weights": add_up(lattice, lambda x, e: x.T @ e, (rows, weighted), clip)}
        if has_intercept:
            total["intercept"] = add_up(lattice, lambda e: jnp.sum(e, axis=0), (weighted,), clip)
        return total

    return once(clipped, (batch[0], errors))


def _errors(h: Gradient | Difference, loss: Any, batch: PyTree) -> jax.Array:
    """Return the error of each row's score, or the difference of two."""
    errors = loss.errors(h.at, batch).astype(jnp.float32)
    return errors - loss.errors(h.other, batch).astype(jnp.float32) if isinstance(h, Difference) else errors


def _of_persons(h: Gradient | Difference, lifted: PersonLoss, persons: Person) -> PyTree:
    """Return each person's gradient, or difference: Σ_j x_j ⊗ w_j e_j."""
    loss: Any = lifted.loss
    count, cap = persons.present.shape
    x, targets = jax.tree.map(lambda leaf: leaf.reshape(count * cap, *leaf.shape[2:]), persons.rows)
    flat = loss.rows(x).astype(jnp.float32)
    errors = _errors(h, loss, (flat, targets))
    rows = flat.reshape(count, cap, -1)
    weights = lifted.of_rows(persons).reshape(count * cap, *(1,) * (errors.ndim - 1))
    # Zero in any case, whatever the error of a copy is.
    errors = jnp.where(weights > 0, weights * errors, 0.0).reshape(count, cap, *errors.shape[1:])
    # Written out as a sum over positions: the CPU backend's batched products of so small matrices are slower.
    products = rows if errors.ndim == 2 else rows[..., None]
    vectors = {"weights": jnp.sum(products * errors[:, :, None], axis=1)}
    if "intercept" in h.at:
        vectors["intercept"] = jnp.sum(errors, axis=1)
    return vectors
