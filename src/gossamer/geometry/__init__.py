"""Geometry of the parameter space: projections, proximal operators and mirror maps.

Everything here is post-processing of private answers: no record passes through it. A pytree of float arrays is one
flat vector; every object is a frozen, hashable configuration whose methods can be jitted and vmapped.

* `constraints`: sets with `project` and `contains`.
* `regularizers`: penalties with `value` and `prox`.
* `composite`: `prox(regularizer, constraint, tree, step)` for both at once, and `check` to refuse a pair early.
* `mirror`: potentials with `gradient`, `inverse` and `divergence`.
* `descent`: the exact steps of accelerated mirror descent on a ball or the simplex.
"""

from gossamer.geometry.composite import check, prox
from gossamer.geometry.constraints import Box, Constraint, L1Ball, L2Ball, Simplex
from gossamer.geometry.descent import mirror_descent, steepest_descent
from gossamer.geometry.mirror import Entropy, Euclidean, MirrorMap, PNorm
from gossamer.geometry.regularizers import L1, L2, ElasticNet, GroupLasso, Regularizer, Zero

__all__ = [
    "L1",
    "L2",
    "Box",
    "Constraint",
    "ElasticNet",
    "Entropy",
    "Euclidean",
    "GroupLasso",
    "L1Ball",
    "L2Ball",
    "MirrorMap",
    "PNorm",
    "Regularizer",
    "Simplex",
    "Zero",
    "check",
    "mirror_descent",
    "prox",
    "steepest_descent",
]
