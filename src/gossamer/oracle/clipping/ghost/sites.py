"""The kinds of operation whose per-record gradients factor: dense products, convolutions, lookups and windows.

A *bilinear* site's gradient in its parameters is Σ_t a_t ⊗ d_t for each of H groups, over T positions, with a_t ∈ Rⁿ
read from the site's input and d_t ∈ Rᵐ from the error at its output. Biases, scales and everything else
have gradients no larger than what is already there, or no structure we know, and are instantiated.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from .trace import Op, Program


@dataclass(frozen=True, eq=False)
class Bilinear:
    """A site whose gradient is Σ_t a_t ⊗ d_t in each group; all three functions are linear and act on a batch."""

    slot: int
    other: int
    groups: int
    positions: int
    n: int
    m: int
    rows: Callable[[jax.Array], jax.Array]
    """Input to (B, H, T, n)."""
    columns: Callable[[jax.Array], jax.Array]
    """Error to (B, H, T, m)."""
    restore: Callable[[jax.Array], jax.Array]
    """Gradient (..., H, n, m) to (..., *shape of the parameter)."""


@dataclass(frozen=True, eq=False)
class Lookup:
    """A site that copies rows of a table: its gradient adds each position's error to the row it was read from."""

    op: Op
    shape: tuple[int, ...]
    positions: int
    columns: Callable[[jax.Array], jax.Array]
    """Error to (B, T, D)."""
    rows: Callable[..., jax.Array] | None
    """Row number at each position, (B, T), negative for none; None when every position has a row of its own."""

    def spread(self, indices: Sequence[jax.Array], error: jax.Array) -> jax.Array:
        """Add the errors of a whole batch to the rows they belong to."""

        def read(table: jax.Array) -> jax.Array:
            return jax.vmap(lambda index: self.op.bind(table, *index)[0])(list(indices))

        (table,) = jax.linear_transpose(read, jax.ShapeDtypeStruct(self.shape, error.dtype))(error)
        return table


Structure = Bilinear | Lookup


def structure_of(program: Program, op: Op, slots: tuple[int, ...]) -> Structure | None:
    """Recognise the kind of a site, or return None: its per-record gradients will be instantiated."""
    values = [*op.inputs, *op.outputs]
    avals = [program.avals[value] for value in values]
    if len(slots) != 1 or math.prod(math.prod(aval.shape) for aval in avals) == 0:
        return None
    (slot,) = slots
    if op.name in {"dot_general", "conv_general_dilated"}:
        if not all(jnp.issubdtype(aval.dtype, jnp.floating) for aval in avals):
            return None
        return dense(op, slot, avals) if op.name == "dot_general" else convolution(op, slot, avals)
    if op.name in {"gather", "dynamic_slice"} and slot == 0:
        indices = op.inputs[1:]
        if program.from_params.intersection(indices):
            return None
        return lookup(op, avals) if op.name == "gather" else window(op, avals)
    return None


def dense(op: Op, slot: int, avals: Sequence[Any]) -> Bilinear:
    """A contraction of a parameter with an input: matrix products, einsums, batched over shared axes or not."""
    contract, batch = op.params["dimension_numbers"]
    shape, other_shape = avals[slot].shape, avals[1 - slot].shape
    mine_c, mine_b = tuple(contract[slot]), tuple(batch[slot])
    theirs_c, theirs_b = tuple(contract[1 - slot]), tuple(batch[1 - slot])
    mine_f = tuple(k for k in range(len(shape)) if k not in mine_c + mine_b)
    theirs_f = tuple(k for k in range(len(other_shape)) if k not in theirs_c + theirs_b)
    groups, n = _size(shape, mine_b), _size(shape, mine_c)
    positions, m = _size(other_shape, theirs_f), _size(shape, mine_f)
    order = mine_b + mine_c + mine_f

    def rows(x: jax.Array) -> jax.Array:
        return _transpose(x, theirs_b + theirs_f + theirs_c).reshape(-1, groups, positions, n)

    def columns(d: jax.Array) -> jax.Array:
        if slot == 1:
            return d.reshape(-1, groups, positions, m)
        return d.reshape(-1, groups, m, positions).swapaxes(2, 3)

    def restore(g: jax.Array) -> jax.Array:
        g = g.reshape(g.shape[:-3] + tuple(shape[k] for k in order))
        return _untranspose(g, order)

    return Bilinear(slot, 1 - slot, groups, positions, n=n, m=m, rows=rows, columns=columns, restore=restore)


def convolution(op: Op, slot: int, avals: Sequence[Any]) -> Bilinear | None:
    """A convolution with a kernel of parameters, as a product of patches made of shifted slices of the input."""
    p = op.params
    if slot != 1 or p["batch_group_count"] != 1:
        return None
    spec, groups = p["dimension_numbers"], p["feature_group_count"]
    images, channels, *_ = (avals[0].shape[k] for k in spec.lhs_spec)
    outs, ins, *window = (avals[1].shape[k] for k in spec.rhs_spec)
    area = [avals[2].shape[k] for k in spec.out_spec[2:]]
    shifts = list(itertools.product(*(range(size) for size in window)))
    edges = [(low, high, hole - 1) for (low, high), hole in zip(p["padding"], p["lhs_dilation"], strict=True)]
    positions, fan = images * math.prod(area), len(shifts) * ins

    def patch(x: jax.Array, shift: tuple[int, ...]) -> jax.Array:
        start = [k * d for k, d in zip(shift, p["rhs_dilation"], strict=True)]
        stop = [k + (size - 1) * s + 1 for k, size, s in zip(start, area, p["window_strides"], strict=True)]
        return lax.slice(x, (0, 0, *start, 0), (*x.shape[:2], *stop, channels), (1, 1, *p["window_strides"], 1))

    # Positions first and channels last is the order in which the batched product reads its operands.
    def rows(x: jax.Array) -> jax.Array:
        x = _transpose(x, (spec.lhs_spec[0], *spec.lhs_spec[2:], spec.lhs_spec[1]))
        x = lax.pad(x, jnp.zeros((), x.dtype), [(0, 0, 0), (0, 0, 0), *edges, (0, 0, 0)])
        patches = jnp.stack([patch(x, shift) for shift in shifts], axis=-2)
        patches = patches.reshape(len(x), positions, len(shifts), groups, ins)
        return jnp.moveaxis(patches, 3, 1).reshape(len(x), groups, positions, fan)

    def columns(d: jax.Array) -> jax.Array:
        d = _transpose(d, (spec.out_spec[0], *spec.out_spec[2:], spec.out_spec[1]))
        return jnp.moveaxis(d.reshape(len(d), positions, groups, outs // groups), 2, 1)

    def restore(g: jax.Array) -> jax.Array:
        lead = g.shape[:-3]
        g = g.reshape(*lead, groups, len(shifts), ins, outs // groups)
        g = jnp.moveaxis(g, (-1, -2), (-3, -2))
        return _untranspose(g.reshape(*lead, outs, ins, *window), spec.rhs_spec)

    return Bilinear(slot, 0, groups, positions, n=fan, m=outs // groups, rows=rows, columns=columns, restore=restore)


def lookup(op: Op, avals: Sequence[Any]) -> Lookup | None:
    """Rows of a table read at indices from the record, when two positions read the same row or disjoint ones."""
    table, _, out = avals
    numbers, sizes = op.params["dimension_numbers"], op.params["slice_sizes"]
    whole_or_one = all(size in (1, full) for size, full in zip(sizes, table.shape, strict=True))
    if numbers.operand_batching_dims or not whole_or_one:
        return None
    places = tuple(k for k in range(len(out.shape)) if k not in numbers.offset_dims)
    positions = _size(out.shape, places)
    # The same gather reads row numbers from a table whose rows are one entry wide.
    narrow = tuple(1 if size == full else full for size, full in zip(sizes, table.shape, strict=True))
    safe = lax.GatherScatterMode.CLIP if op.params["mode"] == lax.GatherScatterMode.CLIP else "fill"

    def columns(d: jax.Array) -> jax.Array:
        return _transpose(d, places + tuple(numbers.offset_dims)).reshape(len(d), positions, -1)

    def rows(index: jax.Array) -> jax.Array:
        numbered = jnp.arange(math.prod(narrow), dtype=jnp.int32).reshape(narrow)

        def read(one: jax.Array) -> jax.Array:
            return lax.gather(numbered, one, numbers, (1,) * len(sizes), mode=safe, fill_value=-1).reshape(-1)

        return jax.vmap(read)(index)

    return Lookup(op, table.shape, positions, columns, rows if positions > 1 else None)


def window(op: Op, avals: Sequence[Any]) -> Lookup:
    """One window of a table, at a place read from the record: no two entries of it coincide."""
    return Lookup(op, avals[0].shape, 1, lambda d: d.reshape(len(d), 1, -1), None)


def _size(shape: Sequence[int], axes: Sequence[int]) -> int:
    return math.prod(shape[k] for k in axes)


def _transpose(x: jax.Array, order: Sequence[int]) -> jax.Array:
    """Permute all axes but the leading one."""
    return x.transpose(0, *(k + 1 for k in order))


def _untranspose(x: jax.Array, order: Sequence[int]) -> jax.Array:
    """Undo a permutation of the trailing axes."""
    lead = x.ndim - len(order)
    inverse = [list(order).index(k) + lead for k in range(len(order))]
    return x.transpose(*range(lead), *inverse)
