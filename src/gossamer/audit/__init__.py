"""Whatever is claimed is attacked: replay, sensitivity, empirical ε, membership inference; all on one method."""

from gossamer.audit.attacks import EmpiricalEpsilon, Replay, Sensitivity, empirical_epsilon, replay, sensitivity
from gossamer.audit.conformance import Check, Conformance, Target, conformance
from gossamer.audit.membership import MembershipInference, membership_inference

__all__ = [
    "Check",
    "Conformance",
    "EmpiricalEpsilon",
    "MembershipInference",
    "Replay",
    "Sensitivity",
    "Target",
    "conformance",
    "empirical_epsilon",
    "membership_inference",
    "replay",
    "sensitivity",
]
