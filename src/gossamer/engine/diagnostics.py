"""Non-private looks at a run or a point: for development on data that may be looked at, never in a release.

Nothing here goes through the oracle's noise. The certificate of a run with diagnostics says so.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy import optimize

from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.engine.curvature import Curvature, curvature
from gossamer.engine.watching import shares_clipped
from gossamer.methods.base import Method
from gossamer.objectives.problem import Problem

__all__ = ["Curvature", "Diagnostics", "curvature"]


class Diagnostics:
    """Collects the true objective, its gradient norm and the share of clipped records along a run.

    A problem with two players has the last two for each, as `gradient_norm_x` and so on; a black box has neither.
    The share of clipped records is that of the queries which the next step asks, of what they ask for: weights and
    differences included. Queries other than that for the gradient have columns of their own, such as
    `share_clipped_difference`, which are NaN where a step does not ask them.
    """

    def __init__(self, problem: Problem, data: PyTree, method: Method):
        self._problem = problem
        self._data = data
        self._method = method
        self._rows: list[dict[str, float]] = []

    def look(self, step: int, state: Any) -> None:
        """Evaluate where the run stands after a step on all records."""
        values = _evaluate(self._problem, self._method, state, self._data, jnp.int32(step))
        self._rows.append({"step": float(step), **{name: float(value) for name, value in values.items()}})

    def table(self) -> dict[str, np.ndarray]:
        """Return what was seen, a column each."""
        return {name: np.array([row[name] for row in self._rows]) for name in self._rows[0]}


@functools.partial(jax.jit, static_argnames=("problem", "method"))
def _evaluate(problem: Problem, method: Method, state: Any, data: PyTree, step: jax.Array) -> dict[str, jax.Array]:
    params = method.params(state)
    values = {"objective": problem.objective(params, data)}
    if not problem.suffixes:
        return values

    gradient = jax.grad(lambda p: problem.objective(p, data))(params)
    for suffix, block in zip(problem.suffixes, problem.blocks(gradient), strict=True):
        values[f"gradient_norm{suffix}"] = trees.norm(block)
    return {**values, **shares_clipped(problem, method, data, state, step)}


def goldstein(
    problem: Problem, params: PyTree, data: PyTree, radius: float, *, samples: int = 200, seed: int = 0
) -> float:
    """Return how stationary a point is for a loss with kinks: NOT PRIVATE.

    This is the smallest norm of a convex combination of the objective's gradients at `params` and at random points of
    the ball of this radius around it: an upper bound on the distance of zero from the Goldstein subdifferential, so a
    point where it is at most a is (radius, a)-stationary on these records. More samples tighten it.

    Args:
      problem: what is minimised; its loss must be a JAX function, with gradients almost everywhere.
      params: the point.
      data: the records.
      radius: of the ball.
      samples: how many random points.
      seed: of the points.
    """
    if getattr(problem, "python", False):
        raise TypeError("goldstein needs gradients, which a Python function does not have. Write its value in JAX.")
    around = _around(problem, params, data, radius, samples=samples, key=jax.random.key(seed))
    gradients = np.asarray(around, np.float64)
    scale = max(float(np.max(np.linalg.norm(gradients, axis=1))), 1e-30)
    # min ‖Gᵀλ‖ over λ ≥ 0, Σλ = 1: the sum is enforced by a heavy row, and exactly afterwards.
    heavy = 1e3
    system = np.vstack([gradients.T / scale, np.full(len(gradients), heavy)])
    weights, _ = optimize.nnls(system, np.append(np.zeros(gradients.shape[1]), heavy))
    return float(np.linalg.norm(weights @ gradients) / np.sum(weights))


@functools.partial(jax.jit, static_argnames=("problem", "samples"))
def _around(
    problem: Problem, params: PyTree, data: PyTree, radius: jax.Array, samples: int, key: jax.Array
) -> jax.Array:
    """Return the objective's gradient at a point, and at random points of the ball around it, as rows."""
    centre, restore = ravel_pytree(params)
    keys = jax.random.split(key)
    normals = jax.random.normal(keys[0], (samples, centre.size))
    lengths = jax.random.uniform(keys[1], (samples, 1)) ** (1 / centre.size)
    offsets = radius * lengths * normals / jnp.linalg.norm(normals, axis=1, keepdims=True)
    points = jnp.vstack([centre, centre + offsets])
    return jax.lax.map(jax.grad(lambda point: problem.objective(restore(point), data)), points)
