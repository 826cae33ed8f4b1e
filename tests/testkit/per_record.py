"""The slow, obvious way to clip: one float64 gradient at a time. What every clipping backend is compared with."""

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.oracle.clipping import ghost


def per_record_gradients(loss, batch, *points):
    """One float64 gradient at a time: for each point, an array (records, parameters)."""
    with jax.enable_x64(True):

        def wide(x):
            return np.asarray(x, np.float64) if jnp.issubdtype(x.dtype, jnp.floating) else np.asarray(x)

        # Only a reference, and run a few times: compiling it well would take longer.
        gradient = jax.jit(jax.grad(loss), compiler_options={"xla_backend_optimization_level": 0})
        batch = jax.tree.map(wide, batch)
        records = [jax.tree.map(lambda x, i=i: x[i], batch) for i in range(len(jax.tree.leaves(batch)[0]))]
        wides = [jax.tree.map(wide, point) for point in points]
        return [np.stack([flat(gradient(point, record)) for record in records]) for point in wides]


def flat(tree):
    """All entries of a tree as one float64 vector."""
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(tree)])


def clipped(gradients, clip):
    """Scale every row down to the threshold."""
    norms = np.linalg.norm(gradients, axis=1, keepdims=True)
    return gradients * np.minimum(1.0, clip / np.maximum(norms, 1e-30))


def ghost_contributions(loss, params, batch, clips, other=None):
    """What ghost clipping lets each record contribute under each threshold: (thresholds, records, parameters)."""
    size = len(jax.tree.leaves(batch)[0])

    def query(clip, mask):
        if other is None:
            return ghost.clipped_gradient(loss, params, batch, mask, clip)
        return ghost.clipped_difference(loss, params, other, batch, mask, clip)

    each = jax.jit(jax.vmap(jax.vmap(query, (None, 0)), (0, None)))
    leaves = jax.tree.leaves(each(jnp.asarray(clips, jnp.float32), jnp.eye(size, dtype=bool)))
    return np.concatenate([np.asarray(leaf, np.float64).reshape(len(clips), size, -1) for leaf in leaves], axis=-1)


def moved(params, distance):
    """Other parameters, at about this distance per entry."""
    leaves, structure = jax.tree.flatten(params)
    numbers = np.random.default_rng(11)
    steps = [jnp.asarray(distance * numbers.normal(size=leaf.shape), leaf.dtype) for leaf in leaves]
    return jax.tree.unflatten(structure, [x + step for x, step in zip(leaves, steps, strict=True)])


def check_ghost(loss, params, batch, tolerance=1e-5):
    """Compare gradients and differences, under a threshold that clips half of the records and one that clips all."""
    other = moved(params, 0.3)
    first, second = per_record_gradients(loss, batch, params, other)
    for point, expected in ((None, first), (other, first - second)):
        norms = np.linalg.norm(expected, axis=1)
        clips = np.array([np.median(norms), 0.5 * norms.min()])
        for clip, got in zip(clips, ghost_contributions(loss, params, batch, clips, point), strict=True):
            wanted = clipped(expected, clip)
            error = np.linalg.norm(got - wanted, axis=1)
            assert np.all(error <= tolerance * np.linalg.norm(wanted, axis=1)), error / np.linalg.norm(wanted, axis=1)
            assert np.all(np.linalg.norm(got, axis=1) <= clip * (1 + 1e-5))
