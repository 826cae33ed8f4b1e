"""What a query asks of one record: a value, a gradient, a difference of gradients, or several at once.

Each is a function of ONE record. Its other inputs (parameters, thresholds) must be public already: earlier
answers, what was computed from them, constants. The named kinds exist so that a clipping backend can see the
structure of a gradient; to the proof they are all just h(z).
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax

from gossamer.base.trees import PyTree

Loss = Callable[..., jax.Array]


@dataclass(frozen=True)
class Value:
    """h(z) = function(z): any pytree of arrays computed from one record."""

    function: Callable[[PyTree], PyTree]

    def __call__(self, record: PyTree) -> PyTree:
        """Return h of one record."""
        return self.function(record)


@dataclass(frozen=True)
class Gradient:
    """h(z) = ∇loss(at; z), with `loss(params, record)`.

    With a tuple of thresholds, `at` is a tuple of as many blocks and each block's gradient has its own norm.
    """

    loss: Loss
    at: PyTree

    def __call__(self, record: PyTree) -> PyTree:
        """Return h of one record."""
        return jax.grad(self.loss)(self.at, record)


@dataclass(frozen=True)
class Difference:
    """h(z) = ∇loss(at; z) − ∇loss(other; z), both at the same record."""

    loss: Loss
    at: PyTree
    other: PyTree

    def __call__(self, record: PyTree) -> PyTree:
        """Return h of one record."""
        here, there = jax.grad(self.loss)(self.at, record), jax.grad(self.loss)(self.other, record)
        return jax.tree.map(lambda a, b: a - b, here, there)


@dataclass(frozen=True)
class Joint:
    """h(z) = (h_1(z), ..., h_k(z)): several functions on the same sample, each a block with its own threshold."""

    parts: tuple[Callable[[PyTree], PyTree], ...]

    def __call__(self, record: PyTree) -> PyTree:
        """Return h of one record."""
        return tuple(part(record) for part in self.parts)
