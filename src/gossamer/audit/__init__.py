"""Whatever is claimed is attacked: replay, sensitivity, empirical ε."""

from gossamer.audit.attacks import EmpiricalEpsilon, Replay, Sensitivity, empirical_epsilon, replay, sensitivity

__all__ = ["EmpiricalEpsilon", "Replay", "Sensitivity", "empirical_epsilon", "replay", "sensitivity"]
