"""What to minimise."""

from gossamer.objectives.auc import auc, auc_init, positive_share
from gossamer.objectives.black_box import BlackBox
from gossamer.objectives.divergences import KL, ChiSquare, CressieRead, Divergence, KLCVaR, WorstCase
from gossamer.objectives.dro import DRO
from gossamer.objectives.erm import ERM, huber, logistic, smoothed_hinge, softmax, squared
from gossamer.objectives.group_dro import GroupDRO, group_shares
from gossamer.objectives.minimax import Minimax
from gossamer.objectives.saddles import quartic, quartic_value, tensor, tensor_value
from gossamer.objectives.sensing import sensing, sensing_game
from gossamer.objectives.td import td
from gossamer.objectives.wgan import wgan

__all__ = [
    "DRO",
    "ERM",
    "KL",
    "BlackBox",
    "ChiSquare",
    "CressieRead",
    "Divergence",
    "GroupDRO",
    "KLCVaR",
    "Minimax",
    "WorstCase",
    "auc",
    "auc_init",
    "group_shares",
    "huber",
    "logistic",
    "positive_share",
    "quartic",
    "quartic_value",
    "sensing",
    "sensing_game",
    "smoothed_hinge",
    "softmax",
    "squared",
    "td",
    "tensor",
    "tensor_value",
    "wgan",
]
