"""A black box: a loss of which only values are known."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from gossamer import geometry
from gossamer.base.trees import PyTree
from gossamer.objectives.problem import Bound, Problem
from gossamer.oracle.locality import trusted
from gossamer.oracle.people import People


@dataclass(frozen=True)
class BlackBox(Problem):
    """min over x of (1/n) Σ value(x; z_i), where `value` is never differentiated.

    Args:
      value: `value(params, record)` → scalar, written for ONE record in JAX; or, with `python`, any Python function
        `value(params, records)` → one number per record, which is handed NumPy arrays with a leading axis of records:
        a scikit-learn pipeline, a simulator. It must not call JAX, and each number must depend on its own record
        alone: a function that looks at the other records of the batch (ranks, batch statistics) breaks the guarantee.
      python: whether `value` is such a Python function.
      constraint: a public convex set for x such as `gs.L2Ball(1.0)`. `value` is called at the nearest allowed points
        alone, those of the search included: what is minimised is value(Π(x)), which is as Lipschitz as `value`.
      version: a name for what the Python function does, such as "fee model 2026-03". Runs that are saved need it: a run
        that was saved under another name is not continued. Change it whenever the function's values change.

    A Python function that raises, or returns a number that is not finite, ends the run with the round's number and
    nothing more is asked. That message speaks to the data's owner, as input checks do: like the result of a run that
    failed it is outside the guarantee. (A JAX function's values are never looked at: a record whose value is not finite
    counts as zero.)
    """

    value: Callable[..., Any]
    python: bool = False
    version: str | None = None
    constraint: geometry.Constraint | None = None

    suffixes: ClassVar[tuple[str, ...]] = ()

    def evaluate(self, params: PyTree, record: PyTree, number: jax.Array | int = 0) -> jax.Array:
        """Return the value at one record, at the nearest allowed params; `number` is the round, for messages."""
        params = self.project(params)
        if not self.python:
            return self.value(params, record)

        def host(params: PyTree, records: PyTree, number: Any) -> np.ndarray:
            return _call(self.value, params, records, shapes, int(np.max(number)))

        def call(params: PyTree, record: PyTree, number: jax.Array) -> jax.Array:
            return jax.pure_callback(host, out, params, record, number, vmap_method="expand_dims")

        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (params, record))
        out = jax.ShapeDtypeStruct((), jnp.float32)
        # It is handed whole batches, and nothing can check what it does with them.
        because = "Each number that the Python function returns depends on its own record alone."
        return trusted(call, because)(params, record, jnp.int32(number))

    def project(self, params: PyTree) -> PyTree:
        """Return the nearest params that are allowed: post-processing, no record is touched."""
        return params if self.constraint is None else self.constraint.project(params)

    @property
    def record_loss(self) -> Callable[[PyTree, PyTree], jax.Array]:
        """The value of one record: `record_loss(params, record)`."""
        return self.evaluate

    def objective(self, params: PyTree, data: PyTree) -> jax.Array:
        """Return the exact mean value on a table: not private."""
        return jnp.mean(jax.lax.map(lambda record: self.evaluate(params, record), data, batch_size=4096))

    def bind(self, constants: PyTree) -> "BlackBox":
        """Return the same problem over the trained leaves alone; `constants` has None in their place."""
        return dataclasses.replace(self, value=Bound.of(self.value, constants))

    def by_person(self, people: People) -> "BlackBox":
        """Return the same problem about persons; a Python function is handed batches of records, and must know rows."""
        if self.python:
            raise ValueError(
                "a Python function of a batch (python=True) does not know which rows are one person's. Write it in JAX "
                "for one row, or gather persons yourself and let each be a record."
            )
        return dataclasses.replace(self, value=people.lifted(self.value))

    def check(self, params: PyTree, record: PyTree) -> None:
        """Refuse a JAX function that does not return one float; a Python function is checked when it is called."""
        if not self.python:
            super().check(params, record)


def _call(value: Callable, params: PyTree, records: PyTree, shapes: Any, number: int) -> np.ndarray:
    """Call a Python function with each point and all the records that meet it.

    `vmap` gives every argument the same leading axes, of length 1 where it does not vary: those of points and
    those of records. Each point is handed the records along the axes on which points do not vary.
    """
    params, records = jax.tree.map(np.asarray, (params, records))
    point_axes, record_axes = _leading(params, shapes[0]), _leading(records, shapes[1])
    out = np.empty(np.broadcast_shapes(point_axes, record_axes), np.float32)
    for point in np.ndindex(*point_axes):
        met = tuple(slice(None) if size == 1 else i for i, size in zip(point, point_axes, strict=True))
        # Where records do not vary along an axis on which points do, there is only the first.
        rows = tuple(i if isinstance(i, slice) or size > 1 else 0 for i, size in zip(met, record_axes, strict=True))
        batch = jax.tree.map(lambda leaf, one, rows=rows: leaf[rows].reshape(-1, *one.shape), records, shapes[1])
        here = jax.tree.map(lambda leaf, point=point: leaf[point], params)
        count = len(jax.tree.leaves(batch)[0])
        out[met] = _checked(value, here, batch, count, number).reshape(out[met].shape)
    return out


def _leading(tree: PyTree, shapes: PyTree) -> tuple[int, ...]:
    """Return the axes that `vmap` put before the argument's own."""
    leaf, own = jax.tree.leaves(tree)[0], jax.tree.leaves(shapes)[0]
    return leaf.shape[: leaf.ndim - len(own.shape)]


def _checked(value: Callable, params: PyTree, records: PyTree, count: int, number: int) -> np.ndarray:
    rule = "The run ended here and asked nothing more; what was scheduled counts as spent."
    try:
        values = np.asarray(value(params, records), np.float64)
    except Exception as error:
        raise RuntimeError(
            f"value(params, records) raised {type(error).__name__} in round {number}: {error}. {rule}"
        ) from error
    if values.shape != (count,):
        raise RuntimeError(
            f"value(params, records) returned shape {values.shape} for {count} records in round {number}; it must "
            f"return one number per record. {rule}"
        )
    if not np.all(np.isfinite(values)):
        raise RuntimeError(
            f"value(params, records) returned NaN or an infinite number in round {number}. Return a finite number for "
            f"every record and every params, such as a bound on the loss. {rule}"
        )
    return values
