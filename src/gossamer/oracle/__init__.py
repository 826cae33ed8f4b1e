"""The door: sampling, per-record clipping, noise. Records are read in this package and nowhere else."""

from gossamer.oracle.door import Ask, Door, Ledger, Oracle, Secrets
from gossamer.oracle.queries import Difference, Gradient, Joint, Value

__all__ = ["Ask", "Difference", "Door", "Gradient", "Joint", "Ledger", "Oracle", "Secrets", "Value"]
