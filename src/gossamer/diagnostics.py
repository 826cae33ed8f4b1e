"""Non-private looks at a run: for development on data that may be looked at, never in a release.

Nothing here goes through the oracle's noise. The certificate of a run with diagnostics says so.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossamer import trees
from gossamer.methods.base import Method
from gossamer.oracle.queries import Gradient

PyTree = Any


class Diagnostics:
    """Collects the true objective, its gradient norm and the share of clipped records along a run."""

    def __init__(self, problem: Any, data: PyTree, method: Method):
        self._problem = problem
        self._data = data
        self._clip = float(getattr(method, "clip", np.inf))
        self._rows: list[dict[str, float]] = []

    def look(self, step: int, params: PyTree) -> None:
        """Evaluate the iterate on all records."""
        values = _evaluate(self._problem, params, self._data, self._clip)
        self._rows.append({"step": float(step), **{name: float(value) for name, value in values.items()}})

    def table(self) -> dict[str, np.ndarray]:
        """Return what was seen, a column each."""
        return {name: np.array([row[name] for row in self._rows]) for name in self._rows[0]}


@functools.partial(jax.jit, static_argnames=("problem",))
def _evaluate(problem: Any, params: PyTree, data: PyTree, clip: float) -> dict[str, jax.Array]:
    def record_norm(record: PyTree) -> jax.Array:
        return trees.norm(Gradient(problem.loss, params)(record))

    gradient = jax.grad(lambda p: problem.objective(p, data))(params)
    norms = jax.lax.map(record_norm, data, batch_size=256)
    return {
        "objective": problem.objective(params, data),
        "gradient_norm": trees.norm(gradient),
        "share_clipped": jnp.mean(norms > clip),
    }
