"""Where parameters meet records, and what that allows for each leaf."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .chain import Chain, isometry, linear
from .sites import Structure, structure_of
from .trace import Op, Program


@dataclass(frozen=True, eq=False)
class Site:
    """An operation with an operand made of parameters alone and another that depends on the record."""

    op: Op
    slots: tuple[int, ...]
    """Positions of the operands made of parameters alone."""
    taps: tuple[int, ...]
    """Positions of the outputs that have a derivative."""
    structure: Structure | None
    """How per-record gradients factor, when this kind of operation is known; None: they are instantiated."""
    moving: bool
    """Whether the other operands depend on the parameters: if not, they cancel in a difference."""


@dataclass(frozen=True, eq=False)
class Alone:
    """A leaf used once, through a chain that keeps norms, at a site with structure: nothing need be instantiated."""

    leaf: int
    site: int
    structure: Structure
    chain: Chain


@dataclass(frozen=True, eq=False)
class Together:
    """Leaves whose per-record gradients are instantiated: tied, transformed, or used where there is no structure."""

    leaves: tuple[int, ...]
    uses: tuple[tuple[int, int], ...]
    """Pairs (site, slot)."""
    values: tuple[int, ...]
    """The distinct values of parameters alone at those slots."""
    linear: bool
    """Whether those values are affine in the leaves, so that differences pull back without a second point."""


@dataclass(frozen=True, eq=False)
class Analysis:
    """A traced loss with its sites; a leaf in none of the parts has no influence on the loss."""

    program: Program
    sites: tuple[Site, ...]
    parts: tuple[Alone | Together, ...]


def analyse(program: Program) -> Analysis:
    """Find the sites and group the leaves by the values in which they meet records."""
    sites = tuple(_sites(program))
    uses = [(index, slot) for index, site in enumerate(sites) for slot in site.slots]

    def value(use: tuple[int, int]) -> int:
        return sites[use[0]].op.inputs[use[1]]

    parts: list[Alone | Together] = []
    for members in _components([program.parameters_of(value(use)) for use in uses]):
        mine = tuple(use for use in uses if program.parameters_of(value(use)) & members)
        if (alone := _alone(program, sites, mine, members)) is not None:
            parts.append(alone)
            continue
        values = tuple(dict.fromkeys(value(use) for use in mine))
        leaves = tuple(leaf for leaf in program.leaves if leaf in members)
        parts.append(Together(leaves, mine, values, linear(program, values)))
    return Analysis(program, sites, tuple(parts))


def _sites(program: Program) -> list[Site]:
    found = []
    for op in program.ops:
        slots = tuple(k for k, value in enumerate(op.inputs) if program.parameters_of(value))
        taps = tuple(k for k, value in enumerate(op.outputs) if program.is_inexact(value))
        if slots and taps and program.from_record.intersection(op.outputs):
            others = {value for k, value in enumerate(op.inputs) if k not in slots}
            found.append(Site(op, slots, taps, structure_of(program, op, slots), bool(others & program.from_params)))
    return found


def _components(sets: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Merge sets that overlap."""
    merged: list[frozenset[int]] = []
    for members in sets:
        overlapping = [other for other in merged if other & members]
        merged = [other for other in merged if not other & members]
        merged.append(members.union(*overlapping))
    return merged


def _alone(
    program: Program, sites: Sequence[Site], uses: Sequence[tuple[int, int]], members: frozenset[int]
) -> Alone | None:
    if len(uses) != 1 or len(members) != 1:
        return None
    ((index, slot),) = uses
    site, (leaf,) = sites[index], members
    chain = isometry(program, site.op.inputs[slot])
    if site.structure is None or chain is None:
        return None
    return Alone(leaf, index, site.structure, chain)


@dataclass(frozen=True, eq=False)
class Pass:
    """What one forward and backward pass over a batch leaves behind at one point of parameter space."""

    fixed: dict[int, Any]
    """Values that do not depend on the record."""
    inputs: tuple[dict[int, jax.Array], ...]
    """For each site, its record-dependent operands by position, with a leading batch axis."""
    errors: tuple[tuple[jax.Array, ...], ...]
    """For each site, the derivative of each record's loss in the site's outputs, with a leading batch axis."""
    values: jax.Array
    """Each record's loss."""


def run(analysis: Analysis, leaves: Sequence[jax.Array], record: Sequence[jax.Array], size: int) -> Pass:
    """Run a batch forwards and backwards once, reading inputs and back-propagated errors at every site.

    A zero is added to every site's outputs; the derivative of the summed losses in those zeros is each record's
    own error, because records do not interact. Weight gradients are never formed.
    """
    program = analysis.program
    fixed = program.fixed(leaves)
    index = {site.op: k for k, site in enumerate(analysis.sites)}

    def one(record: Sequence[jax.Array], taps: list[list[jax.Array]]) -> tuple[jax.Array, list[dict[int, jax.Array]]]:
        env = {**fixed, **dict(zip(program.record, record, strict=True))}
        inputs: list[dict[int, jax.Array]] = [{} for _ in analysis.sites]
        for op in program.ops:
            if not program.from_record.intersection(op.outputs):
                continue
            outputs = op.bind(*(env[i] for i in op.inputs))
            if (k := index.get(op)) is not None:
                inputs[k] = {j: env[i] for j, i in enumerate(op.inputs) if i in program.from_record}
                for position, tap in zip(analysis.sites[k].taps, taps[k], strict=True):
                    outputs[position] = outputs[position] + tap
            env.update(zip(op.outputs, outputs, strict=True))
        return env[program.result], inputs

    def total(taps: list[list[jax.Array]]) -> tuple[jax.Array, Any]:
        values, inputs = jax.vmap(one)(record, taps)
        return values.sum(), (values, inputs)

    def zeros(site: Site) -> list[jax.Array]:
        avals = [program.avals[site.op.outputs[position]] for position in site.taps]
        return [jnp.zeros((size, *aval.shape), aval.dtype) for aval in avals]

    taps = [zeros(site) for site in analysis.sites]
    value, backward, (values, inputs) = jax.vjp(total, taps, has_aux=True)
    (errors,) = backward(jnp.ones_like(value))
    return Pass(fixed, tuple(inputs), tuple(tuple(e) for e in errors), values)
