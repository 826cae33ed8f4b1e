"""Mirror maps: potentials w whose Bregman divergence measures distance in mirror descent.

Each potential is 1-strongly convex in its own `norm`: B_w(z, x) = w(z) − w(x) − ⟨∇w(x), z − x⟩ ≥ ½·norm(z − x)².
`gradient` goes from the primal to the dual space and `inverse` comes back. A pytree is one flat vector.
"""

import abc
import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree, safe_tree_norm, tree_ravel, tree_sum


class MirrorMap(abc.ABC):
    """A differentiable potential w, 1-strongly convex in `norm`."""

    @abc.abstractmethod
    def potential(self, x: PyTree) -> jax.Array:
        """Return w(x)."""

    @abc.abstractmethod
    def gradient(self, x: PyTree) -> PyTree:
        """Return ∇w(x), a dual point."""

    @abc.abstractmethod
    def inverse(self, y: PyTree) -> PyTree:
        """Return the primal point whose gradient is `y`."""

    @abc.abstractmethod
    def divergence(self, z: PyTree, x: PyTree) -> jax.Array:
        """Return the Bregman divergence B_w(z, x) ≥ 0."""

    @abc.abstractmethod
    def norm(self, x: PyTree) -> jax.Array:
        """Return the norm in which w is 1-strongly convex."""


@dataclass(frozen=True)
class Euclidean(MirrorMap):
    """The potential ½‖x‖₂², 1-strongly convex in ‖·‖₂, under which mirror descent is gradient descent."""

    def potential(self, x: PyTree) -> jax.Array:
        """Return ½‖x‖₂²."""
        return 0.5 * tree_sum(jnp.square, jax.tree.leaves(x))

    def gradient(self, x: PyTree) -> PyTree:
        """Return x."""
        return x

    def inverse(self, y: PyTree) -> PyTree:
        """Return y."""
        return y

    def divergence(self, z: PyTree, x: PyTree) -> jax.Array:
        """Return ½‖z − x‖₂²."""
        return self.potential(jax.tree.map(jnp.subtract, z, x))

    def norm(self, x: PyTree) -> jax.Array:
        """Return ‖x‖₂."""
        return safe_tree_norm(x)


@dataclass(frozen=True)
class PNorm(MirrorMap):
    """The potential ‖x‖_a²/(2(a − 1)) with a = 1 + 1/ln d, for L1 geometry in d dimensions.

    1-strongly convex in ‖·‖_a for 1 < a ≤ 2, and ‖x‖_a ≥ ‖x‖₁/e by Hölder (d^{−(a−1)/a} > 1/e), hence
    e⁻²-strongly convex in ‖·‖₁. For d < 3 the formula would give a > 2, where strong convexity fails: we take a = 2.
    """

    dimension: int

    def __post_init__(self) -> None:
        if not isinstance(self.dimension, int) or self.dimension < 1:
            raise ValueError(
                f"PNorm: dimension={self.dimension!r} must be an int >= 1; use the number of parameters, "
                "sum(leaf.size for leaf in jax.tree.leaves(params))"
            )

    @property
    def exponent(self) -> float:
        """The exponent a of the norm."""
        return 1 + 1 / max(1.0, math.log(self.dimension))

    def potential(self, x: PyTree) -> jax.Array:
        """Return ‖x‖_a²/(2(a − 1))."""
        return jnp.square(self.norm(x)) / (2 * (self.exponent - 1))

    def gradient(self, x: PyTree) -> PyTree:
        """Return sign(x_i)|x_i|^{a−1}‖x‖_a^{2−a}/(a − 1)."""
        flat, unravel = tree_ravel(x)
        return unravel(_power_gradient(flat, self.exponent) / (self.exponent - 1))

    def inverse(self, y: PyTree) -> PyTree:
        """Return (a − 1)·sign(y_i)|y_i|^{b−1}‖y‖_b^{2−b}, 1/a + 1/b = 1: the gradient of the conjugate."""
        flat, unravel = tree_ravel(y)
        conjugate = self.exponent / (self.exponent - 1)
        return unravel(_power_gradient(flat, conjugate) * (self.exponent - 1))

    def divergence(self, z: PyTree, x: PyTree) -> jax.Array:
        """Return B_w(z, x), to an absolute accuracy of rounding in w(z) + w(x)."""
        # ⟨∇w(x), x⟩ = 2w(x) by homogeneity. The difference cancels for z near x: rounding must not make it negative.
        slope = tree_ravel(self.gradient(x))[0] @ tree_ravel(z)[0]
        return jnp.maximum(self.potential(z) + self.potential(x) - slope, 0.0)

    def norm(self, x: PyTree) -> jax.Array:
        """Return ‖x‖_a."""
        flat, _ = tree_ravel(x)
        scaled, scale = _scaled(flat)
        return scale * _power_norm(scaled, self.exponent)


@dataclass(frozen=True)
class Entropy(MirrorMap):
    """The potential Σ x_i ln x_i on the simplex Σ x_i = 1, 1-strongly convex in ‖·‖₁ there (Pinsker).

    The dual is taken modulo constants, which the simplex does not feel: `inverse` is the softmax.
    """

    def potential(self, x: PyTree) -> jax.Array:
        """Return Σ x_i ln x_i, with 0 ln 0 = 0."""
        return tree_sum(lambda leaf: jax.scipy.special.xlogy(leaf, leaf), jax.tree.leaves(x))

    def gradient(self, x: PyTree) -> PyTree:
        """Return 1 + ln x_i, which is −∞ at zero."""
        return jax.tree.map(lambda leaf: 1 + jnp.log(leaf), x)

    def inverse(self, y: PyTree) -> PyTree:
        """Return softmax(y) over the whole tree; an entry −∞ becomes zero."""
        flat, unravel = tree_ravel(y)
        return unravel(jax.nn.softmax(flat))

    def divergence(self, z: PyTree, x: PyTree) -> jax.Array:
        """Return KL(z ‖ x): infinite where z_i > 0 = x_i, and finite where z_i = 0."""
        return jnp.sum(_relative_entropy(tree_ravel(z)[0], tree_ravel(x)[0]))

    def norm(self, x: PyTree) -> jax.Array:
        """Return ‖x‖₁."""
        return tree_sum(jnp.abs, jax.tree.leaves(x))


def _scaled(flat: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the vector divided by its largest magnitude (or by one), and that magnitude.

    High powers of anything larger would overflow. The scale is a constant to differentiation: every use multiplies
    it back, so the result does not depend on it.
    """
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(flat)))
    scale = jnp.where(largest > 0, largest, 1.0)
    return flat / scale, scale


def _power_norm(flat: jax.Array, exponent: float) -> jax.Array:
    return jnp.sum(jnp.abs(flat) ** exponent) ** (1 / exponent)


def _power_gradient(flat: jax.Array, exponent: float) -> jax.Array:
    """Gradient of ½‖·‖²_exponent: sign(v_i)|v_i|^{a−1}‖v‖_a^{2−a}."""
    scaled, scale = _scaled(flat)
    norm = _power_norm(scaled, exponent)
    # A scaled vector's norm is at least one, unless the vector is zero.
    return scale * jnp.sign(flat) * jnp.abs(scaled) ** (exponent - 1) * jnp.maximum(norm, 1.0) ** (2 - exponent)


def _relative_entropy(z: jax.Array, x: jax.Array) -> jax.Array:
    """Return z ln(z/x) − z + x ≥ 0 for each entry, as z·(t − ln(1 + t)) with t = (x − z)/z."""
    # Below the smallest normal number the ratio could overflow, and z ln z is zero to every digit.
    positive = z >= jnp.finfo(z.dtype).tiny
    divisor = jnp.where(positive, z, 1.0)
    t = jnp.where(positive, (x - z) / divisor, 0.0)
    # For z near x, log1p rounds at the scale of z − x and not of z; for x far below z, 1 + t has lost x.
    logarithm = jnp.where(jnp.abs(t) < 0.5, jnp.log1p(t), jnp.log(x / divisor))
    return jnp.where(positive, divisor * jnp.maximum(t - logarithm, 0.0), x)
