"""Whatever is claimed is attacked: replay, sensitivity, empirical ε, membership inference; all on one method."""

from gossamer.audit.attacks import EmpiricalEpsilon, Replay, Sensitivity, empirical_epsilon, replay, sensitivity
from gossamer.audit.conformance import Check, Conformance, Target, conformance
from gossamer.audit.membership import MembershipInference, membership_inference
from gossamer.audit.one_run import OneRun, one_run, one_run_bound

__all__ = [
    "Check",
    "Conformance",
    "EmpiricalEpsilon",
    "MembershipInference",
    "OneRun",
    "Replay",
    "Sensitivity",
    "Target",
    "conformance",
    "empirical_epsilon",
    "membership_inference",
    "one_run",
    "one_run_bound",
    "replay",
    "sensitivity",
]
