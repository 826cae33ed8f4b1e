"""What to minimise."""

from typing import TYPE_CHECKING, Any

from gossamer.objectives.auc import auc, auc_init
from gossamer.objectives.black_box import BlackBox
from gossamer.objectives.divergences import KL, ChiSquare, CressieRead, Divergence, KLCVaR, WorstCase
from gossamer.objectives.dro import DRO
from gossamer.objectives.erm import ERM, huber, logistic, smoothed_hinge, softmax, squared
from gossamer.objectives.group_dro import GroupDRO
from gossamer.objectives.minimax import Minimax
from gossamer.objectives.problem import Problem
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
    "Problem",
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

if TYPE_CHECKING:
    from gossamer.engine.shares import group_shares, positive_share
else:

    def __getattr__(name: str) -> Any:
        """Offer what buys the shares that problems need: it solves one, so that it lives above this room."""
        if name not in ("group_shares", "positive_share"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from gossamer.engine import shares

        return getattr(shares, name)
