"""Where a run's randomness comes from."""

import secrets

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.base.generator import CHACHA20, KEY_WORDS
from gossamer.base.messages import is_whole, plain, shown


def new_key(seed: int | None) -> jax.Array:
    """Return the key of a run: 256 bits of the operating system's entropy, or for a test a function of a seed.

    Noise, samples, slots, orders and public steps of a run all come from this one key.
    """
    if seed is None:
        words = np.frombuffer(secrets.token_bytes(4 * KEY_WORDS), np.uint32)
        return jax.random.wrap_key_data(jnp.asarray(words), impl=CHACHA20)
    seed = plain(seed)
    if not (is_whole(seed, least=0) and seed < 2**32):  # JAX drops further bits, so that other seeds would be the same
        raise ValueError(
            f"seed = {shown(seed)} must be a whole number from 0 to 2^32 - 1, or None, which takes entropy from the "
            "operating system."
        )
    return jax.random.key(seed, impl=CHACHA20)
