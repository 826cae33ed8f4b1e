"""The two steps of accelerated mirror descent on a ball or the simplex, both exact.

On each set there is a norm ‖·‖ and a potential w that is 1-strongly convex in it:

    set                     norm    w
    L2Ball(R)               ‖·‖₂    ½‖z‖₂²
    L1Ball(R)               ‖·‖₁    κ‖z‖_a²/(2(a − 1)), a = 1 + 1/ln d, κ = d^{2(a−1)/a} < e²
    Simplex(s)              ‖·‖₁    s·Σ z_i ln z_i

`PNorm` is 1-strongly convex in ‖·‖_a, and ‖v‖₁ ≤ d^{(a−1)/a}‖v‖_a: hence κ. On the simplex Pinsker's inequality for
z/s gives Σ z ln(z/x) ≥ ‖z − x‖₁²/(2s): hence s.

**Steepest descent**, argmin_{y ∈ C} (L/2)‖y − x‖² + ⟨g, y⟩. In ‖·‖₂ it is the projection of x − g/L. In ‖·‖₁, first
ask how much ⟨g, y⟩ can fall within ‖y − x‖₁ ≤ t. The best coordinate j can grow at the rate G = max|g_i| (on the
simplex: −min g_i) as long as the set has room. Once there is none, mass must be moved to j: taking it from coordinate i
costs one unit of length at i and one at j, and gains (G + sign(x_i)g_i)/2 per unit of length, for 2|x_i| units. (Taking
mass away without moving it to j gains |g_i| ≤ (G + |g_i|)/2 and so is never better.) So the gain is concave and
piecewise linear in t: sort the pieces by rate, and stop where the rate falls below L·t, the slope of (L/2)t².

**Mirror descent**, argmin_{z ∈ C} B_w(z, x) + ⟨g, z⟩, is argmin w(z) − ⟨θ, z⟩ with θ = ∇w(x) − g. On the L2 ball it is
a projection, on the simplex a softmax. On the L1 ball optimality says θ − ∇w(z) = νu with u ∈ ∂‖z‖₁ and ν ≥ 0, which is
0 unless ‖z‖₁ = R. ∇w(z)_i has the sign of z_i, so ∇w(z) = soft(θ, ν), z = ∇w*(soft(θ, ν)). ‖z‖₁ falls as ν grows: ν by
bisection, to the last bit.
"""

import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree, tree_ravel
from gossamer.geometry.constraints import Constraint, L1Ball, L2Ball, Simplex
from gossamer.geometry.mirror import PNorm

SETS = (L2Ball, L1Ball, Simplex)
_HALVINGS = 40


def steepest_descent(constraint: Constraint, x: PyTree, g: PyTree, smoothness: float) -> PyTree:
    """Return argmin_{y ∈ C} (L/2)‖y − x‖² + ⟨g, y⟩ for x ∈ C, in the set's norm."""
    if isinstance(constraint, L2Ball):
        return constraint.project(jax.tree.map(lambda a, b: a - b / smoothness, x, g))
    flat, unravel = tree_ravel(x)
    slope, _ = tree_ravel(g)
    if isinstance(constraint, L1Ball):
        best = jnp.argmax(jnp.abs(slope))
        room = jnp.maximum(constraint.radius - jnp.sum(jnp.abs(flat)), 0.0)
        sign, direction = jnp.sign(flat), -jnp.sign(slope[best])
    else:
        best = jnp.argmin(slope)
        room = jnp.float32(0)
        sign, direction = jnp.ones_like(flat), jnp.float32(1)
    growth = -direction * slope[best]
    # What ⟨g, y⟩ gains per unit of length, and for how many units: growing into the room, then moving mass to `best`.
    gains = jnp.concatenate([growth[None], 0.5 * (growth + sign * slope)])
    lengths = jnp.concatenate([room[None], 2 * jnp.abs(flat)])
    order = jnp.argsort(-gains)
    ends = jnp.cumsum(lengths[order])
    used = jnp.clip(gains[order] / smoothness - (ends - lengths[order]), 0.0, lengths[order])
    used = jnp.zeros_like(used).at[order].set(used)
    taken = 0.5 * used[1:]
    return unravel((flat - sign * taken).at[best].add(direction * (used[0] + jnp.sum(taken))))


def mirror_descent(constraint: Constraint, x: PyTree, g: PyTree) -> PyTree:
    """Return argmin_{z ∈ C} B_w(z, x) + ⟨g, z⟩ with the set's potential; on the simplex x must have no zero entry."""
    if isinstance(constraint, L2Ball):
        return constraint.project(jax.tree.map(jnp.subtract, x, g))
    flat, unravel = tree_ravel(x)
    slope, _ = tree_ravel(g)
    if isinstance(constraint, Simplex):
        return unravel(constraint.total * jax.nn.softmax(jnp.log(flat) - slope / constraint.total))
    assert isinstance(constraint, L1Ball)
    potential = PNorm(flat.size)
    scale = flat.size ** (2 * (potential.exponent - 1) / potential.exponent)
    theta = potential.gradient(flat) - slope / scale

    def at(level: jax.Array) -> jax.Array:
        return potential.inverse(jnp.sign(theta) * jnp.maximum(jnp.abs(theta) - level, 0.0))

    def halve(_: int, bounds: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        low, high = bounds
        middle = 0.5 * (low + high)
        outside = jnp.sum(jnp.abs(at(middle))) > constraint.radius
        return jnp.where(outside, middle, low), jnp.where(outside, high, middle)

    largest = jnp.max(jnp.abs(theta))
    level, _ = jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.zeros_like(largest), largest))
    # The level is 0 or leaves z outside by a rounding, which may be much when the set is small against θ.
    z = at(level)
    return unravel(z * constraint.radius / jnp.maximum(jnp.sum(jnp.abs(z)), constraint.radius))
