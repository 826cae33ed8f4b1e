from . import audit, diagnostics, geometry, learn, methods, objectives
from .accounting import AccountingError
from .budget import Budget
from .certificate import Certificate
from .checkpoints import Checkpoints
from .exceptions import DivergedError, LostProcessError, OverspentError, PrivacyLeakWarning, WeakGuaranteeWarning
from .geometry import L1, L2, Box, ElasticNet, GroupLasso, L1Ball, L2Ball, Simplex
from .objectives import DRO, ERM, KL, BlackBox, ChiSquare, CressieRead, GroupDRO, KLCVaR, Minimax
from .oracle import Difference, Gradient, Joint, Value
from .oracle.clipping import clipped_difference, clipped_sum
from .oracle.clipping.ghost import explain_clipping
from .oracle.shards import local_rows
from .planning import Plan, plan
from .schedule import Query, Schedule
from .solving import Result, solve

__all__ = [
    "DRO",
    "ERM",
    "KL",
    "L1",
    "L2",
    "AccountingError",
    "BlackBox",
    "Box",
    "Budget",
    "Certificate",
    "Checkpoints",
    "ChiSquare",
    "CressieRead",
    "Difference",
    "DivergedError",
    "ElasticNet",
    "Gradient",
    "GroupDRO",
    "GroupLasso",
    "Joint",
    "KLCVaR",
    "L1Ball",
    "L2Ball",
    "LostProcessError",
    "Minimax",
    "OverspentError",
    "Plan",
    "PrivacyLeakWarning",
    "Query",
    "Result",
    "Schedule",
    "Simplex",
    "Value",
    "WeakGuaranteeWarning",
    "audit",
    "clipped_difference",
    "clipped_sum",
    "diagnostics",
    "explain_clipping",
    "geometry",
    "learn",
    "local_rows",
    "methods",
    "objectives",
    "plan",
    "solve",
]
