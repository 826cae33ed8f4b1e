"""One file per published algorithm."""

from gossamer.methods.accmd import AccMD
from gossamer.methods.base import Method
from gossamer.methods.gd import GD
from gossamer.methods.perturbation import objective_perturbation, output_perturbation
from gossamer.methods.private_diff import PrivateDiff
from gossamer.methods.sgd import SGD
from gossamer.methods.sgda import SGDA
from gossamer.methods.spider import Spider
from gossamer.methods.svrg import SVRG
from gossamer.methods.svrgpp import SVRGpp

ALL: tuple[type[Method], ...] = (GD, SGD, SVRG, SVRGpp, AccMD, Spider, SGDA, PrivateDiff)

__all__ = [
    "ALL",
    "GD",
    "SGD",
    "SGDA",
    "SVRG",
    "AccMD",
    "Method",
    "PrivateDiff",
    "SVRGpp",
    "Spider",
    "objective_perturbation",
    "output_perturbation",
]
