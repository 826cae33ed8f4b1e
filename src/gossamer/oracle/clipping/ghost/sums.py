"""From what the passes left at the sites to norms, factors and clipped sums."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ...lattice import Lattice, add_up
from ..factors import Clip, as_blocks, clip_factors, fits, once, raised, withheld
from .analysis import Alone, Analysis, Pass, Site, Together
from .chain import pull_back, pull_back_at
from .contributions import (
    Contribution,
    Rows,
    Spread,
    bilinear_difference,
    bilinear_gradient,
    bilinear_rows,
    bilinear_rows_difference,
)
from .sites import Bilinear

Finish = Callable[[jax.Array], jax.Array]
"""How a sum of contributions to a value of parameters becomes one of contributions to a leaf: it is rearranged."""


def clipped_sum(
    analysis: Analysis,
    passes: Sequence[Pass],
    params: Any,
    mask: jax.Array,
    clip: Clip,
    *,
    spot: jax.Array | int = 0,
    lattice: Lattice | None = None,
) -> Any:
    """Σ_i clip(g_i) for one pass, or Σ_i clip(g_i − g'_i) for two, block by block; on a lattice, if there is one.

    What row `spot` contributes is measured, leaf by leaf, as it is added. If that is longer than its threshold, the
    norm that its factor came from was wrong: the sum is NaN.
    """
    contributions: dict[int, Contribution] = {}
    finish: dict[int, Finish] = {}
    for part in analysis.parts:
        if isinstance(part, Alone):
            contributions[part.leaf], finish[part.leaf] = _alone(analysis, part, passes)
        else:
            for leaf, rows in zip(part.leaves, _together(analysis, part, passes), strict=True):
                contributions[leaf], finish[leaf] = Rows(rows), _same

    def clipped(held: dict[int, Contribution]) -> Any:
        numbers = iter(analysis.program.leaves)
        blocks, thresholds = as_blocks(params, clip)
        sums: list[jax.Array] = []
        for block, threshold in zip(blocks, thresholds, strict=True):
            leaves = [(next(numbers), leaf) for leaf in jax.tree.leaves(block)]
            squares = [held[k].squared_norms() for k, _ in leaves if k in held]
            total = sum(squares, jnp.zeros(mask.shape, jnp.float32))
            weights = clip_factors(raised(total, len(squares)), threshold, mask)

            # Every leaf is rearranged block by block: what is added up exactly is what is released.
            parts = [(held[k], finish[k], leaf) if k in held else (None, _same, leaf) for k, leaf in leaves]
            alone = [_added(part, weights, None, threshold, row=spot) for part in parts]
            within = fits(alone, 1, threshold)
            sums += [withheld(_added(part, weights, lattice, threshold), ~within) for part in parts]
        return jax.tree.unflatten(jax.tree.structure(params), sums)

    return once(clipped, contributions)


def _added(
    part: tuple[Contribution | None, Finish, jax.Array],
    weights: jax.Array,
    lattice: Lattice | None,
    clip: Any,
    row: jax.Array | int | None = None,
) -> jax.Array:
    """Return Σ_i s_i g_i in one leaf over all rows, or of one of them; zero where the loss does not use the leaf."""
    held, finish, leaf = part
    if held is None:
        return add_up(lattice, lambda rows: _zeros(leaf), (weights,), clip)
    if row is not None:
        held, weights = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, row, 1), (held, weights))

    def rearranged(*rows: jax.Array) -> jax.Array:
        return finish(held.added(*rows)).reshape(leaf.shape)

    return add_up(lattice, rearranged, held.weighted(weights), clip, wide=held.wide)


def _alone(analysis: Analysis, part: Alone, passes: Sequence[Pass]) -> tuple[Contribution, Finish]:
    """Norms from the factors; the summed gradient alone passes through the chain."""
    site, structure, fixed = analysis.sites[part.site], part.structure, passes[0].fixed
    errors = [part.chain.scaled(fixed, _wide(point.errors[part.site][0])) for point in passes]
    held: Contribution
    if isinstance(structure, Bilinear):
        inputs = [_wide(point.inputs[part.site][structure.other]) for point in passes]
        if len(passes) == 1 or not site.moving:
            held = bilinear_gradient(structure, inputs[0], _difference(errors))
        else:
            held = bilinear_difference(structure, inputs[0], errors[0], inputs[1], errors[1])
        restore = structure.restore
    else:
        held, restore = Spread(structure, _indices(site, part.site, passes[0]), _difference(errors)), _same

    def finish(total: jax.Array) -> jax.Array:
        return part.chain.pull_back(analysis.program, restore(total))

    return held, finish


def _together(analysis: Analysis, part: Together, passes: Sequence[Pass]) -> list[jax.Array]:
    """Each record's exact gradient in each of these leaves, added over all the places that use them."""
    program, fixed = analysis.program, [point.fixed for point in passes]
    if part.linear:
        gradients = _values(analysis, part, passes)
        back = jax.vmap(lambda g: pull_back(program, part.leaves, part.values, fixed[0], g))
        return list(back(gradients))
    each = []
    for point in passes:
        back = jax.vmap(lambda g, at=point.fixed: pull_back_at(program, part.leaves, part.values, at, g))
        each.append([_wide(leaf) for leaf in back(_values(analysis, part, [point]))])
    return [_difference(leaf) for leaf in zip(*each, strict=True)]


def _values(analysis: Analysis, part: Together, passes: Sequence[Pass]) -> list[jax.Array]:
    """Each record's gradient (or difference) in the values of parameters that these leaves make."""
    totals: dict[int, jax.Array] = {}
    for index in dict.fromkeys(index for index, _ in part.uses):
        site = analysis.sites[index]
        for slot, rows in zip(site.slots, _instantiate(analysis, index, passes), strict=True):
            value = site.op.inputs[slot]
            if (index, slot) in part.uses:
                totals[value] = totals[value] + rows if value in totals else rows
    return [totals[value] for value in part.values]


def _instantiate(analysis: Analysis, index: int, passes: Sequence[Pass]) -> list[jax.Array]:
    """Each record's gradient (or difference) in a site's operands made of parameters."""
    site, structure = analysis.sites[index], analysis.sites[index].structure
    if not isinstance(structure, Bilinear):
        each = [_differentiate(site, point, index) for point in passes]
        return [_difference(rows) for rows in zip(*each, strict=True)]
    errors = [_wide(point.errors[index][0]) for point in passes]
    inputs = [_wide(point.inputs[index][structure.other]) for point in passes]
    if len(passes) == 1 or not site.moving:
        return [structure.restore(bilinear_rows(structure, inputs[0], _difference(errors)))]
    return [structure.restore(bilinear_rows_difference(structure, inputs[0], errors[0], inputs[1], errors[1]))]


def _differentiate(site: Site, point: Pass, index: int) -> list[jax.Array]:
    """Differentiate one operation in its parameters, record by record: exact whatever the operation is."""
    primals = [point.fixed[site.op.inputs[slot]] for slot in site.slots]

    def one(inputs: dict[int, jax.Array], errors: Sequence[jax.Array]) -> tuple[jax.Array, ...]:
        def apply(*parameters: jax.Array) -> list[jax.Array]:
            known = {**inputs, **dict(zip(site.slots, parameters, strict=True))}
            outputs = site.op.bind(*(known[k] if k in known else point.fixed[v] for k, v in enumerate(site.op.inputs)))
            return [outputs[position] for position in site.taps]

        return jax.vjp(apply, *primals)[1](list(errors))

    return [_wide(rows) for rows in jax.vmap(one)(point.inputs[index], point.errors[index])]


def _indices(site: Site, index: int, point: Pass) -> tuple[jax.Array, ...]:
    """The index operands of a lookup, for each record."""
    size = len(point.values)
    inputs = point.inputs[index]
    return tuple(
        inputs[k] if k in inputs else jnp.broadcast_to(point.fixed[value], (size, *jnp.shape(point.fixed[value])))
        for k, value in enumerate(site.op.inputs)
        if k not in site.slots
    )


def _difference(arrays: Sequence[jax.Array]) -> jax.Array:
    return arrays[0] if len(arrays) == 1 else arrays[0] - arrays[1]


def _wide(x: jax.Array) -> jax.Array:
    """Accumulate in float32 at least."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _zeros(leaf: jax.Array) -> jax.Array:
    return jnp.zeros(leaf.shape, jnp.promote_types(leaf.dtype, jnp.float32))


def _same(x: jax.Array) -> jax.Array:
    return x
