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
    """Collects the true objective, its gradient norm and the share of clipped records along a run.

    A problem with two players has the last two for each, as `gradient_norm_x` and so on.
    """

    def __init__(self, problem: Any, data: PyTree, method: Method):
        self._problem = problem
        self._data = data
        self._clips = tuple(float(getattr(method, f"clip{suffix}", np.inf)) for suffix in problem.suffixes)
        self._rows: list[dict[str, float]] = []

    def look(self, step: int, params: PyTree) -> None:
        """Evaluate the iterate on all records."""
        values = _evaluate(self._problem, params, self._data, self._clips)
        self._rows.append({"step": float(step), **{name: float(value) for name, value in values.items()}})

    def table(self) -> dict[str, np.ndarray]:
        """Return what was seen, a column each."""
        return {name: np.array([row[name] for row in self._rows]) for name in self._rows[0]}


@functools.partial(jax.jit, static_argnames=("problem",))
def _evaluate(problem: Any, params: PyTree, data: PyTree, clips: tuple[float, ...]) -> dict[str, jax.Array]:
    def record_norms(record: PyTree) -> list[jax.Array]:
        return [trees.norm(block) for block in problem.blocks(Gradient(problem.record_loss, params)(record))]

    gradient = jax.grad(lambda p: problem.objective(p, data))(params)
    norms = jax.lax.map(record_norms, data, batch_size=256)
    values = {"objective": problem.objective(params, data)}
    for suffix, block, of_records, clip in zip(problem.suffixes, problem.blocks(gradient), norms, clips, strict=True):
        values[f"gradient_norm{suffix}"] = trees.norm(block)
        values[f"share_clipped{suffix}"] = jnp.mean(of_records > clip)
    return values
