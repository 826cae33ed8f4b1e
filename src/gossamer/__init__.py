"""Private training beyond DP-SGD.

Say what to minimise over a table of people's records, and a budget (ε, δ); get a model and a certificate that says
what was promised, what was asked of the data, and under which assumptions.
"""

from gossamer import audit, diagnostics, geometry, learn, methods, objectives
from gossamer.accounting import AccountingError
from gossamer.budget import Budget
from gossamer.certificate import Certificate
from gossamer.exceptions import DivergedError, OverspentError, PrivacyLeakWarning, WeakGuaranteeWarning
from gossamer.geometry import L1, L2, Box, ElasticNet, GroupLasso, L1Ball, L2Ball, Simplex
from gossamer.objectives import DRO, ERM, KL, BlackBox, ChiSquare, CressieRead, GroupDRO, KLCVaR, Minimax
from gossamer.oracle import Difference, Gradient, Joint, Value
from gossamer.oracle.clipping import clipped_difference, clipped_sum
from gossamer.oracle.clipping.ghost import explain_clipping
from gossamer.planning import Plan, plan
from gossamer.schedule import Query, Schedule
from gossamer.solving import Result, solve

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
    "methods",
    "objectives",
    "plan",
    "solve",
]
