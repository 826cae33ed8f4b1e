from .selection import select
from .trials import Trials, fixed, negative_binomial, poisson

__all__ = ["Trials", "fixed", "negative_binomial", "poisson", "select"]
