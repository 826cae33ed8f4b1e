"""The update of a method by any optax optimiser, in place of x − ηg.

Privacy. An optimiser is handed private answers, what it made of earlier ones, and the iterate, which is public too.
Whatever it returns is post-processing and costs nothing. It is trusted code like the loss: one that holds the records
itself is outside the guarantee.
"""

import dataclasses
from types import FunctionType
from typing import Any

import jax
import optax

from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.methods.base import Method
from gossamer.methods.fields import Optimizer
from gossamer.objectives.erm import ERM

_WRAPPERS = ("chain", "with_extra_args_support")
"""Functions of optax that only hold others together."""


class Optimized(Method[ERM]):
    """A method that moves by x − ηg, or by its optimiser. Its dataclasses leave `repr` to this class."""

    optimizer: Optimizer

    def certified_settings(self) -> dict[str, Any]:
        """Return the fields as a certificate shows them: the optimiser by the names of its parts, and only if set."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        optimizer = fields.pop("optimizer")
        return fields if optimizer is None else {**fields, "optimizer": name_of(optimizer)}

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.certified_settings().items())
        return f"{type(self).__name__}({settings})"

    def memory(self, params: PyTree) -> PyTree:
        """Return what the optimiser remembers before the first step."""
        return () if self.optimizer is None else self.optimizer.init(params)

    def descend(self, x: PyTree, direction: PyTree, eta: jax.Array, memory: PyTree) -> tuple[PyTree, PyTree]:
        """Return x − η·direction, or where the optimiser moves x, and what it remembers."""
        if self.optimizer is None:
            return trees.add(x, direction, -eta), memory
        updates, memory = self.optimizer.update(direction, memory, x)
        return optax.apply_updates(x, updates), memory


def name_of(optimizer: optax.GradientTransformation) -> str:
    """Return the names of an optimiser's parts, such as "scale_by_adam, scale": optax keeps no name of the whole."""
    makers: dict[str, None] = {}

    def look(part: Any) -> None:
        if isinstance(part, tuple):
            for each in part:
                look(each)
        elif isinstance(part, FunctionType):
            maker, inner, _ = part.__qualname__.partition(".<locals>")
            if inner and maker not in _WRAPPERS:
                makers[maker] = None
            for cell in part.__closure__ or ():
                look(cell.cell_contents)

    look(optimizer.update)
    return ", ".join(makers) or "an optimiser without a name"
