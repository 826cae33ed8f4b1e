"""What happens to a parameter before it meets a record: the chain from a leaf to the value at a site.

A per-record gradient in that value pulls back to the leaf by the chain's transposed Jacobian. If the chain only
rearranges entries, norms are known without pulling back. If it also multiplies all of them by numbers, these multiply
the errors at the site before anything is stored: norms and sums then see the same numbers, whatever was rounded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .trace import Op, Program

REARRANGING = {"reshape", "transpose", "squeeze", "expand_dims", "rev", "neg", "copy", "copy_p", "convert_element_type"}
SCALING = {"mul", "div"}
UNMOVED = SCALING | {"add", "sub", "convert_element_type"}
"""What leaves every entry of a parameter in its place: constants that are added, and precisions, have no derivative."""
LINEAR = REARRANGING | {"broadcast_in_dim", "slice", "reduce_sum", "concatenate", "add", "sub", "add_any"}


@dataclass(frozen=True, eq=False)
class Link:
    """One operation of a chain, as seen by the one operand that is made of parameters."""

    op: Op
    slot: int
    """Which operand that is."""
    others: tuple[int, ...]
    """The other operands."""


@dataclass(frozen=True, eq=False)
class Chain:
    """Operations from one leaf to one value, whose Jacobian rearranges entries and multiplies them by constants."""

    leaf: int
    links: tuple[Link, ...]

    def scaled(self, fixed: dict[int, Any], error: jax.Array) -> jax.Array:
        """Multiply errors at the value by the chain's constants, one after another as a backward pass does."""
        for link in reversed(self.links):
            if link.op.name in SCALING:
                factor = jnp.asarray(fixed[link.others[0]], error.dtype).reshape(())
                error = error * factor if link.op.name == "mul" else error / factor
        return error

    def pull_back(self, program: Program, gradient: jax.Array) -> jax.Array:
        """Turn a sum of scaled gradients in the value into one of gradients in the leaf: entries and signs move."""

        def forward(leaf: jax.Array) -> jax.Array:
            for link in self.links:
                if link.op.name == "sub" and link.slot == 1:
                    leaf = -leaf
                elif link.op.name not in UNMOVED:
                    (leaf,) = link.op.bind(leaf)
            return leaf

        shape = jax.ShapeDtypeStruct(program.avals[self.leaf].shape, gradient.dtype)
        (leaf,) = jax.linear_transpose(forward, shape)(gradient)
        return leaf


def isometry(program: Program, value: int) -> Chain | None:
    """The chain behind a value, if it starts at one leaf and keeps norms up to constants; else None."""
    links: list[Link] = []
    while value not in program.leaves:
        op = program.producer[value]
        inner = [i for i in op.inputs if program.parameters_of(i)]
        others = [i for i in op.inputs if not program.parameters_of(i)]
        if len(inner) != 1 or program.from_params.intersection(others):
            return None
        slot = op.inputs.index(inner[0])
        same_shape = program.avals[inner[0]].shape == program.avals[value].shape
        scalars = all(program.avals[i].size == 1 for i in others)
        scaling = op.name == "mul" or (op.name == "div" and slot == 0)
        if not (
            op.name in REARRANGING or (op.name in {"add", "sub"} and same_shape) or (scaling and same_shape and scalars)
        ):
            return None
        links.append(Link(op, slot, tuple(others)))
        value = inner[0]
    return Chain(value, tuple(reversed(links)))


def _between(program: Program, values: Sequence[int]) -> list[Op]:
    """The operations that lead from leaves to these values."""
    needed, kept = set(values), []
    for op in reversed(program.ops):
        if needed.intersection(op.outputs) and any(program.parameters_of(out) for out in op.outputs):
            kept.append(op)
            needed.update(i for i in op.inputs if program.parameters_of(i))
    return kept[::-1]


def linear(program: Program, values: Sequence[int]) -> bool:
    """Whether these values are affine in the leaves with a Jacobian that no parameter changes."""
    for op in _between(program, values):
        inner = [i for i in op.inputs if program.parameters_of(i)]
        others = [i for i in op.inputs if not program.parameters_of(i)]
        scaling = len(inner) == 1 and (op.name == "mul" or (op.name == "div" and op.inputs[0] == inner[0]))
        if program.from_params.intersection(others) or not (scaling or op.name in LINEAR):
            return False
    return True


def pull_back(
    program: Program,
    leaves: Sequence[int],
    values: Sequence[int],
    fixed: dict[int, Any],
    gradients: Sequence[jax.Array],
) -> tuple[jax.Array, ...]:
    """Pull gradients in values back to leaves through a linear chain, in the gradients' own precision.

    Casts inside the chain are skipped: the transpose of a cast to bfloat16 would round a float32 gradient.
    """
    precision = gradients[0].dtype

    def exact(value: Any) -> Any:
        value = jnp.asarray(value)
        return value.astype(precision) if jnp.issubdtype(value.dtype, jnp.floating) else value

    def forward(*arguments: jax.Array) -> list[jax.Array]:
        env = dict(zip(leaves, arguments, strict=True))
        for op in _between(program, values):
            inputs = [env[i] if i in env else exact(fixed[i]) for i in op.inputs]
            outputs = inputs if op.name == "convert_element_type" else op.bind(*inputs)
            env.update(zip(op.outputs, outputs, strict=True))
        return [env[value] for value in values]

    return jax.vjp(forward, *(exact(fixed[leaf]) for leaf in leaves))[1](list(gradients))


def pull_back_at(
    program: Program,
    leaves: Sequence[int],
    values: Sequence[int],
    fixed: dict[int, Any],
    gradients: Sequence[jax.Array],
) -> tuple[jax.Array, ...]:
    """Pull gradients in values back to leaves through any chain, linearised at the point that `fixed` belongs to."""

    def forward(*arguments: jax.Array) -> list[jax.Array]:
        env = dict(zip(leaves, arguments, strict=True))
        for op in _between(program, values):
            outputs = op.bind(*(env[i] if i in env else fixed[i] for i in op.inputs))
            env.update(zip(op.outputs, outputs, strict=True))
        return [env[value] for value in values]

    cast = [g.astype(program.avals[v].dtype) for g, v in zip(gradients, values, strict=True)]
    return jax.vjp(forward, *(fixed[leaf] for leaf in leaves))[1](cast)
