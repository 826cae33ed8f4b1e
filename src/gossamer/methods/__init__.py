"""One file per published algorithm, and what the author of another one needs: `Method`, `Report`, `fields`."""

from gossamer.methods import fields
from gossamer.methods.accmd import AccMD
from gossamer.methods.base import Method, Report, declare, rate_at, sampling_rate
from gossamer.methods.double_spider import DoubleSpider
from gossamer.methods.gd import GD
from gossamer.methods.o2nc import O2NC
from gossamer.methods.perturbation import objective_perturbation, output_perturbation
from gossamer.methods.private_diff import PrivateDiff
from gossamer.methods.recursive_spider import RecursiveSpider
from gossamer.methods.rgda import RGDA
from gossamer.methods.sgd import SGD
from gossamer.methods.sgda import SGDA
from gossamer.methods.spider import Spider
from gossamer.methods.sto_spider import AdaSpider, StoSpider
from gossamer.methods.svrg import SVRG
from gossamer.methods.svrgpp import SVRGpp
from gossamer.methods.whitened import Whitened

ALL: tuple[type[Method], ...] = (
    *(GD, SGD, SVRG, SVRGpp, AccMD, Spider, StoSpider, AdaSpider, Whitened),
    *(SGDA, PrivateDiff, RGDA),
    *(DoubleSpider, RecursiveSpider),
    O2NC,
)

__all__ = [
    "ALL",
    "GD",
    "O2NC",
    "RGDA",
    "SGD",
    "SGDA",
    "SVRG",
    "AccMD",
    "AdaSpider",
    "DoubleSpider",
    "Method",
    "PrivateDiff",
    "RecursiveSpider",
    "Report",
    "SVRGpp",
    "Spider",
    "StoSpider",
    "Whitened",
    "declare",
    "fields",
    "objective_perturbation",
    "output_perturbation",
    "rate_at",
    "sampling_rate",
]
