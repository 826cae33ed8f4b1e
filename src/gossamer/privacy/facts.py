"""The facts of a certificate that are neither numbers nor a schedule. `wording` writes sentences from them."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from gossamer.base.messages import is_number
from gossamer.privacy.budget import Budget

UnitName = Literal["row"]
Covers = Literal["bits", "reals"]
"""What the promise is about: the bits that are released, or the real numbers that they stand for."""


@dataclass(frozen=True)
class Unit:
    """Whose data two neighbouring tables differ in: the unit that the guarantee protects."""

    name: UnitName

    def __post_init__(self) -> None:
        if self.name not in get_args(UnitName):
            raise ValueError(f"the unit of privacy must be one of {', '.join(get_args(UnitName))}.")

    def __str__(self) -> str:
        return self.name


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
