"""What happens to a parameter before it meets a record: the chain from a leaf to the value at a site.

A per-record gradient in that value pulls back to the leaf by the chain's transposed Jacobian. If the chain only
rearranges entries (and multiplies all of them by one number) norms are known without pulling back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .trace import Op, Program

REARRANGING = {"reshape", "transpose", "squeeze", "expand_dims", "rev", "neg", "copy", "copy_p", "convert_element_type"}
LINEAR = REARRANGING | {"broadcast_in_dim", "slice", "reduce_sum", "concatenate", "add", "sub", "add_any"}


@dataclass(frozen=True, eq=False)
class Chain:
    """Operations from one leaf to one value, whose Jacobian is an isometry times a product of constants."""

    leaf: int
    value: int
    ops: tuple[Op, ...]
    multipliers: tuple[int, ...]
    divisors: tuple[int, ...]

    def scale(self, fixed: dict[int, Any]) -> jax.Array:
        """By how much the chain multiplies norms."""
        scale = jnp.ones((), jnp.float32)
        for value in self.multipliers:
            scale = scale * jnp.abs(jnp.asarray(fixed[value], jnp.float32).reshape(()))
        for value in self.divisors:
            scale = scale / jnp.abs(jnp.asarray(fixed[value], jnp.float32).reshape(()))
        return scale

    def pull_back(self, program: Program, fixed: dict[int, Any], gradient: jax.Array) -> jax.Array:
        """Turn a sum of gradients in the value into the sum of gradients in the leaf."""
        if not self.ops:
            return gradient
        (leaf,) = pull_back(program, (self.leaf,), (self.value,), fixed, [gradient])
        return leaf


def isometry(program: Program, value: int) -> Chain | None:
    """The chain behind a value, if it starts at one leaf and keeps norms up to a constant; else None."""
    end, ops, multipliers, divisors = value, [], [], []
    while value not in program.leaves:
        op = program.producer[value]
        inner = [i for i in op.inputs if program.parameters_of(i)]
        others = [i for i in op.inputs if not program.parameters_of(i)]
        if len(inner) != 1 or program.from_params.intersection(others):
            return None
        same_shape = program.avals[inner[0]].shape == program.avals[value].shape
        scalars = all(program.avals[i].size == 1 for i in others)
        if op.name == "mul" and same_shape and scalars:
            multipliers += others
        elif op.name == "div" and op.inputs[0] == inner[0] and same_shape and scalars:
            divisors += others
        elif not (op.name in REARRANGING or (op.name in {"add", "sub"} and same_shape)):
            return None
        ops.append(op)
        value = inner[0]
    return Chain(value, end, tuple(reversed(ops)), tuple(multipliers), tuple(divisors))


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
