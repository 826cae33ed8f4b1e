"""What is promised: a privacy budget (ε, δ) and what it means for two tables to be neighbours."""

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gossamer.base.messages import is_number, plain, shown

Neighbors = Literal["replace_one", "add_remove"]


@dataclass(frozen=True)
class Budget:
    """An (ε, δ) budget of differential privacy.

    A randomised algorithm M keeps it when P(M(D) ∈ S) ≤ e^ε P(M(D') ∈ S) + δ for every set S of outputs
    and all neighbouring tables D, D'.

    Args:
      epsilon: ε > 0. `math.inf` switches the noise off: no privacy, and the certificate says so.
      delta: δ in (0, 1); Gaussian noise cannot give δ = 0. Choose it well below 1/n.
      neighbors: "replace_one" (default): D' has one record of D replaced by any other. "add_remove": D' has
        one record more or less. Replacing is removing and adding, so at equal ε it promises more.

    Example:
      >>> Budget(epsilon=1.0, delta=1e-6)
      Budget(epsilon=1.0, delta=1e-06, neighbors='replace_one')
    """

    epsilon: float
    delta: float
    neighbors: Neighbors = "replace_one"

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta"):
            value = plain(getattr(self, name))
            object.__setattr__(self, name, float(value) if is_number(value) else value)
        if not (is_number(self.epsilon) and self.epsilon > 0):
            raise ValueError(
                f"epsilon = {shown(self.epsilon)} must be a number above 0. Typical values are 0.1 to 10; "
                "math.inf trains without privacy."
            )
        if not (is_number(self.delta) and 0 < self.delta < 1):
            raise ValueError(
                f"delta = {shown(self.delta)} must be strictly between 0 and 1 (Gaussian noise cannot give delta = 0). "
                "Choose it well below 1/n, for instance n ** -1.1."
            )
        if self.neighbors not in get_args(Neighbors):
            raise ValueError(
                f"neighbors = {shown(self.neighbors)} must be one of {', '.join(map(repr, get_args(Neighbors)))}."
            )

    @property
    def is_private(self) -> bool:
        """Whether ε is finite."""
        return math.isfinite(self.epsilon)


def check_budget(budget: Any) -> None:
    """Refuse what is no budget."""
    if not isinstance(budget, Budget):
        raise TypeError(f"budget = {shown(budget)} must be a gs.Budget(epsilon, delta).")
