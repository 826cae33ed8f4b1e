"""Leaving saddle points: where the gradient is small x is perturbed, and followed for a while.

    DESCENDING ── a small gradient ──▶ ESCAPING ── it got away ──▶ DESCENDING
                                          └─────── it did not, in so many steps ──▶ FINISHED: the anchor is the answer

All of it computes with private answers. The random bits of a perturbation are those of the private estimate at which it
starts, which hold the noise of its answers; in a run without noise the perturbation is a fixed one.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from gossamer.base import trees
from gossamer.base.trees import PyTree
from gossamer.methods.base import Report
from gossamer.oracle import Ask

DESCENDING, ESCAPING, FINISHED = range(3)
_PERTURBATION_STREAM = 0x5ADD1E
S = TypeVar("S")


class Escape(NamedTuple):
    """Where an escape stands."""

    anchor: PyTree
    """The point at which the last one began."""
    phase: jax.Array
    since: jax.Array
    """Steps since then."""

    @classmethod
    def none(cls, start: PyTree) -> "Escape":
        """Return that of a run which descends."""
        return cls(start, jnp.int32(DESCENDING), jnp.int32(0))

    @property
    def descending(self) -> jax.Array:
        """Whether none is going on."""
        return self.phase == DESCENDING

    @property
    def escaping(self) -> jax.Array:
        """Whether one is going on."""
        return self.phase == ESCAPING

    def after(self, begins: jax.Array, goes_on: jax.Array, at: PyTree, longest: int, then: int = FINISHED) -> "Escape":
        """Return where it stands after a step from `at` in which one began, or went on without success.

        After `longest` steps without success the phase is `then`.
        """
        since = jnp.where(begins, 0, self.since + 1)
        phase = jnp.where(begins | goes_on, ESCAPING, DESCENDING)
        phase = jnp.where(goes_on & (since >= longest), then, phase)
        return Escape(trees.select(begins, at, self.anchor), phase.astype(jnp.int32), since)

    def answer(self, now: PyTree) -> PyTree:
        """Return where the run is, or during and after an escape where that began."""
        return trees.select(self.descending, now, self.anchor)

    def unless_finished(self, ask: Ask, state: S, step: Callable[[Ask], tuple[S, Report]]) -> tuple[S, Report]:
        """Make a step, unless the answer is known: then nothing is asked, and the gradient is NaN."""

        def idle(ask: Ask) -> tuple[S, Report]:
            return state, Report(self.anchor, jnp.float32(jnp.nan))

        return ask.cond(self.phase == FINISHED, idle, step)


def ball(radius: float, estimate: PyTree, t: jax.Array) -> PyTree:
    """Draw uniformly from a ball in the space of a private estimate, with that estimate's own bits for a key."""
    flat, unravel = ravel_pytree(estimate)
    bits = jax.lax.bitcast_convert_type(flat.astype(jnp.float32), jnp.uint32)
    # Odd multipliers, so that every bit of every coordinate counts.
    checksum = jnp.sum(bits * (2 * jnp.arange(flat.size, dtype=jnp.uint32) + 1), dtype=jnp.uint32)
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(_PERTURBATION_STREAM), t), checksum)
    direction, length = jax.random.split(key)
    normal = jax.random.normal(direction, flat.shape)
    size = radius * jax.random.uniform(length) ** (1 / flat.size)
    return unravel((size * normal / jnp.linalg.norm(normal)).astype(flat.dtype))
