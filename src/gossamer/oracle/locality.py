"""A query's function looks at one record: what it is made of is looked at before it meets any.

The proof of the door needs h(z_i) to depend on record i alone. A function that JAX batches by its own rules does, as
long as each operation is one whose rule treats every row of a batch by itself. Those are listed here; whatever is not
listed is refused: a callback may keep or print what it is handed, a `custom_vmap` rule and a collective see all rows at
once, and so do the generators of random bits whose batches take the first row's key for all. An array that is closed
over and has as many rows as the table is taken for the table.

`trusted` is the way to say that such an operation is meant and sound; the certificate repeats why.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.extend import core
from jax.extend.core import primitives

from gossamer.base.trees import PyTree

_MARK = "trusted: "

_TOGETHER = {
    *("psum", "pmax", "pmin", "ppermute", "all_gather", "all_to_all", "ragged_all_to_all", "axis_index"),
    *("rng_bit_generator", "rng_uniform"),
    *("get", "swap", "create_token", "after_all", "call"),
}
"""JAX's own operations that see other rows, or state: collectives, generators with one key for all rows, references."""
_APART = {getattr(primitives, name).name for name in dir(primitives) if name.endswith("_p")} - _TOGETHER
_APART |= {
    *("pjit", "core_call", "checkpoint", "remat", "copy_p", "random_wrap", "random_unwrap", "mulhi"),
    *("optimization_barrier", "scatter-sub", "split", "stack", "unstack", "tile", "pvary", "reshard", "platform_index"),
}
_REMEDIES = {
    "callback": "Take jax.debug.print and callbacks out of the loss: what they are handed is not private.",
    "print": "Take jax.debug.print out of the loss: what it prints is not private.",
}


def trusted(function: Callable[..., Any], because: str) -> Callable[..., Any]:
    """Vouch for a function whose operations cannot be checked: a callback, a `custom_vmap` rule, a large constant.

    What it returns for a record must depend on that record and on public values alone. Nothing inside it is looked at,
    and the certificate says so, with the reason.

    Args:
      function: a loss, or any part of one.
      because: why it looks at one record alone, in a sentence for the certificate's reader.

    Example:
      >>> import gossamer as gs, jax.numpy as jnp
      >>> grid = jnp.linspace(0.0, 1.0, 100)  # as long as the table, and no part of it
      >>> loss = gs.trusted(lambda w, z: jnp.mean((z - w * grid) ** 2), because="the grid is a public constant")
    """
    if not (isinstance(because, str) and because.strip()):
        raise ValueError(f"because = {because!r} must be a sentence: it stands on the certificate.")

    name = _MARK + " ".join(because.split())

    @functools.wraps(function)
    def vouched(*arguments: Any) -> Any:
        arrays, others = eqx.partition(arguments, eqx.is_array_like)

        def program(arrays: Any) -> Any:
            return function(*eqx.combine(arrays, others))

        program.__name__ = name
        return jax.jit(program)(arrays)

    return vouched


def check(h: Callable[[PyTree], PyTree], record: PyTree, n: int | tuple[int, ...]) -> None:
    """Refuse a function of one record that may look at other records; `record` holds the shapes of one.

    `n` is how many rows the table has: several numbers, if it could be closed over in several forms.
    """
    for name in operations(jax.make_jaxpr(h)(record), n):
        raise ValueError(
            f"the loss {name}, and whether each record's value then depends on that record alone cannot be seen. "
            + next((text for word, text in _REMEDIES.items() if word in name), "Write it with other operations.")
            + " If it is meant, and sound, say why: gs.trusted(loss, because='...')."
        )


def reasons(function: Callable[..., Any], *arguments: PyTree) -> tuple[str, ...]:
    """Return why parts of a function are trusted, as `trusted` was told."""
    return tuple(dict.fromkeys(_reasons(jax.make_jaxpr(function)(*arguments).jaxpr)))


def calls_back(function: Callable[..., Any], *arguments: PyTree) -> bool:
    """Whether a function calls Python back while it runs, also where it is trusted: what Python does is not in it."""
    return _calls_back(jax.make_jaxpr(function)(*arguments).jaxpr)


def operations(closed: core.ClosedJaxpr, n: int | tuple[int, ...]) -> Iterator[str]:
    """Yield, in words, what a program of one record does that is not known to treat records apart."""
    for constant in closed.consts:
        yield from _table(constant, n)
    yield from _operations(closed.jaxpr, n)


def _operations(jaxpr: core.Jaxpr, n: int | tuple[int, ...]) -> Iterator[str]:
    for eqn in jaxpr.eqns:
        for atom in eqn.invars:
            if isinstance(atom, core.Literal):
                yield from _table(atom.val, n)
        if _mark(eqn) is not None:
            continue
        if eqn.primitive.name not in _APART or eqn.effects or _shares_keys(eqn):
            yield f"uses the operation {eqn.primitive.name!r}"
        for inner, constants in _inner(eqn):
            for constant in constants:
                yield from _table(constant, n)
            yield from _operations(inner, n)


def _reasons(jaxpr: core.Jaxpr) -> Iterator[str]:
    for eqn in jaxpr.eqns:
        if (why := _mark(eqn)) is not None:
            yield why
        for inner, _ in _inner(eqn):
            yield from _reasons(inner)


def _calls_back(jaxpr: core.Jaxpr) -> bool:
    return any(
        "callback" in eqn.primitive.name or any(_calls_back(inner) for inner, _ in _inner(eqn)) for eqn in jaxpr.eqns
    )


def _mark(eqn: core.JaxprEqn) -> str | None:
    """Return why an equation is trusted, or None: it is to be looked at."""
    name = eqn.params.get("name") if eqn.primitive.name in ("jit", "pjit") else None
    return name.removeprefix(_MARK) if isinstance(name, str) and name.startswith(_MARK) else None


def _shares_keys(eqn: core.JaxprEqn) -> bool:
    """Whether an equation draws random bits by a generator that batches by the first row's key."""
    return any("rbg" in str(value) for name, value in eqn.params.items() if name == "impl") or any(
        "rbg" in str(atom.aval.dtype) for atom in eqn.invars if hasattr(atom.aval, "dtype")
    )


def _inner(eqn: core.JaxprEqn) -> Iterator[tuple[core.Jaxpr, tuple[Any, ...]]]:
    """Yield the programs inside an equation, each with its constants."""
    for value in eqn.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, core.ClosedJaxpr):
                yield part.jaxpr, tuple(part.consts)
            elif isinstance(part, core.Jaxpr):
                yield part, ()


def _table(constant: Any, n: int | tuple[int, ...]) -> Iterator[str]:
    """Yield a complaint if a constant has as many rows as the table; what is being traced is an earlier answer."""
    sizes = n if isinstance(n, tuple) else (n,)
    if not isinstance(constant, jax.core.Tracer) and np.ndim(constant) > 0 and np.shape(constant)[0] in sizes:
        yield f"closes over an array of shape {np.shape(constant)}, which has as many rows as the table"
