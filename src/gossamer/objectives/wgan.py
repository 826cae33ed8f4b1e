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
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from gossamer.objectives.minimax import Minimax

PyTree = Any


def wgan(
    generator: Callable[[PyTree, jax.Array], PyTree],
    critic: Callable[[PyTree, PyTree], jax.Array],
    latent: int,
    penalty: float,
    fakes: int = 256,
) -> Minimax:
    """Return the game of a critic and a generator; start from `init=(critic's parameters, generator's parameters)`.

    Use `ascent="public"`: y, the generator, is moved without asking.

    Args:
      generator: `generator(params, noise)` → one fake record.
      critic: `critic(params, record)` → scalar.
      latent: the dimension of the generator's standard normal noise.
      penalty: λ, of the critic's squared norm.
      fakes: how many fake records estimate the public term in each step.
    """
    for name, number in (("latent", latent), ("fakes", fakes)):
        if not (isinstance(number, int) and number >= 1):
            raise ValueError(f"{name} = {number!r} must be a whole number of at least 1.")
    if not 0 <= penalty < float("inf"):
        raise ValueError(f"penalty = {penalty!r} must be a finite number of at least 0.")
    public = _Fakes(generator, critic, latent, float(penalty), fakes)
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

    def __call__(self, x: PyTree, y: PyTree, key: jax.Array) -> jax.Array:
        noise = jax.random.normal(key, (self.count, self.latent))
        values = jax.vmap(lambda z: self.critic(x, self.generator(y, z)))(noise)
        weights = jax.tree.leaves(eqx.filter(x, eqx.is_inexact_array))
        return jnp.mean(values) + self.penalty * sum(jnp.sum(leaf**2) for leaf in weights)
