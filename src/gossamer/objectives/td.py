"""Temporal difference learning with a non-linear value function (paper MINIMAX, eq. 68).

    min over θ, max over ω, of the mean of   ℓ(θ, ω; s, r, s′) = δ·ωᵀΨ − ½(ωᵀΨ)²
    δ = r + γ(1 − done)V_θ(s′) − V_θ(s),     Ψ = ∇_θ V_θ(s)

The maximum over ω is half the mean squared projected Bellman error ½ E[δΨ]ᵀ E[ΨΨᵀ]⁻¹ E[δΨ]. ωᵀΨ is the derivative of V
in direction ω, one forward pass; the matrix ΨΨᵀ is never formed.

The unit of privacy. One record is one transition, as in the paper, or one episode: all its transitions together,
whose losses are added up before the one gradient is clipped. A person who contributes an episode is protected as a
whole by the second only.
"""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp

from gossamer.base.trees import PyTree
from gossamer.objectives.minimax import Minimax


def td(value: Callable[[PyTree, PyTree], jax.Array], discount: float, episodes: bool = False) -> Minimax:
    """Return the problem of fitting a value function to transitions; ω is a pytree like θ.

    A record is `(state, reward, next_state, done)`. With `episodes` it is `(states, rewards, next_states, done, mask)`,
    each with a leading axis of the longest episode's length, and a mask that is 1 for transitions that there are:
    its loss is their sum, so the objective is a mean over episodes.

    Args:
      value: `value(params, state)` → scalar, V_θ(s).
      discount: γ in [0, 1].
      episodes: whether a record is an episode.
    """
    if not 0 <= discount <= 1:
        raise ValueError(f"discount = {discount!r} must be in [0, 1].")
    loss = _TDLoss(value, float(discount))
    return Minimax(_EpisodeLoss(loss) if episodes else loss)


@dataclass(frozen=True)
class _TDLoss:
    """ℓ of one transition."""

    value: Callable[[PyTree, PyTree], jax.Array]
    discount: float

    def __call__(self, x: PyTree, y: PyTree, record: tuple[PyTree, ...]) -> jax.Array:
        state, reward, after, done = record
        here, slope = eqx.filter_jvp(
            lambda theta: self.value(theta, state), (x,), (eqx.filter(y, eqx.is_inexact_array),)
        )
        delta = reward + self.discount * (1.0 - done) * self.value(x, after) - here
        return delta * slope - 0.5 * slope**2


@dataclass(frozen=True)
class _EpisodeLoss:
    """The sum of ℓ over the transitions of one episode."""

    loss: _TDLoss

    def __call__(self, x: PyTree, y: PyTree, record: tuple[PyTree, ...]) -> jax.Array:
        *transitions, mask = record
        real = mask > 0
        # Padding may hold anything, and a derivative multiplies it by 0: it is blanked before it enters.
        blanked = jax.tree.map(lambda a: jnp.where(real.reshape(-1, *(1,) * (a.ndim - 1)), a, 0), tuple(transitions))
        losses = jax.vmap(lambda one: self.loss(x, y, one))(blanked)
        return jnp.sum(jnp.where(real, losses, 0.0))
