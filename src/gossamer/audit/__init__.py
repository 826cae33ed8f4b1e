"""Whatever is claimed is attacked: replay, sensitivity, empirical ε, membership inference."""

from gossamer.audit.attacks import EmpiricalEpsilon, Replay, Sensitivity, empirical_epsilon, replay, sensitivity
from gossamer.audit.membership import MembershipInference, membership_inference

__all__ = [
    "EmpiricalEpsilon",
    "MembershipInference",
    "Replay",
    "Sensitivity",
    "empirical_epsilon",
    "membership_inference",
    "replay",
    "sensitivity",
]
