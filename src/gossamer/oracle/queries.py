"""What a query asks of one record: a value, a gradient, a difference of gradients, products, several at once.

Each is a function of ONE record. Its other inputs (parameters, thresholds) must be public already: earlier
answers, what was computed from them, constants. The named kinds exist so that a clipping backend can see the
structure of a gradient; to the proof they are all just h(z).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.base.trees import PyTree
from gossamer.oracle.people import Person, Weights, row_weights

Loss = Callable[..., jax.Array]
MOST_ROWS = 4096
"""Of a person whose second moments are asked for: rounding is charged for as many."""


@dataclass(frozen=True)
class Value:
    """h(z) = function(z): any pytree of arrays computed from one record."""

    function: Callable[[PyTree], PyTree]

    def __call__(self, record: PyTree) -> PyTree:
        """Return h of one record."""
        return self.function(record)


@dataclass(frozen=True)
class Gradient:
    """h(z) = ∇loss(at; z), with `loss(params, record)`.

    With a tuple of thresholds, `at` is a tuple of as many blocks and each block's gradient has its own norm.
    """

    loss: Loss
    at: PyTree

    def __call__(self, record: PyTree) -> PyTree:
        """Return h of one record."""
        return jax.grad(self.loss)(self.at, record)


@dataclass(frozen=True)
class Difference:
    """h(z) = ∇loss(at; z) − ∇loss(other; z), both at the same record."""

    loss: Loss
    at: PyTree
    other: PyTree

    def __call__(self, record: PyTree) -> PyTree:
        """Return h of one record."""
        here, there = jax.grad(self.loss)(self.at, record), jax.grad(self.loss)(self.other, record)
        return jax.tree.map(lambda a, b: a - b, here, there)


@dataclass(frozen=True)
class Joint:
    """h(z) = (h_1(z), ..., h_k(z)): several functions on the same sample, each a block with its own threshold."""

    parts: tuple[Callable[[PyTree], PyTree], ...]

    def __call__(self, record: PyTree) -> PyTree:
        """Return h of one record."""
        return tuple(part(record) for part in self.parts)


@dataclass(frozen=True)
class SecondMoments:
    """h(z) = x̂x̂ᵀ with x̂ = x/‖x‖ and x = row(z): the upper triangle as a vector (`triangle`), of norm 1.

    Entries off the diagonal are multiplied by √2, so that the vector's inner products and norms are those of the
    matrix. Those of two records are (x̂ᵀẑ)² ≥ 0: no two are at an obtuse angle. A row of zeros gives 0.

    *Of a person* it is M = Σ_j w_j x̂_j x̂_jᵀ over its own rows, with w_j ≥ 0 and Σ_j w_j ≤ 1. By the triangle inequality
    ‖M‖ ≤ Σ_j w_j ‖x̂_j‖² ≤ 1, and two persons have the inner product Σ_jk w_j v_k (x̂_jᵀẑ_k)² ≥ 0. So both hold as they
    do of one row. *In floating point:* M is made of the numbers y_j = x̂_j √w_j, as Σ_j y_j y_jᵀ. The angle of two such
    matrices is acute whatever the y_j are, and what is stored differs from its matrix by a sum of m products in each
    entry and one product by √2: at most (m + 3)u Σ_j ‖y_j‖², u = 2^-24, for m rows. So two persons are
    √2 + 2(m + 3)u apart at most, which for `MOST_ROWS` is √2 + 5e-4. Of the (1 + ι)√2 that a record may move a sum by
    (`gossamer.oracle.lattice`), a sum of stored vectors takes √2 + 7e-4 and leaves 1e-3. Norms are those of the stored
    vectors, as everywhere. Squares have no entry below 0.

    Args:
      row: a record's vector x; of a person, that of one of its rows.
      diagonal: whether to ask for the squares x̂_j² alone, which have norm 1 at most and are never negative.
      weights: of a person's rows.
    """

    row: Callable[[PyTree], jax.Array]
    diagonal: bool = False
    weights: Weights = "mean"

    def __call__(self, record: PyTree) -> jax.Array:
        """Return h of one record."""
        if isinstance(record, Person):
            return self._of_person(record)
        unit = unit_rows(self.row(record).astype(jnp.float32)[None])[0]
        return unit * unit if self.diagonal else outer(unit)

    def _of_person(self, person: Person) -> jax.Array:
        if len(person.present) > MOST_ROWS:
            raise ValueError(
                f"a person may have {len(person.present)} rows, and second moments are asked of at most {MOST_ROWS}. "
                "Let fewer rows of a person count, or use gs.methods.GD."
            )
        units = unit_rows(jax.vmap(self.row)(person.rows).astype(jnp.float32))
        roots = jnp.sqrt(row_weights(person, self.weights))[:, None] * units
        return jnp.sum(roots * roots, axis=0) if self.diagonal else triangle(weighted(roots.T @ roots))


@dataclass(frozen=True)
class OuterProducts:
    """h(z) = (v₁v₁ᵀ, …, v_kv_kᵀ) with v = vectors(z): k triangles like those of `SecondMoments`, shape (k, d(d + 1)/2).

    So a sum Σ_i a_i x_i x_iᵀ with a_i ≥ 0, such as a model's curvature or the variance of its gradients: v = √a·x.

    The matrices of two records, v and u, have the inner product Σ_j tr(v_jv_jᵀu_ju_jᵀ) = Σ_j (v_jᵀu_j)² ≥ 0: no two are
    at an obtuse angle, whatever the records and their weights are. (Weights below 0 would turn some around; a root has
    none.) The norm is (Σ_j ‖v_j‖⁴)^½, and no bound on it is believed: clipping sees to it, by one factor for all k, of
    which each side of a product takes the root. A record that is not finite counts as 0.

    Args:
      vectors: from a record to v, of shape (k, d).
    """

    vectors: Callable[[PyTree], jax.Array]

    def __call__(self, record: PyTree) -> jax.Array:
        """Return h of one record."""
        if isinstance(record, Person):
            raise TypeError("OuterProducts asks rows, not persons: a person's curvature is not one product.")
        return jnp.stack([outer(v) for v in self.vectors(record).astype(jnp.float32)])


@dataclass(frozen=True)
class Nonnegative:
    """h(z) = max(function(z), 0), entry by entry: counts and shares. No two such vectors are at an obtuse angle."""

    function: Callable[[PyTree], PyTree]

    def __call__(self, record: PyTree) -> PyTree:
        """Return h of one record."""
        return jax.tree.map(lambda leaf: jnp.maximum(leaf, 0), self.function(record))


ACUTE = (SecondMoments, OuterProducts, Nonnegative)
"""The kinds whose vectors are at angles of at most 90 degrees whatever the records are: what `acute` queries answer.

Clipping multiplies a vector by a number of at least 0, which leaves angles as they are.
"""


def unit_rows(rows: jax.Array) -> jax.Array:
    """Return rows divided by their lengths, up to rounding; a row of zeros stays, one that is not finite is NaN."""
    largest = jnp.max(jnp.abs(rows), axis=-1, keepdims=True)
    rows = rows / jnp.where(largest > 0, largest, 1.0)  # or squares of long and short rows would not be numbers
    length = jnp.sqrt(jnp.sum(rows * rows, axis=-1, keepdims=True))
    return rows / jnp.where(length > 0, length, 1.0)


def outer(v: jax.Array) -> jax.Array:
    """Return the upper triangle of vvᵀ as a vector whose norm is ‖v‖²."""
    # Places are computed and not constants: an array as long as the table would be taken for it (`locality`).
    size = len(v)
    count = size * (size + 1) // 2
    i = jnp.repeat(jnp.arange(size), size - jnp.arange(size), total_repeat_length=count)
    j = jnp.arange(count) - i * size + i * (i + 1) // 2
    return v[i] * v[j] * jnp.where(i == j, 1.0, math.sqrt(2))


def weighted(square: jax.Array) -> jax.Array:
    """Return a square matrix with √2 times what is above its diagonal, and 0 below."""
    return square * np.asarray(np.sqrt(2.0) * np.triu(np.ones(square.shape), 1) + np.eye(len(square)), square.dtype)


def triangle(square: jax.Array) -> jax.Array:
    """Return the upper triangle of a square matrix as a vector, row by row."""
    return square[np.triu_indices(len(square))]


def symmetric(moments: jax.Array, size: int) -> jax.Array:
    """Return the symmetric matrix that an answer about `SecondMoments` stands for."""
    upper = jnp.zeros((size, size), moments.dtype).at[np.triu_indices(size)].set(moments)
    above = jnp.triu(upper, 1) / np.float32(np.sqrt(2.0))
    return above + above.T + jnp.diag(jnp.diag(upper))
