"""Tiny tables and problems on which attacks are strong and runs are fast."""

import jax.numpy as jnp
import numpy as np

import gossamer as gs


def linear_loss(x, z):
    """A loss whose gradient is the record itself: what a record contributes is in the auditor's hands."""
    return jnp.dot(x, z)


def bent_loss(x, z):
    """Gradients z·(1 + 3x): the record has a hand in the difference of two gradients too, beyond a smoothness of 1."""
    return jnp.dot(z, x + 1.5 * x**2)


LINEAR = gs.ERM(linear_loss)
TABLE = jnp.array([[1.0, 0.0], [0.0, 1.0], [0.3, 0.2], [-0.5, 0.4]])
OPPOSITE = jnp.array([-1.0, 0.0])
"""Takes the place of TABLE[0] in the worst neighbouring table: clipped sums move by 2."""
START = jnp.zeros(2)


def logistic_table(n=200, d=4, seed=0):
    """A table for logistic regression with rows of norm at most 1."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    y = (X @ rng.normal(size=d) + 0.1 * rng.normal(size=n) > 0).astype(np.float32)
    return X.astype(np.float32), y


def linear_params(d=4):
    return {"weights": jnp.zeros(d), "intercept": jnp.zeros(())}
