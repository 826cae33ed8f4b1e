"""The door: sampling, per-record clipping, noise. Records are read in this package and nowhere else."""

from gossamer.oracle.ask import Ask, Ledger
from gossamer.oracle.door import Door, Oracle, Secrets
from gossamer.oracle.queries import Difference, Gradient, Joint, Nonnegative, OuterProducts, SecondMoments, Value

__all__ = [
    "Ask",
    "Difference",
    "Door",
    "Gradient",
    "Joint",
    "Ledger",
    "Nonnegative",
    "Oracle",
    "OuterProducts",
    "SecondMoments",
    "Secrets",
    "Value",
]
