"""How stationary a point is: the gradient and the smallest curvature of Φ, exactly. NOT PRIVATE.

For a minimax problem Φ(x) = max_y of the objective. By Danskin's theorem ∇Φ(x) = ∇x f(x, y*(x)), and a Hessian-vector
product is its derivative along a direction, ∇²Φ v = ∇xx f v + ∇xy f ẏ, where ẏ is the derivative of the maximiser. The
maximiser is the fixed point of y = Π(y + λ∇y f(x, y)), so ẏ is the fixed point of that map's own derivative (implicit
differentiation), constraints included. The smallest eigenvalue is found by Lanczos' method, with all vectors kept
orthogonal and in double precision, from products in single precision.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from gossamer.base import trees
from gossamer.base.trees import PyTree

_ROUNDS = 10_000
_TOLERANCE = 1e-6
_LANCZOS = 200


class Curvature(NamedTuple):
    """What `curvature` found; not private."""

    value: float
    """Φ(x)."""
    gradient_norm: float
    """‖∇Φ(x)‖."""
    smallest_eigenvalue: float
    """λ_min(∇²Φ(x))."""
    error: float
    """No eigenvalue that was found is further than this from a true one; zero if all of the space was searched."""


def curvature(problem: Any, params: PyTree, data: PyTree) -> Curvature:
    """Return Φ, ‖∇Φ‖ and λ_min(∇²Φ) at a point, on all records. NOT PRIVATE: for data that may be looked at.

    Constraints of x are left out, and a penalty must be smooth at the point. The maximiser is found by ascent from the
    y of `params`.

    Args:
      problem: one with an objective, such as `gs.ERM` or `gs.Minimax`.
      params: the point; for `gs.Minimax` the pair (x, y).
      data: the table.
    """
    data = jax.tree.map(jnp.asarray, data)
    blocks = problem.blocks(params)
    x, others = blocks[0], blocks[1:]
    rate, others = _maximise(problem, x, others, data) if others else (jnp.float32(0), others)
    value, gradient, settled = _first_order(problem, x, others, rate, data)
    if not bool(settled):
        raise ValueError(
            f"no maximiser y was found in {_ROUNDS} ascents. Start from a y nearer to it, and be sure that the "
            "objective is strongly concave in y."
        )
    flat, unravel = ravel_pytree(x)

    def product(v: np.ndarray) -> np.ndarray:
        along = unravel(jnp.asarray(v, flat.dtype))
        return np.asarray(ravel_pytree(_product(problem, x, others, rate, data, along=along))[0], np.float64)

    smallest, error = lanczos(product, flat.size)
    return Curvature(float(value), float(trees.norm(gradient)), smallest, error)


def lanczos(product: Callable[[np.ndarray], np.ndarray], size: int) -> tuple[float, float]:
    """Return the smallest eigenvalue of a symmetric operator of this size, and a bound on its error.

    Where the Krylov space ends early it goes on from a new direction, so that a multiple eigenvalue hides nothing.
    """
    rng = np.random.default_rng(0)
    count = min(size, _LANCZOS)
    basis = np.zeros((count, size))
    diagonal, below = np.zeros(count), np.zeros(count)
    vector = rng.normal(size=size)
    for k in range(count):
        basis[k] = vector / np.linalg.norm(vector)
        image = product(basis[k])
        diagonal[k] = basis[k] @ image
        vector = _orthogonal(image, basis[: k + 1])
        below[k] = np.linalg.norm(vector)
        if below[k] <= 1e-5 * max(1e-30, np.abs(diagonal[: k + 1]).max()):
            below[k] = 0.0
            vector = _orthogonal(rng.normal(size=size), basis[: k + 1])
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(below[:-1], 1) + np.diag(below[:-1], -1))
    return float(values[0]), 0.0 if count == size else float(below[-1] * abs(vectors[-1, 0]))


def _orthogonal(vector: np.ndarray, basis: np.ndarray) -> np.ndarray:
    for _ in range(2):  # once is not enough in floating point
        vector = vector - basis.T @ (basis @ vector)
    return vector


def _ascent(problem: Any, rate: jax.Array, data: PyTree) -> Callable[[PyTree, tuple], tuple]:
    """Return the map (x, (y,)) ↦ (Π(y + λ∇y f(x, y)),), whose fixed point is the maximiser; () stays ()."""

    def ascend(x: PyTree, others: tuple) -> tuple:
        if not others:
            return ()
        (y,) = others
        gradient = jax.grad(lambda y: problem.objective((x, y), data))(y)
        return (problem.project_y(trees.add(y, gradient, rate)),)

    return ascend


def _in_x(problem: Any, data: PyTree) -> Callable[[PyTree, tuple], PyTree]:
    """Return ∇x of the objective as a function of x and the other blocks."""

    def value(x: PyTree, others: tuple) -> jax.Array:
        return problem.objective((x, *others) if others else x, data)

    return jax.grad(value)


@functools.partial(jax.jit, static_argnames=("problem",))
def _maximise(problem: Any, x: PyTree, others: tuple, data: PyTree) -> tuple[jax.Array, tuple]:
    """Return a step size for y, the inverse of its largest curvature here, and the maximiser."""
    in_y = jax.grad(lambda y: problem.objective((x, y), data))

    def power(_: int, vector: PyTree) -> PyTree:
        image = jax.jvp(in_y, (others[0],), (vector,))[1]
        return jax.tree.map(lambda leaf: leaf / jnp.maximum(trees.norm(image), 1e-30), image)

    start = jax.tree.map(lambda leaf: jax.random.normal(jax.random.key(0), leaf.shape, leaf.dtype), others[0])
    largest = trees.norm(jax.jvp(in_y, (others[0],), (jax.lax.fori_loop(0, 30, power, start),))[1])
    rate = 0.9 / jnp.maximum(largest, 1e-30)
    return rate, _settle(functools.partial(_ascent(problem, rate, data), x), others)


def _settle(step: Callable[[tuple], tuple], start: tuple) -> tuple:
    """Apply a contraction until it moves no more, or for so many rounds."""

    def moving(state: tuple) -> jax.Array:
        k, before, now = state
        return (k < _ROUNDS) & (trees.distance(before, now) > 0.1 * _TOLERANCE * (1 + trees.norm(now)))

    return jax.lax.while_loop(moving, lambda s: (s[0] + 1, s[2], step(s[2])), (0, start, step(start)))[2]


@functools.partial(jax.jit, static_argnames=("problem",))
def _first_order(problem: Any, x: PyTree, others: tuple, rate: jax.Array, data: PyTree) -> tuple:
    moved = trees.distance(_ascent(problem, rate, data)(x, others), others)
    value = problem.objective((x, *others) if others else x, data)
    settled = jnp.isfinite(moved) & (moved <= _TOLERANCE * (1 + trees.norm(others)))
    return value, _in_x(problem, data)(x, others), settled


@functools.partial(jax.jit, static_argnames=("problem",))
def _product(problem: Any, x: PyTree, others: tuple, rate: jax.Array, data: PyTree, along: PyTree) -> PyTree:
    """Return ∇²Φ(x)·along."""
    ascend = _ascent(problem, rate, data)

    def tangent(dot: tuple) -> tuple:
        return jax.jvp(ascend, (x, others), (along, dot))[1]

    dot = _settle(tangent, trees.zeros_like(others)) if others else ()
    return jax.jvp(_in_x(problem, data), (x, others), (along, dot))[1]
