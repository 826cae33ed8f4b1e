"""The facts of a certificate that are neither numbers nor a schedule. `wording` writes sentences from them."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from gossamer.base.messages import is_number, is_whole
from gossamer.privacy.budget import Budget

UnitName = Literal["row", "person"]
IdRule = Literal["normalised", "normalised, missing ones apart"]
"""How ids are read: without spaces, case and the form of a number; rows without one are refused, or each a person."""
Covers = Literal["bits", "reals"]
"""What the promise is about: the bits that are released, or the real numbers that they stand for."""


@dataclass(frozen=True)
class Unit:
    """Whose data two neighbouring tables differ in: the unit that the guarantee protects.

    Args:
      name: "row", or "person": all rows with one id.
      column: of persons, the column of ids, if it has a name.
      ids: of persons, how ids are read.
      rows: of persons, how many rows of each count at most: the first ones in the table.
    """

    name: UnitName
    column: str | None = None
    ids: IdRule | None = None
    rows: int | None = None

    def __post_init__(self) -> None:
        if self.name not in get_args(UnitName):
            raise ValueError(f"the unit of privacy must be one of {', '.join(get_args(UnitName))}.")
        if self.name == "row" and not (self.column is self.ids is self.rows is None):
            raise ValueError("a unit of privacy that is a row has no ids.")
        if self.name == "person":
            if self.ids not in get_args(IdRule) or not is_whole(self.rows):
                raise ValueError(
                    "a unit of privacy that is a person must say how ids are read, and how many rows count."
                )
            if not (self.column is None or isinstance(self.column, str)):
                raise TypeError("the column of ids must be a text.")

    def __str__(self) -> str:
        return self.name

    @property
    def scope(self) -> str:
        """Whom it protects, in a word that another unit does not have: how many rows count does not matter for that."""
        return scope(self.column, self.ids)


def scope(column: str | None, ids: IdRule | None) -> str:
    """Return whom a unit of privacy protects: a row, or whoever has an id, by the column and by how ids are read."""
    return "row" if ids is None else f"person, {ids} ids{'' if column is None else f' of column {column!r}'}"


def scope_of(person: str | None) -> str:
    """Return whom runs protect that read ids of a column as the command line does; None: rows."""
    return scope(person, None if person is None else "normalised")


@dataclass(frozen=True)
class Bought:
    """A private answer besides the training, with a share of the budget.

    Args:
      name: what was bought.
      queries: the names of its queries in the certificate's schedule, which has their noise multipliers.
      share: the part of Σ c q²/σ² of the schedule; of what Gossamer 0.1 bought, the part of ε and of δ.
      after: whether it was asked after the training, about its result, and not before, to set it up.
      apart: ε and δ of a run of its own, which Gossamer 0.1 added to those of the training; None: one schedule.
    """

    name: str
    queries: tuple[str, ...]
    share: float
    after: bool = False
    apart: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if not (self.queries and all(isinstance(text, str) for text in (self.name, *self.queries))):
            raise TypeError("the name of a purchase and those of its queries must be texts.")
        if type(self.after) is not bool or not (is_number(self.share) and 0 < self.share < 1):
            raise ValueError("the share of a purchase must be a number between 0 and 1, and after true or false.")
        if self.apart is not None:
            Budget(*self.apart)


@dataclass(frozen=True)
class LossBounds:
    """What a perturbed minimiser's guarantee rests on: a loss that is convex in the score, and public bounds.

    Args:
      row_norm: rows are shortened to this norm.
      lipschitz: the slope of the loss is cut at this value.
      curvature: a bound on the second derivative, where the guarantee needs one.
    """

    row_norm: float
    lipschitz: float
    curvature: float | None = None

    def __post_init__(self) -> None:
        bounds = [self.row_norm, self.lipschitz, *([] if self.curvature is None else [self.curvature])]
        if not all(is_number(bound) and 0 < bound < math.inf for bound in bounds):
            raise ValueError("row_norm, lipschitz and curvature must be finite numbers above 0.")
