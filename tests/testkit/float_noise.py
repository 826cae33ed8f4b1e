"""The noise of version 0.1, in float32: with its tails, and yet refuted by attacks on bits (the control)."""

import jax
import jax.numpy as jnp

_TO_UNIT = 2.0**-32


def normal(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Draw independent standard normals in float32."""
    size = 1
    for length in shape:
        size *= length
    pairs = (size + 1) // 2
    coarse, fine, turn = jax.random.bits(key, (3, pairs), jnp.uint32)
    radius = jnp.sqrt(2.0 * _exponential(coarse, fine))
    cosine, sine = _direction(turn)
    return jnp.concatenate([radius * cosine, radius * sine])[:size].reshape(shape)


def _direction(turn: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return cosine and sine of a uniform angle: two bits choose the quadrant, thirty an angle within ±π/4.

    The Taylor polynomials are right to 3e-8 there, and several times faster than XLA's functions on a CPU.
    """
    angle = (((turn << 2).astype(jnp.float32) + 2.0) * _TO_UNIT - 0.5) * jnp.float32(jnp.pi / 2)
    a2 = angle * angle
    sine = angle * (1 + a2 * (-1 / 6 + a2 * (1 / 120 + a2 * (-1 / 5040 + a2 / 362880))))
    cosine = 1 + a2 * (-1 / 2 + a2 * (1 / 24 + a2 * (-1 / 720 + a2 / 40320)))
    odd, half = (turn >> 30) & 1, jnp.where(turn >> 31, -1.0, 1.0)
    return half * jnp.where(odd, -sine, cosine), half * jnp.where(odd, cosine, sine)


def _exponential(coarse: jax.Array, fine: jax.Array) -> jax.Array:
    """Return −log U for U = (coarse + (fine + ½)/2^32)/2^32, with small relative error near U = 0 and near U = 1."""
    rest = (fine.astype(jnp.float32) + 0.5) * _TO_UNIT
    low = -jnp.log((coarse.astype(jnp.float32) + rest) * _TO_UNIT)
    # 1 − U, computed from the complement so that it does not cancel.
    high = -jnp.log1p(-((~coarse).astype(jnp.float32) + (1.0 - rest)) * _TO_UNIT)
    return jnp.where(coarse < jnp.uint32(1 << 31), low, high)
