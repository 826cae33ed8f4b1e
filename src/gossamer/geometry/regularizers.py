"""Convex penalties r with exact proximal operators, prox(v, step) = argmin_x ½‖x − v‖² + step·r(x).

`exclude` names dictionary keys or attributes: a leaf with one of them anywhere on its path is left alone, as
intercepts usually are: `L2(1e-2, exclude=("intercept",))`. Penalties are frozen and hashable, so they can be static
arguments of `jax.jit`; `step` may be traced and must be non-negative.
"""

import abc
from dataclasses import dataclass, field, fields
from typing import Literal

import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree, leaves_not_named, map_leaves, map_named, safe_norm, tree_sum
from gossamer.geometry.parameters import finite_number

Step = float | jax.Array


@dataclass(frozen=True)
class Regularizer(abc.ABC):
    """A convex penalty on pytrees; leaves named by `exclude` are not penalised."""

    exclude: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        owner = type(self).__name__
        if isinstance(self.exclude, str):
            raise ValueError(f"{owner}: exclude={self.exclude!r} must be a tuple of names; use ({self.exclude!r},)")
        object.__setattr__(self, "exclude", tuple(self.exclude))
        for parameter in fields(self):
            if parameter.type is float:
                value = getattr(self, parameter.name)
                remedy = "for no penalty use 0.0"
                value = finite_number(owner, parameter.name, value, minimum=0.0, remedy=remedy)
                object.__setattr__(self, parameter.name, value)

    @abc.abstractmethod
    def value(self, tree: PyTree) -> jax.Array:
        """Return r(tree)."""

    @abc.abstractmethod
    def prox(self, tree: PyTree, step: Step) -> PyTree:
        """Return argmin_x ½‖x − tree‖² + step·r(x)."""


@dataclass(frozen=True)
class Zero(Regularizer):
    """No penalty, r = 0."""

    def value(self, tree: PyTree) -> jax.Array:
        """Return 0."""
        return jnp.zeros(())

    def prox(self, tree: PyTree, step: Step) -> PyTree:
        """Return the tree itself."""
        return tree

    def gradient(self, tree: PyTree) -> PyTree:
        """Return zeros."""
        return map_leaves(jnp.zeros_like, tree)


@dataclass(frozen=True)
class L2(Regularizer):
    """The ridge penalty r(x) = (strength/2)·‖x‖₂²."""

    strength: float

    def value(self, tree: PyTree) -> jax.Array:
        """Return (strength/2)·‖x‖₂²."""
        return 0.5 * self.strength * tree_sum(jnp.square, leaves_not_named(tree, self.exclude))

    def prox(self, tree: PyTree, step: Step) -> PyTree:
        """Shrink: x / (1 + step·strength)."""
        return map_named(lambda x: x / (1 + step * self.strength), tree, self.exclude)

    def gradient(self, tree: PyTree) -> PyTree:
        """Return strength·x, and zero for excluded leaves."""
        return map_named(lambda x: self.strength * x, tree, self.exclude, otherwise=jnp.zeros_like)


@dataclass(frozen=True)
class L1(Regularizer):
    """The lasso penalty r(x) = strength·‖x‖₁."""

    strength: float

    def value(self, tree: PyTree) -> jax.Array:
        """Return strength·‖x‖₁."""
        return self.strength * tree_sum(jnp.abs, leaves_not_named(tree, self.exclude))

    def prox(self, tree: PyTree, step: Step) -> PyTree:
        """Soft-threshold at step·strength."""
        return map_named(lambda x: _soft_threshold(x, step * self.strength), tree, self.exclude)


@dataclass(frozen=True)
class ElasticNet(Regularizer):
    """The elastic net r(x) = l1·‖x‖₁ + (l2/2)·‖x‖₂²."""

    l1: float
    l2: float

    def value(self, tree: PyTree) -> jax.Array:
        """Return l1·‖x‖₁ + (l2/2)·‖x‖₂²."""
        leaves = leaves_not_named(tree, self.exclude)
        return self.l1 * tree_sum(jnp.abs, leaves) + 0.5 * self.l2 * tree_sum(jnp.square, leaves)

    def prox(self, tree: PyTree, step: Step) -> PyTree:
        """Soft-threshold at step·l1, then shrink by 1 + step·l2."""
        return map_named(lambda x: _soft_threshold(x, step * self.l1) / (1 + step * self.l2), tree, self.exclude)


@dataclass(frozen=True)
class GroupLasso(Regularizer):
    """The group lasso r(x) = strength·Σ_g ‖x_g‖₂, which sets whole groups to zero.

    `groups="leaves"`: every leaf is one group, so a dictionary of vectors names its groups. `groups="rows"`: every
    row `leaf[i]` of every leaf is one group, so that a weight matrix of shape (features, outputs) loses whole
    features. All groups weigh the same, whatever their size.
    """

    strength: float
    groups: Literal["leaves", "rows"] = "leaves"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.groups not in ("leaves", "rows"):
            raise ValueError(f"GroupLasso: groups={self.groups!r} must be 'leaves' or 'rows'; use 'leaves'")

    def value(self, tree: PyTree) -> jax.Array:
        """Return strength·Σ_g ‖x_g‖₂."""
        return self.strength * tree_sum(self._norms, leaves_not_named(tree, self.exclude))

    def prox(self, tree: PyTree, step: Step) -> PyTree:
        """Shorten every group by step·strength, to zero if it is shorter than that."""

        def shorten(x: jax.Array) -> jax.Array:
            norms = self._norms(x)
            length = jnp.maximum(norms - step * self.strength, 0.0)
            return x * (length / jnp.where(norms > 0, norms, 1.0))

        return map_named(shorten, tree, self.exclude)

    def _norms(self, leaf: jax.Array) -> jax.Array:
        """Return one norm for each group, with an axis of size one for each axis summed."""
        first = 1 if self.groups == "rows" else 0
        return safe_norm(leaf, axis=tuple(range(first, leaf.ndim)))


def _soft_threshold(x: jax.Array, threshold: Step) -> jax.Array:
    return jnp.sign(x) * jnp.maximum(jnp.abs(x) - threshold, 0.0)
