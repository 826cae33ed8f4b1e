"""From a per-record loss to a flat list of operations that can be replayed with taps.

The loss is traced on ONE record, so no axis of any value is a batch axis; batching is left to `jax.vmap`,
which keeps every value that does not depend on the record unbatched.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

INLINED = {"jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2"}
"""Calls without a derivative rule of their own. A custom_jvp or custom_vjp call stays one operation: its
rule, not the derivative of its body, is what the user meant (relu at a kink, logsumexp at infinity)."""


class UnsupportedError(TypeError):
    """The loss cannot be taken apart; only per-record differentiation of the whole of it is exact."""


@dataclass(frozen=True, eq=False)
class Op:
    """One equation: a primitive applied to numbered values."""

    primitive: core.Primitive
    params: Mapping[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def name(self) -> str:
        """The primitive's name."""
        return self.primitive.name

    def bind(self, *values: Any) -> list[Any]:
        """Apply the operation and return its outputs as a list."""
        out = self.primitive.bind(*values, **self.primitive.get_bind_params(self.params))
        return list(out) if self.primitive.multiple_results else [out]


@dataclass(frozen=True, eq=False)
class Program:
    """A loss of one record: operations in order, and which values are leaves, record or constants."""

    ops: tuple[Op, ...]
    constants: Mapping[int, Any]
    avals: Mapping[int, Any]
    leaves: tuple[int, ...]
    record: tuple[int, ...]
    result: int

    @cached_property
    def producer(self) -> dict[int, Op]:
        """The operation that makes each computed value."""
        return {out: op for op in self.ops for out in op.outputs}

    @cached_property
    def from_record(self) -> set[int]:
        """Values that differ from one record to the next."""
        return self._descendants(self.record)

    @cached_property
    def from_params(self) -> set[int]:
        """Values that change with the parameters, differentiably or not."""
        return self._descendants(self.leaves)

    @cached_property
    def ancestors(self) -> dict[int, frozenset[int]]:
        """For each value, the leaves it may have a non-zero derivative in."""
        found = {leaf: frozenset([leaf]) for leaf in self.leaves}
        for op in self.ops:
            above = frozenset[int]().union(*(found.get(i, frozenset()) for i in op.inputs))
            for out in op.outputs:
                found[out] = above if op.name != "stop_gradient" and self.is_inexact(out) else frozenset()
        return found

    def parameters_of(self, value: int) -> frozenset[int]:
        """The leaves that a value of parameters alone is a differentiable function of (none if a record is in it)."""
        return frozenset() if value in self.from_record else self.ancestors.get(value, frozenset())

    def is_inexact(self, value: int) -> bool:
        """Whether a value is a floating point array, the only kind with a derivative."""
        return jnp.issubdtype(self.avals[value].dtype, jnp.inexact)

    def fixed(self, leaves: Sequence[jax.Array]) -> dict[int, Any]:
        """Evaluate everything that does not depend on the record, once for the whole batch."""
        env = {**self.constants, **dict(zip(self.leaves, leaves, strict=True))}
        return evaluate((op for op in self.ops if not self.from_record.intersection(op.outputs)), env)

    def _descendants(self, roots: Iterable[int]) -> set[int]:
        reached = set(roots)
        for op in self.ops:
            if reached.intersection(op.inputs):
                reached.update(op.outputs)
        return reached


def evaluate(ops: Iterable[Op], env: dict[int, Any]) -> dict[int, Any]:
    """Run operations in order, adding their outputs to the environment."""
    for op in ops:
        env.update(zip(op.outputs, op.bind(*(env[i] for i in op.inputs)), strict=True))
    return env


def trace(loss: Callable[[Any, Any], jax.Array], params: Any, record: Any) -> Program:
    """Trace a per-record loss at the shapes of these arguments; raise UnsupportedError when it cannot be taken apart.

    A zero that counts as part of the record is added to the loss, so that the result depends on the record
    even when the loss does not, and every use of a parameter ends at a value that can be tapped.
    """

    def tapped(leaves: list[Any], record: Any, zero: jax.Array) -> jax.Array:
        value = loss(jax.tree.unflatten(jax.tree.structure(params), leaves), record)
        if jnp.shape(value) != () or not jnp.issubdtype(jnp.result_type(value), jnp.floating):
            got = f"{jnp.result_type(value)}{list(jnp.shape(value))}"
            raise ValueError(f"loss(params, record) must return one real number for one record, not {got}.")
        return value + zero.astype(jnp.result_type(value))

    leaves = jax.tree.leaves(params)
    if not all(jnp.issubdtype(jnp.result_type(leaf), jnp.floating) for leaf in leaves):
        raise UnsupportedError("a parameter is not a real floating point array")
    zero = jax.ShapeDtypeStruct((), jnp.float32)
    closed = jax.make_jaxpr(tapped)(leaves, record, zero)
    if closed.effects:
        raise UnsupportedError("the loss has side effects")
    program = _flatten(closed, len(leaves))
    _check_real(program)
    return program


def _check_real(program: Program) -> None:
    """Refuse complex numbers: a gradient in one is complex, its squares are no norms, its real part alone goes on."""
    moving = (program.avals[value].dtype for value, leaves in program.ancestors.items() if leaves)
    if any(jnp.issubdtype(dtype, jnp.complexfloating) for dtype in moving):
        raise UnsupportedError("parameters become complex numbers on their way")


def _flatten(closed: core.ClosedJaxpr, n_leaves: int) -> Program:
    """Number every value, inline calls, and drop operations that the loss does not depend on."""
    constants: dict[int, Any] = {}
    avals: dict[int, Any] = {}
    ops: list[Op] = []

    def new(aval: Any) -> int:
        avals[len(avals)] = aval
        return len(avals) - 1

    def constant(value: Any, aval: Any) -> int:
        number = new(aval)
        constants[number] = value
        return number

    def walk(jaxpr: core.Jaxpr, consts: Sequence[int], arguments: Sequence[int]) -> list[int]:
        number: dict[Any, int] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *arguments), strict=True))

        def read(atom: Any) -> int:
            return constant(atom.val, atom.aval) if isinstance(atom, core.Literal) else number[atom]

        for eqn in jaxpr.eqns:
            inputs = tuple(read(atom) for atom in eqn.invars)
            body = eqn.params.get("jaxpr", eqn.params.get("call_jaxpr"))
            if eqn.primitive.name in INLINED and isinstance(body, core.ClosedJaxpr):
                inner = [constant(c, v.aval) for c, v in zip(body.consts, body.jaxpr.constvars, strict=True)]
                outputs = walk(body.jaxpr, inner, inputs)
            elif eqn.primitive.name in INLINED and isinstance(body, core.Jaxpr):
                outputs = walk(body, (), inputs)
            else:
                outputs = [new(var.aval) for var in eqn.outvars]
                ops.append(Op(eqn.primitive, eqn.params, inputs, tuple(outputs)))
            number.update(zip(eqn.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    jaxpr = closed.jaxpr
    consts = [constant(c, v.aval) for c, v in zip(closed.consts, jaxpr.constvars, strict=True)]
    arguments = [new(var.aval) for var in jaxpr.invars]
    (result,) = walk(jaxpr, consts, arguments)

    needed, kept = {result}, []
    for op in reversed(ops):
        if needed.intersection(op.outputs):
            kept.append(op)
            needed.update(op.inputs)
    leaves, record = tuple(arguments[:n_leaves]), tuple(arguments[n_leaves:])
    return Program(tuple(reversed(kept)), constants, avals, leaves=leaves, record=record, result=result)
