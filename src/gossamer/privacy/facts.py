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


@dataclass(frozen=True)
class Bought:
    """A private answer that was bought before the training, with a part of the budget.

    Args:
      name: the name of its query in the certificate's schedule, which has its noise multiplier.
      epsilon: the part of ε that was set aside for it.
      delta: the part of δ.
    """

    name: str
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError("the name of a purchase must be a text.")
        Budget(self.epsilon, self.delta)


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
