"""How far one hostile record can move a clipped sum, in thresholds, in programs compiled as users compile them.

    python hostile_contributions.py [twice]

The tests compile without LLVM's optimisations, which hides how a product and a sum that are rounded together differ
from the two rounded apart. With `twice`, norms and sums may each make their own vectors, as if nothing were stored.
"""

import json
import sys
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.oracle.clipping import clip_and_sum, linear, per_record
from gossamer.oracle.clipping.ghost import sums
from gossamer.oracle.queries import Difference, Gradient

ROWS, TRIALS = 32, 60


def cancelling(params, record):
    """Take a gradient back that was just added: what is left is rounding, times what the record chooses."""
    a, b, size = record
    first, second = params["w"] @ a + params["v"], params["w"] @ b + params["v"]
    return size * jnp.sum(first * a[0] * 1.7) - size * jnp.sum(second * b[0] * 1.7)


def network(params, record):
    x, _, label = record
    score = jnp.sum(jax.nn.relu(params["w"] @ x) * params["v"])
    return jax.nn.softplus(score) - label * score


def deep(params, record):
    x, _, label = record
    hidden = jax.nn.relu(jax.nn.relu(params["w"] @ x) @ params["w"].T + params["v"])
    score = hidden @ params["v"]
    return jax.nn.softplus(score) - label * score


def embedded(params, record):
    """Read one row of a table again, with errors that take each other back: apart, they drown other records' parts."""
    a, b, size = record
    table = params["w"][jnp.int32(jnp.abs(a[:3]) < 0)]  # that the row is the first is not known before
    return size * (table[0] @ a) - size * (table[1] @ b) + table[2] @ b


def shrunk(params, record):
    """Multiply weights by a number whose square underflows, and the record by one that makes up for it."""
    a, _, _ = record
    return jnp.sum((1e-20 * params["w"]) @ (1e19 * a))


def rescaled(params, record):
    """Multiply and divide weights by a number whose square underflows, and read a spectrum."""
    a, b, _ = record
    return jnp.sum(((params["w"] * 1e-25 / 1e-25) * 1e-25 / 1e-25) @ (1e3 * a)) + jnp.abs(
        jnp.sum(params["v"] * (b + 2j))
    )


def norm(tree):
    return float(np.sqrt(sum(np.sum(np.square(np.asarray(leaf, np.float64))) for leaf in jax.tree.leaves(tree))))


def largest(loss, backend, moved):
    """Return how far one record moved a sum at most, alone and among others, over random points and records."""

    @jax.jit
    def contribution(params, other, batch, mask, clip):
        query = Gradient(loss, params) if moved is None else Difference(loss, params, other)
        return clip_and_sum(query, batch, mask, clip, backend)

    found, numbers = 0.0, np.random.default_rng(0)
    for trial in range(TRIALS):
        params = {"w": numbers.normal(size=(4, 4)), "v": numbers.normal(size=4)}
        other = jax.tree.map(lambda leaf: leaf * (1 + (moved or 0.0) * numbers.normal(size=leaf.shape)), params)
        params, other = jax.tree.map(np.float32, (params, other))
        rows = numbers.normal(size=(2, ROWS, 4)) * 10 ** numbers.uniform(-6, 6)
        rows[1, -1] = rows[0, -1]
        sizes = numbers.normal(size=ROWS) * (1e12 if moved is None else 1.0)
        batch = tuple(np.float32(column) for column in (*rows, sizes))
        clip = np.float32(10 ** numbers.uniform(-6, 0)) if trial % 2 else np.float32(1)
        hostile = np.arange(ROWS) == ROWS - 1
        alone, everyone, others = (
            contribution(params, other, batch, mask, clip) for mask in (hostile, hostile | True, ~hostile)
        )
        moves = (alone, jax.tree.map(np.subtract, everyone, others))
        found = max(found, *(norm(move) / float(clip) for move in moves))
    return found


def main():
    cases = [(cancelling, None), (network, None), (network, 1e-6), (deep, 1e-6), (embedded, None)]
    cases += [(shrunk, None), (rescaled, None)]
    found = {
        f"{backend} {loss.__name__} {'gradient' if moved is None else 'difference'}": largest(loss, backend, moved)
        for loss, moved in cases
        for backend in ("ghost", "vmap")
    }
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1:] == ["twice"]:
        apart = [
            mock.patch.object(module, "once", lambda compute, made: compute(made))
            for module in (sums, per_record, linear)
        ]
        for patch in apart:
            patch.start()
    main()
