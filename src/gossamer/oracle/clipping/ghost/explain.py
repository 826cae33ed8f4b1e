"""A table of leaves: where each meets the record, how it is clipped, and what that costs."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax

from .analysis import Alone, Analysis, Site, Together, analyse
from .contributions import instantiated
from .sites import Bilinear, Lookup
from .trace import UnsupportedError, trace

WHOLE = "whole loss, record by record"


@dataclass(frozen=True)
class LeafReport:
    """How one leaf is clipped."""

    leaf: str
    shape: tuple[int, ...]
    site: str
    """The operations in which it meets the record."""
    strategy: str
    flops: int
    """Estimated floating point operations per record, for the norm and the sum."""
    memory: int
    """Estimated bytes per record, on top of what a plain gradient keeps."""
    note: str
    """Why a cheaper strategy does not apply."""


@dataclass(frozen=True)
class ClippingTable:
    """What `explain_clipping` found; `str` shows it."""

    rows: tuple[LeafReport, ...]

    def __str__(self) -> str:
        titles = ("leaf", "shape", "site", "strategy", "flops/record", "bytes/record", "note")
        cells = [
            (
                r.leaf,
                "×".join(map(str, r.shape)) or "scalar",
                r.site,
                r.strategy,
                f"{r.flops:,}",
                f"{r.memory:,}",
                r.note,
            )
            for r in self.rows
        ]
        flops, memory = (sum(column) for column in zip(*((r.flops, r.memory) for r in self.rows), strict=True))
        lines = [titles, *cells, ("total", "", "", "", f"{flops:,}", f"{memory:,}", "")]
        widths = [max(len(line[k]) for line in lines) for k in range(len(titles))]

        def show(line: tuple[str, ...]) -> str:
            numeric = {4, 5}
            return "  ".join(
                c.rjust(w) if k in numeric else c.ljust(w) for k, (c, w) in enumerate(zip(line, widths, strict=True))
            ).rstrip()

        rule = "  ".join("-" * width for width in widths)
        return "\n".join([show(lines[0]), rule, *map(show, lines[1:-1]), rule, show(lines[-1])])


def explain_clipping(loss: Callable[[Any, Any], jax.Array], params: Any, record: Any) -> ClippingTable:
    """Show, leaf by leaf, how the per-record gradients of a loss are clipped and why a model is slow.

    Args:
      loss: `loss(params, record)`, one real number.
      params: a pytree of floating point arrays.
      record: ONE record (no batch axis); only its shapes matter.
    """
    paths, leaves = zip(*jax.tree.leaves_with_path(params), strict=True)
    names = [jax.tree_util.keystr(path) or "params" for path in paths]
    shapes = [tuple(leaf.shape) for leaf in leaves]
    try:
        analysis = analyse(trace(loss, params, record))
    except UnsupportedError as why:
        return ClippingTable(
            tuple(
                LeafReport(name, shape, "whole loss", WHOLE, flops=0, memory=4 * math.prod(shape), note=str(why))
                for name, shape in zip(names, shapes, strict=True)
            )
        )
    found = dict(report for part in analysis.parts for report in _reports(analysis, part))
    unused = ("", "unused", 0, 0, "the loss does not depend on it")
    rows = zip(names, shapes, analysis.program.leaves, strict=True)
    return ClippingTable(tuple(LeafReport(name, shape, *found.get(k, unused)) for name, shape, k in rows))


def _reports(analysis: Analysis, part: Alone | Together) -> Iterator[tuple[int, tuple[str, str, int, int, str]]]:
    """Yield each leaf with its site, strategy, flops, memory and note."""
    if isinstance(part, Alone):
        yield part.leaf, (_site(analysis.sites[part.site]), *_structured(part.structure), "")
        return
    for leaf in part.leaves:
        mine = [
            (analysis.sites[k], slot)
            for k, slot in part.uses
            if leaf in analysis.program.parameters_of(analysis.sites[k].op.inputs[slot])
        ]
        size = math.prod(analysis.program.avals[leaf].shape)
        flops = 4 * size + sum(_instantiating(analysis, site, slot) for site, slot in mine)
        sites = ", ".join(dict.fromkeys(_site(site) for site, _ in mine))
        yield leaf, (sites, "instantiate", flops, 4 * size, _note(part, [site for site, _ in mine]))


def _structured(structure: Bilinear | Lookup) -> tuple[str, int, int]:
    """Strategy, operations and bytes for a leaf that is used once, at a site with structure."""
    if isinstance(structure, Lookup):
        width = math.prod(structure.shape) // structure.shape[0]
        merged = structure.positions if structure.rows is not None else 1
        return "merge looked-up rows", 2 * merged**2 * width + 4 * merged * width, 4 * (merged**2 + merged * width)
    h, t, n, m = structure.groups, structure.positions, structure.n, structure.m
    if t == 1:
        return "factors", h * (2 * (n + m) + 2 * n * m), 4 * h * m
    if instantiated(structure):
        return "batched product", h * (2 * t * n * m + 4 * n * m), 4 * h * n * m
    return "Gram matrices", h * (2 * t**2 * (n + m) + 2 * t * n * m), 8 * h * t**2


def _instantiating(analysis: Analysis, site: Site, slot: int) -> int:
    """Operations to build one record's gradient at a site."""
    if isinstance(site.structure, Bilinear):
        s = site.structure
        return 2 * s.groups * s.positions * s.n * s.m
    return 2 * math.prod(analysis.program.avals[site.op.inputs[slot]].shape)


def _site(site: Site) -> str:
    if isinstance(site.structure, Bilinear):
        s = site.structure
        many = f" at {s.positions} positions" if s.positions > 1 else ""
        return f"{site.op.name} {s.n}→{s.m}{many}"
    return site.op.name


def _note(part: Together, sites: list[Site]) -> str:
    """Say what stands in the way of a cheaper strategy."""
    small = {"add", "sub", "mul", "div", "add_any"}
    notes = []
    if len(sites) > 1:
        notes.append(f"used at {len(sites)} places")
    if len(part.leaves) > 1:
        notes.append(f"meets the record together with {len(part.leaves) - 1} other leaves")
    if not part.linear:
        notes.append("transformed non-linearly before it meets the record")
    if unknown := {site.op.name for site in sites if site.structure is None and site.op.name not in small}:
        notes.append(f"no structure known for {', '.join(sorted(unknown))}")
    return "; ".join(notes)
