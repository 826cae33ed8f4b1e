"""What to minimise."""

from gossamer.objectives.auc import auc, auc_init, positive_share
from gossamer.objectives.erm import ERM, huber, logistic, smoothed_hinge, softmax, squared
from gossamer.objectives.minimax import Minimax
from gossamer.objectives.td import td
from gossamer.objectives.wgan import wgan

__all__ = [
    "ERM",
    "Minimax",
    "auc",
    "auc_init",
    "huber",
    "logistic",
    "positive_share",
    "smoothed_hinge",
    "softmax",
    "squared",
    "td",
    "wgan",
]
