"""Convex sets with exact Euclidean projections: balls, boxes and the simplex.

A set speaks about the whole pytree as one vector in R^d. Sets are frozen and hashable, so they can be static
arguments of `jax.jit`; `project` and `contains` can be jitted and vmapped.
"""

import abc
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree, map_leaves, safe_tree_norm, tree_ravel, tree_sum
from gossamer.geometry.parameters import finite_number


class Constraint(abc.ABC):
    """A closed convex set of pytrees."""

    @abc.abstractmethod
    def project(self, tree: PyTree) -> PyTree:
        """Return the point of the set nearest to `tree` in the Euclidean norm."""

    @abc.abstractmethod
    def contains(self, tree: PyTree, tolerance: float = 1e-5) -> jax.Array:
        """Say whether `tree` is in the set, up to `tolerance` relative to the set's own scale.

        Relative, because float32 cannot place a point on a ball of radius 1e6 more closely than 0.06.
        """

    @abc.abstractmethod
    def norm_bound(self, dimension: int) -> float:
        """Return the largest Euclidean norm in the set in R^dimension; two points are at most twice that apart."""


@dataclass(frozen=True)
class L2Ball(Constraint):
    """The ball ‖x‖₂ ≤ radius."""

    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _size("L2Ball", "radius", self.radius))

    def project(self, tree: PyTree) -> PyTree:
        """Scale the tree onto the ball if it is outside."""
        norm = safe_tree_norm(tree)
        factor = jnp.where(norm > self.radius, self.radius / norm, 1.0)
        return map_leaves(lambda x: x * factor, tree)

    def contains(self, tree: PyTree, tolerance: float = 1e-5) -> jax.Array:
        """Say whether ‖x‖₂ ≤ (1 + tolerance)·radius."""
        return safe_tree_norm(tree) <= self.radius * (1 + tolerance)

    def norm_bound(self, dimension: int) -> float:
        """Return the radius."""
        return self.radius


@dataclass(frozen=True)
class L1Ball(Constraint):
    """The ball ‖x‖₁ ≤ radius."""

    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", _size("L1Ball", "radius", self.radius))

    def project(self, tree: PyTree) -> PyTree:
        """Soft-threshold at the exact level that brings ‖x‖₁ down to the radius (Duchi et al., ICML 2008)."""
        flat, unravel = tree_ravel(tree)
        magnitude = jnp.abs(flat)
        outside = jnp.sign(flat) * _project_on_simplex(magnitude, self.radius)
        return unravel(jnp.where(jnp.sum(magnitude) <= self.radius, flat, outside))

    def contains(self, tree: PyTree, tolerance: float = 1e-5) -> jax.Array:
        """Say whether ‖x‖₁ ≤ (1 + tolerance)·radius."""
        return tree_sum(jnp.abs, jax.tree.leaves(tree)) <= self.radius * (1 + tolerance)

    def norm_bound(self, dimension: int) -> float:
        """Return the radius: the corners are the farthest points."""
        return self.radius


@dataclass(frozen=True)
class Box(Constraint):
    """The box lower ≤ x_i ≤ upper; a bound of None is absent. `Box(0.0, None)` is the non-negative orthant."""

    lower: float | None
    upper: float | None

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            value = getattr(self, name)
            if value is not None:
                value = finite_number("Box", name, value, remedy=f"for no bound use {name}=None")
                object.__setattr__(self, name, value)
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ValueError(
                f"Box: lower={self.lower!r} must be <= upper={self.upper!r}; swap them, or use None for one"
            )

    def project(self, tree: PyTree) -> PyTree:
        """Clip every entry."""
        return map_leaves(lambda x: jnp.clip(x, self.lower, self.upper), tree)

    def contains(self, tree: PyTree, tolerance: float = 1e-5) -> jax.Array:
        """Say whether every entry is within its bounds, up to tolerance·max(1, |bound|)."""
        low = -math.inf if self.lower is None else self.lower - tolerance * max(1.0, abs(self.lower))
        high = math.inf if self.upper is None else self.upper + tolerance * max(1.0, abs(self.upper))
        flat, _ = tree_ravel(tree)
        return jnp.all((flat >= low) & (flat <= high))

    def norm_bound(self, dimension: int) -> float:
        """Return √d times the larger bound; infinite if one bound is absent."""
        if self.lower is None or self.upper is None:
            return math.inf
        return math.sqrt(dimension) * max(abs(self.lower), abs(self.upper))


@dataclass(frozen=True)
class Simplex(Constraint):
    """The simplex x_i ≥ 0, Σ x_i = total."""

    total: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", _size("Simplex", "total", self.total))

    def project(self, tree: PyTree) -> PyTree:
        """Subtract the exact level for which the positive parts sum to `total`."""
        flat, unravel = tree_ravel(tree)
        return unravel(_project_on_simplex(flat, self.total))

    def contains(self, tree: PyTree, tolerance: float = 1e-5) -> jax.Array:
        """Say whether x_i ≥ −tolerance·total and |Σ x_i − total| ≤ tolerance·total."""
        flat, _ = tree_ravel(tree)
        slack = tolerance * self.total
        return jnp.all(flat >= -slack) & (jnp.abs(jnp.sum(flat) - self.total) <= slack)

    def norm_bound(self, dimension: int) -> float:
        """Return the total: the corners are the farthest points."""
        return self.total


def _size(owner: str, name: str, value: object) -> float:
    return finite_number(
        owner, name, value, minimum=0.0, exclusive=True, remedy="for unconstrained parameters use constraint=None"
    )


def _project_on_simplex(flat: jax.Array, total: float) -> jax.Array:
    """Project a vector on {x ≥ 0, Σ x = total} in O(d log d).

    With v sorted downwards and θ_j = (v_1 + … + v_j − total)/j, the level is θ = max_j θ_j: θ_{j+1} − θ_j =
    (v_{j+1} − θ_j)/(j+1), so θ_j rises exactly as long as v_{j+1} is above it, that is, belongs to the support.
    """
    # Projection on the simplex ignores a common shift, and an entry `total` below the largest ends at zero wherever
    # it lies. So we work on [−total, 0], where float32 resolves `total` however huge the entries are.
    shifted = jnp.maximum(flat - jnp.max(flat), -total)
    descending = jnp.sort(shifted, descending=True)
    count = jnp.arange(1, flat.size + 1, dtype=flat.dtype)
    level = jnp.max((jnp.cumsum(descending) - total) / count)
    return jnp.maximum(shifted - level, 0.0)
