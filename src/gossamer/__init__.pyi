from . import audit, geometry, learn, methods, objectives, privacy
from .base.exceptions import (
    AccountingError,
    DivergedError,
    LostProcessError,
    OverspentError,
    PrivacyLeakWarning,
    WeakGuaranteeWarning,
)
from .engine import diagnostics
from .engine.checkpoints import Checkpoints
from .engine.solving import Result, solve
from .geometry import L1, L2, Box, ElasticNet, GroupLasso, L1Ball, L2Ball, Simplex
from .objectives import DRO, ERM, KL, BlackBox, ChiSquare, CressieRead, GroupDRO, KLCVaR, Minimax
from .oracle import Difference, Gradient, Joint, Value
from .oracle.clipping import clipped_difference, clipped_sum
from .oracle.clipping.ghost import explain_clipping
from .oracle.locality import trusted
from .oracle.people import by_person
from .oracle.shards import local_rows
from .privacy.budget import Budget
from .privacy.budget_file import BudgetFile
from .privacy.certificate import Certificate
from .privacy.composition import compose
from .privacy.planning import Plan, plan
from .privacy.sampling import All, Blocks, Poisson
from .privacy.schedule import Query, Schedule
from .runs.bundling import bundle

__version__: str

__all__ = [
    "DRO",
    "ERM",
    "KL",
    "L1",
    "L2",
    "AccountingError",
    "All",
    "BlackBox",
    "Blocks",
    "Box",
    "Budget",
    "BudgetFile",
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
    "Poisson",
    "PrivacyLeakWarning",
    "Query",
    "Result",
    "Schedule",
    "Simplex",
    "Value",
    "WeakGuaranteeWarning",
    "audit",
    "bundle",
    "by_person",
    "clipped_difference",
    "clipped_sum",
    "compose",
    "diagnostics",
    "explain_clipping",
    "geometry",
    "learn",
    "local_rows",
    "methods",
    "objectives",
    "plan",
    "privacy",
    "solve",
    "trusted",
]
