"""What to minimise."""

from gossamer.objectives.erm import ERM, logistic, softmax

__all__ = ["ERM", "logistic", "softmax"]
