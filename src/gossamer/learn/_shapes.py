"""Columns of a table as public bases: what an additive model is linear in, and the functions that come of it.

A number becomes its share t ∈ [0, 1] of the way between its bounds, and then 2t − 1, cos(2πt)/2, …, cos(Kπt)/K, divided
by the norm that these have at most. The 1/k is a prior for smoothness: with data enough K hardly matters. An amount,
which is mostly 0, becomes [v > 0] and the same of log(1 + v)/log(1 + high) where it is positive. A category becomes
one-hot, without a reference level. A missing value is all zero; a column that has `gaps` has one more part, 1 where its
value is missing. The row of m such blocks is divided by √m: its norm is at most √2.

Where a column is crowded the basis is coarse. A private histogram of its shares (`counting.histogram`) straightens it:
t is replaced by ½(t + F(t)), F the distribution function: half as it is, half by rank.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.tables.kinds import ABSENT, Amount, Category, Number

Kind = Number | Amount | Category
MOST_TERMS = 8
_PER_TERM = 50
"""Records, counted by n·μ, that each further function of a number needs."""
_GRID = 128


def suited_terms(n: int, mu: float, numbers: int) -> int:
    """Return how many functions a number gets: by the public numbers n and μ, halved for replaced records."""
    if math.isinf(mu):
        return MOST_TERMS
    return int(np.clip(1 + n * mu / (_PER_TERM * max(numbers, 1)), 1, MOST_TERMS))


@dataclass(frozen=True)
class Expansion:
    """The row of a record, from shares of numbers and codes of categories; hashable, so that runs compile once.

    Args:
      kinds: what each column is.
      terms: K.
      gaps: the places of columns of which missing values are told apart.
    """

    kinds: tuple[Kind, ...]
    terms: int
    gaps: tuple[int, ...] = ()

    @property
    def smooth(self) -> list[int]:
        """The places of numbers and amounts."""
        return [place for place, kind in enumerate(self.kinds) if not isinstance(kind, Category)]

    @property
    def amounts(self) -> list[int]:
        """The places of amounts."""
        return [place for place, kind in enumerate(self.kinds) if isinstance(kind, Amount)]

    @property
    def levels(self) -> list[tuple[int, int]]:
        """The place and the code of every category's every value."""
        kinds = enumerate(self.kinds)
        return [(place, code) for place, kind in kinds if isinstance(kind, Category) for code in range(kind.width)]

    @property
    def width(self) -> int:
        """The number of columns of the row."""
        return len(self.smooth) * self.terms + len(self.amounts) + len(self.levels) + len(self.gaps)

    def __call__(self, x: jax.Array) -> jax.Array:
        """Return the row of one record."""
        # Column by column: an array of places might be as long as the table, and would be taken for it.
        parts = []
        if self.smooth:
            t = jnp.stack([x[place] for place in self.smooth])
            parts.append((basis(jnp.maximum(t, 0.0), self.terms, jnp) * (t >= 0)[:, None]).ravel())
        parts += [(x[place] >= 0)[None] for place in self.amounts]
        widths = [(place, kind.width) for place, kind in enumerate(self.kinds) if isinstance(kind, Category)]
        parts += [x[place] == jnp.arange(width) for place, width in widths]
        parts += [(x[place] == ABSENT)[None] for place in self.gaps]
        return jnp.concatenate([part.astype(jnp.float32) for part in parts]) / math.sqrt(len(self.kinds))

    def encode(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Return shares and codes of a table's columns: an amount of 0 is −1, a value that is in no list as well."""
        out = np.empty((len(columns[0]), len(columns)), np.float32)
        for place, (kind, values) in enumerate(zip(self.kinds, columns, strict=True)):
            out[:, place] = kind.code(values)
        return out

    def functions(self, weights: np.ndarray, warps: "Warps") -> list["Shape"]:
        """Return each column's function from the weights of the row."""
        weights = weights.reshape(self.width, -1) / math.sqrt(len(self.kinds))
        smooth = weights[: len(self.smooth) * self.terms].reshape(len(self.smooth), self.terms, -1)
        flags = weights[len(self.smooth) * self.terms :][: len(self.amounts)]
        levels = weights[len(self.smooth) * self.terms + len(self.amounts) :][: len(self.levels)]
        owners = np.array([place for place, _ in self.levels], int)
        missing = np.zeros((len(self.kinds), weights.shape[1]))
        missing[list(self.gaps)] = weights[self.width - len(self.gaps) :]
        shapes = []
        for place, kind in enumerate(self.kinds):
            if isinstance(kind, Category):
                # A value that is in no list is all zero.
                grid, values = np.arange(-1.0, kind.width), np.pad(levels[owners == place], ((1, 0), (0, 0)))
                shapes.append(Shape(kind, grid, values, missing[place]))
                continue
            of = self.smooth.index(place)
            grid, warped = warps.grid(of)
            values = basis(warped, self.terms, np) @ smooth[of]
            if isinstance(kind, Amount):
                values = values + flags[self.amounts.index(place)]
                grid, values = np.concatenate([[-1.0], grid]), np.concatenate([0 * values[:1], values])
            shapes.append(Shape(kind, grid, values, missing[place]))
        return shapes


@dataclass(frozen=True)
class Warps:
    """How shares of numbers are straightened: the value of ½(t + F(t)) at evenly spaced t, a row for each number."""

    at_knots: np.ndarray

    @classmethod
    def none(cls, numbers: int) -> "Warps":
        """Return what leaves shares as they are."""
        return cls(np.tile([0.0, 1.0], (numbers, 1)))

    @classmethod
    def of(cls, shares: np.ndarray, deviation: float) -> "Warps":
        """Return what straightens by noisy shares of bins; those that the noise may have made count as nobody."""
        kept = np.where(shares > deviation, shares, 0.0) + 1e-9
        rank = np.cumsum(kept / kept.sum(axis=1, keepdims=True), axis=1)
        even = np.linspace(0.0, 1.0, shares.shape[1] + 1)
        return cls(0.5 * (even + np.pad(rank, ((0, 0), (1, 0)))))

    def __call__(self, x: np.ndarray, places: Sequence[int]) -> np.ndarray:
        """Return encoded records with the columns at these places straightened; what is absent stays so."""
        x = x.copy()
        for warp, place in zip(self.at_knots, places, strict=True):
            t = x[:, place]
            x[:, place] = np.where(t >= 0, np.interp(t, np.linspace(0, 1, len(warp)), warp), t)
        return x

    def grid(self, of: int) -> tuple[np.ndarray, np.ndarray]:
        """Return shares that show a function of one number well, and what they are straightened to."""
        warp = self.at_knots[of]
        even = np.linspace(0, 1, len(warp))
        grid = np.union1d(even, np.interp(np.linspace(0, 1, _GRID + 1), warp, even))
        return grid, np.interp(grid, even, warp)


@dataclass(frozen=True)
class Shape:
    """The function of one column: values at codes, with a column for each output; between them, lines."""

    kind: Kind
    grid: np.ndarray
    """Rising. No code lies between −1 and 0, and ABSENT lies before all."""
    values: np.ndarray
    missing: np.ndarray
    """What a missing value adds."""

    def __call__(self, codes: np.ndarray) -> np.ndarray:
        """Return the function of encoded values."""
        outputs = zip(self.values.T, self.missing, strict=True)
        return np.stack([np.interp(codes, self.grid, column, left=absent) for column, absent in outputs], axis=1)

    def points(self) -> np.ndarray:
        """Return the grid in the column's own units."""
        if isinstance(self.kind, Category):
            return np.array(["(other)", *self.kind.values], object)
        return self.units(self.grid)

    def units(self, codes: np.ndarray) -> np.ndarray:
        """Return what codes of a number or of an amount stand for."""
        assert not isinstance(self.kind, Category)
        if isinstance(self.kind, Amount):
            return np.where(codes < 0, 0.0, np.expm1(np.maximum(codes, 0) * math.log1p(self.kind.high)))
        return self.kind.low + codes * (self.kind.high - self.kind.low)


def basis(t, terms, xp):
    """Return (2t − 1, cos(2πt)/2, …, cos(Kπt)/K) of each share, of norm at most 1; with NumPy or JAX, as `xp` says."""
    k = xp.arange(2, terms + 1)
    functions = [(2 * t - 1)[:, None], xp.cos(math.pi * k * t[:, None]) / k]
    return xp.concatenate(functions, axis=1) / math.sqrt(sum(j**-2 for j in range(1, terms + 1)))
