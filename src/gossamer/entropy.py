"""Where a run's randomness comes from."""

import secrets

import jax
import jax.numpy as jnp
import numpy as np


def new_key(seed: int | None) -> jax.Array:
    """Return the key of a run: from the operating system's entropy, or for a test from a seed."""
    if seed is not None:
        return jax.random.key(seed)
    words = np.frombuffer(secrets.token_bytes(8), np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32")
