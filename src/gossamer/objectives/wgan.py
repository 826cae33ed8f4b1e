"""The Wasserstein GAN, of whose value only one term meets records (Arjovsky et al., 2017; paper MINIMAX, eq. 65).

    min over the generator G, max over the critic D, of   E D(record) − E D(G(noise)) − λ‖w_D‖²

The generator sees records through the critic alone, and the second and third terms are public given the players: so
the records are asked for ∇D(record) in the critic, and for nothing else.

Which player is x. The methods spend their care, differences included, on the gradient in x, and records meet the
critic; so x is the critic and y the generator, with the sign of the value turned: min over D, max over G, of
−E D(record) + E D(G(noise)) + λ‖w_D‖². Descent ascent is the same for both forms. PrivateDiff in print (which minimises
over the generator) carries differences along for the player who needs no query, and adds noise to the critic's
ascent as a whole; here its rounds are `inner_steps` public steps of the generator and one step of the critic, along a
gradient that "gradient" and "difference" queries make up and the public term completes.

Both sides of the scales. What a record says about the critic is clipped. If what a fake says is not, the fakes outweigh
the records as soon as gradients exceed the threshold: the critic's gradient is not zero where fakes and records are
alike, and the critic runs away. With `clip`, set to the method's `clip_x`, a fake's gradient in the critic is clipped
in the same way: not for privacy, since fakes are public, but to compare like with like.
"""

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp

from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.objectives.minimax import Minimax
from gossamer.oracle.clipping import clipped_sum


def wgan(
    generator: Callable[[PyTree, jax.Array], PyTree],
    critic: Callable[[PyTree, PyTree], jax.Array],
    latent: int,
    penalty: float,
    fakes: int = 256,
    clip: float | None = None,
) -> Minimax:
    """Return the game of a critic and a generator; start from `init=(critic's parameters, generator's parameters)`.

    Use `ascent="public"`: y, the generator, is moved without asking.

    Args:
      generator: `generator(params, noise)` → one fake record.
      critic: `critic(params, record)` → scalar.
      latent: the dimension of the generator's standard normal noise.
      penalty: λ, of the critic's squared norm.
      fakes: how many fake records estimate the public term in each step.
      clip: bound on one fake's gradient in the critic; the method's `clip_x`, or None if that one never binds.
    """
    for name, number in (("latent", latent), ("fakes", fakes)):
        if not (isinstance(number, int) and number >= 1):
            raise ValueError(f"{name} = {number!r} must be a whole number of at least 1.")
    if not 0 <= penalty < float("inf"):
        raise ValueError(f"penalty = {penalty!r} must be a finite number of at least 0.")
    if clip is not None and not 0 < clip < float("inf"):
        raise ValueError(f"clip = {clip!r} must be a finite number above 0: the method's clip_x; or None.")
    public = _Fakes(generator, critic, latent, float(penalty), fakes, clip=clip)
    return Minimax(_Real(critic), public=public, private_blocks=("x",))


@dataclass(frozen=True)
class _Real:
    """−D(record)."""

    critic: Callable[[PyTree, PyTree], jax.Array]

    def __call__(self, x: PyTree, y: PyTree, record: PyTree) -> jax.Array:
        return -self.critic(x, record)


@dataclass(frozen=True)
class _Fakes:
    """Mean of D(G(noise)) over fake records, and λ‖w_D‖²."""

    generator: Callable[[PyTree, jax.Array], PyTree]
    critic: Callable[[PyTree, PyTree], jax.Array]
    latent: int
    penalty: float
    count: int
    clip: float | None

    def __call__(self, x: PyTree, y: PyTree, key: jax.Array) -> jax.Array:
        fakes = jax.vmap(lambda z: self.generator(y, z))(jax.random.normal(key, (self.count, self.latent)))
        weights, rest = eqx.partition(x, eqx.is_inexact_array)
        penalty = self.penalty * trees.dot(weights, weights)
        if self.clip is None:
            return self._mean(weights, rest, fakes) + penalty
        # The same value; its gradient in the critic is that of the second term, the mean of clipped gradients.
        fixed, shown = jax.lax.stop_gradient((weights, fakes))
        slope = clipped_sum(lambda w, fake: self.critic(eqx.combine(w, rest), fake), fixed, shown, self.clip)
        moved = jax.tree.map(jnp.subtract, weights, fixed)
        return self._mean(fixed, rest, fakes) + trees.dot(slope, moved) / self.count + penalty

    def _mean(self, weights: PyTree, rest: PyTree, fakes: PyTree) -> jax.Array:
        return jnp.mean(jax.vmap(lambda fake: self.critic(eqx.combine(weights, rest), fake))(fakes))
