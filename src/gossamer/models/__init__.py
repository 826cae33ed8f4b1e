"""What estimators and experiments train: pure functions over plain pytrees, and public starting points."""

from gossamer.models.mlp import MLP, CrossEntropy, init_mlp

__all__ = ["MLP", "CrossEntropy", "init_mlp"]
