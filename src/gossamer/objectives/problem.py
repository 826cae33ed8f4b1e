"""What every problem is to `gs.solve`: a loss of one record over a pytree of parameters."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import equinox as eqx
import jax
import jax.numpy as jnp

from gossamer.base.messages import first_few, outline
from gossamer.base.trees import PyTree
from gossamer.oracle.people import People


class Problem:
    """What solving, attacking and diagnosing need to know of a problem; subclasses are frozen dataclasses."""

    loss: Callable[..., jax.Array]

    suffixes: ClassVar[tuple[str, ...]] = ("",)
    """What the names of hyper-parameters and diagnostics of each block of parameters end with."""

    @property
    def record_loss(self) -> Callable[[PyTree, PyTree], jax.Array]:
        """The loss of one record as a function of all parameters: `record_loss(params, record)`."""
        return self.loss

    def blocks(self, params: PyTree) -> tuple[PyTree, ...]:
        """Split parameters, or a gradient in them, into blocks: one for each suffix."""
        return (params,)

    def objective(self, params: PyTree, data: PyTree) -> jax.Array:
        """Return the exact objective on a table: not private."""
        raise NotImplementedError

    def bind(self, constants: PyTree) -> Self:
        """Return the same problem over the trained leaves alone; `constants` has None in their place."""
        return dataclasses.replace(self, loss=Bound.of(self.loss, constants))  # type: ignore[type-var]

    def by_person(self, people: People) -> Self:
        """Return the same problem about persons, each with the mean, or the sum, of the losses of its rows."""
        return dataclasses.replace(self, loss=people.lifted(self.loss))  # type: ignore[type-var]

    def check(self, params: PyTree, record: PyTree) -> None:
        """Refuse a loss that fails, or does not return one float; `record` holds the shapes of one."""
        try:
            value = jax.eval_shape(self.record_loss, params, record)
        except Exception as error:  # whatever a loss says of shapes that it was not written for; it met no record yet
            told = str(error).partition("\n")[0].rstrip(".")
            raise ValueError(
                f"loss(params, record) failed for one record ({type(error).__name__}: {told}). It met "
                f"{_shapes('init', params)} and {_shapes('record', record)}. Start from an init of the shapes that the "
                "loss expects for such records."
            ) from error
        if not (hasattr(value, "shape") and value.shape == () and jnp.issubdtype(value.dtype, jnp.floating)):
            raise ValueError(
                f"loss(params, record) returned {value} for one record; it must return one float. A loss written for a "
                "batch, or one without a mean over its outputs, looks like this."
            )


def _shapes(name: str, tree: PyTree) -> str:
    """Return the shape of every array of a tree, by its name."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return first_few([f"{name}{jax.tree_util.keystr(path)}: {outline(leaf)}" for path, leaf in leaves])


@dataclass(frozen=True)
class Bound:
    """A function whose first arguments are pytrees that lack their constants: it puts them together, and is called.

    Frozen and hashable as far as the constants are, so that a bound problem compiles once.
    """

    function: Callable
    constants: tuple[tuple[Any, ...], ...]
    structures: tuple[Any, ...]

    @classmethod
    def of(cls, function: Callable, *constants: PyTree) -> "Bound":
        """Bind a function whose first arguments have these constants, with None in the place of other leaves."""
        leaves, structures = zip(*(jax.tree.flatten(tree) for tree in constants), strict=True)
        return cls(function, tuple(map(tuple, leaves)), structures)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function with whole arguments."""
        constants = [jax.tree.unflatten(s, leaves) for s, leaves in zip(self.structures, self.constants, strict=True)]
        count = len(constants)
        whole = [eqx.combine(tree, other) for tree, other in zip(arguments[:count], constants, strict=True)]
        return self.function(*whole, *arguments[count:])
