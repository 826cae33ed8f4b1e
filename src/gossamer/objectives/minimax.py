"""Minimax problems: one player minimises, the other maximises, an average over the records."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self

import jax
import jax.numpy as jnp

from gossamer import geometry
from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.objectives.problem import Bound, Problem
from gossamer.oracle.people import People

_EVALUATION = 0x2AB51C7
"""Seeds the public term's randomness where the objective is evaluated, so that its values can be compared."""


class BestResponse(Protocol):
    """The inner maximiser in closed form: a function of the mean of a bounded statistic of each record."""

    @property
    def clip(self) -> float:
        """A public bound on the norm of one record's statistic."""

    def statistic(self, x: PyTree, record: PyTree) -> jax.Array:
        """Return what is asked of one record."""

    def solve(self, mean: jax.Array) -> PyTree:
        """Return the y that maximises, given the mean of the statistics."""


@dataclass(frozen=True)
class Minimax(Problem):
    """min over x, max over y, of (1/n) Σ loss(x, y; z_i) + public(x, y) + r(x).

    The starting point is the pair `init=(x0, y0)`, and `result.params` is the pair too.

    Args:
      loss: `loss(x, y, record)` → scalar, written for ONE record in JAX.
      constraint_x: a public convex set such as `gs.L2Ball(1.0)` for x, handled by projection.
      constraint_y: the same for y.
      best_response: the maximiser in closed form, if there is one; see `BestResponse`. Methods use it when they are
        configured with `ascent="best_response"`.
      public: `public(x, y, key)` → scalar, a term that meets no record: it is differentiated without asking. Its key
        is for public randomness, and different in every step.
      regularizer: a public penalty of x such as `gs.L2(1e-2)`, handled by its proximal operator.
      private_blocks: the players whose gradient meets records. With `("x",)` the loss does not depend on y, whose
        gradient is that of `public`: methods then take `ascent="public"`.

    Example:
      >>> import gossamer as gs, jax.numpy as jnp
      >>> problem = gs.Minimax(lambda x, y, z: y * (x - z) - y**2 / 2, constraint_y=gs.Box(-1.0, 1.0))
      >>> float(problem.objective((jnp.float32(2.0), jnp.float32(1.0)), jnp.array([0.0, 1.0])))
      1.0
    """

    loss: Callable[[PyTree, PyTree, PyTree], jax.Array]
    constraint_x: geometry.Constraint | None = None
    constraint_y: geometry.Constraint | None = None
    best_response: BestResponse | None = None
    public: Callable[[PyTree, PyTree, jax.Array], jax.Array] | None = None
    private_blocks: tuple[str, ...] = ("x", "y")
    regularizer: geometry.Regularizer = geometry.Zero()  # noqa: RUF009  (frozen)

    suffixes: ClassVar[tuple[str, ...]] = ("_x", "_y")

    def __post_init__(self) -> None:
        if self.private_blocks not in (("x", "y"), ("x",)):
            raise ValueError(
                f"private_blocks = {self.private_blocks!r} must be ('x', 'y') or ('x',). If records meet the maximiser "
                "alone, exchange the players and the sign: min_x max_y f is solved by whoever solves min_y max_x −f."
            )
        if self.private_blocks == ("x",) and self.public is None:
            raise ValueError("private_blocks = ('x',) needs public(x, y, key): nothing else moves y.")
        geometry.check(self.regularizer, self.constraint_x)

    @property
    def record_loss(self) -> Callable[[PyTree, PyTree], jax.Array]:
        """The loss of one record as a function of the pair."""
        return _OfPair(self.loss)

    def blocks(self, params: PyTree) -> tuple[PyTree, ...]:
        """Return the pair (x, y), or refuse what is none."""
        if not (isinstance(params, tuple) and len(params) == 2):
            raise ValueError(f"init is a {type(params).__name__}; for a Minimax problem it must be the pair (x0, y0).")
        return params

    def in_x(self, x: PyTree, y: PyTree) -> tuple[Callable[[PyTree, PyTree], jax.Array], PyTree]:
        """Return the loss as a function that has a gradient in x alone, and the point at which it is (x, y).

        The point is the pair, so that two points may differ in y as well; it is (x, ()) if records do not meet y.
        """
        if "y" in self.private_blocks:
            return _OfPair(self.loss, fixed_y=True), (x, y)
        return lambda point, record: self.loss(point[0], y, record), (x, ())

    def in_y(self, x: PyTree) -> Callable[[PyTree, PyTree], jax.Array]:
        """Return the loss as a function of y alone."""
        return lambda y, record: self.loss(x, y, record)

    def public_gradient(self, params: PyTree, key: jax.Array) -> tuple[PyTree, PyTree]:
        """Return the gradients of the public term in x and y, with the randomness of this key."""
        if self.public is None:
            return trees.zeros_like(params)
        return jax.grad(self._public_value)(params, key)

    def project_x(self, x: PyTree) -> PyTree:
        """Return the nearest x that is allowed: post-processing, no record is touched."""
        return x if self.constraint_x is None else self.constraint_x.project(x)

    def prox_x(self, x: PyTree, step: jax.Array | float) -> PyTree:
        """Return the proximal point of step·r within the constraint of x."""
        return geometry.prox(self.regularizer, self.constraint_x, x, step)

    def project_y(self, y: PyTree) -> PyTree:
        """Return the nearest y that is allowed."""
        return y if self.constraint_y is None else self.constraint_y.project(y)

    def objective(self, params: PyTree, data: PyTree) -> jax.Array:
        """Return the exact mean loss on a table plus the public term and the penalty: not private."""
        losses = jax.lax.map(lambda record: self.record_loss(params, record), data, batch_size=4096)
        return (
            self.regularizer.value(self.blocks(params)[0])
            + jnp.mean(losses)
            + (
                0.0
                if self.public is None
                else self._public_value(params, jax.random.fold_in(jax.random.key(_EVALUATION), 0))
            )
        )

    def check_ascent(self, ascent: str) -> None:
        """Refuse a way of moving y that this problem does not offer, naming those that it does."""
        offered = ["gradient"] if "y" in self.private_blocks else ["public"]
        offered += ["best_response"] if self.best_response is not None else []
        if ascent in offered:
            return
        why = {
            "gradient": "records do not meet y (private_blocks = ('x',)), so that asking them for its gradient would "
            "buy nothing but noise",
            "best_response": "the problem has no best_response",
            "public": "records meet y, so that its gradient has to be asked for",
        }[ascent]
        raise ValueError(f"ascent = {ascent!r}: {why}. Use {' or '.join(f'ascent = {a!r}' for a in offered)}.")

    def bind(self, constants: PyTree) -> Self:
        """Return the same problem over the trained leaves alone; `constants` has None in their place."""
        x, _ = constants
        response = self.best_response
        return dataclasses.replace(
            self,
            loss=Bound.of(self.loss, *constants),
            public=None if self.public is None else Bound.of(self.public, *constants),
            best_response=None if response is None else _BoundResponse(response, Bound.of(response.statistic, x)),
        )

    def by_person(self, people: People) -> Self:
        """Return the same game about persons: loss, and statistic, are the means, or sums, of those of their rows."""
        response = self.best_response
        return dataclasses.replace(
            super().by_person(people),
            best_response=None if response is None else _BoundResponse(response, people.lifted(response.statistic)),
        )

    def check(self, params: PyTree, record: PyTree) -> None:
        """Refuse functions whose values have the wrong shape."""
        super().check(params, record)
        if self.public is not None and jax.eval_shape(self._public_value, params, jax.random.key(0)).shape != ():
            raise ValueError("public(x, y, key) must return one float.")
        if self.best_response is not None:
            mean = jax.eval_shape(self.best_response.statistic, params[0], record)
            answer, y = jax.eval_shape(self.best_response.solve, mean), jax.eval_shape(lambda y: y, params[1])
            if (jax.tree.structure(answer), _shapes(answer)) != (jax.tree.structure(y), _shapes(y)):
                raise ValueError(f"best_response.solve(mean) returned {answer}, but y is {y}. They must be alike.")

    def _public_value(self, params: PyTree, key: jax.Array) -> jax.Array:
        assert self.public is not None
        x, y = params
        return self.public(x, y, key)


@dataclass(frozen=True)
class _OfPair:
    """loss((x, y), record); with `fixed_y` its gradient in y is zero."""

    loss: Callable[[PyTree, PyTree, PyTree], jax.Array]
    fixed_y: bool = False

    def __call__(self, params: PyTree, record: PyTree) -> jax.Array:
        x, y = params
        return self.loss(x, jax.lax.stop_gradient(y) if self.fixed_y else y, record)


@dataclass(frozen=True)
class _BoundResponse:
    """A best response whose statistic is bound, or that of a person; neither makes it larger than the clip."""

    inner: BestResponse
    statistic: Callable[[PyTree, PyTree], jax.Array]

    @property
    def clip(self) -> float:
        return self.inner.clip

    def solve(self, mean: jax.Array) -> PyTree:
        return self.inner.solve(mean)


def _shapes(tree: PyTree) -> list[tuple[int, ...]]:
    return [leaf.shape for leaf in jax.tree.leaves(tree)]
