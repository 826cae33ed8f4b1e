"""One file per published algorithm."""

from gossamer.methods.base import Method
from gossamer.methods.gd import GD
from gossamer.methods.sgd import SGD

ALL: tuple[type[Method], ...] = (GD, SGD)

__all__ = ["ALL", "GD", "SGD", "Method"]
