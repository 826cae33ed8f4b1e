"""What a run returns."""

from dataclasses import dataclass, field

import numpy as np

from gossamer.base.trees import PyTree
from gossamer.privacy.certificate import Certificate


@dataclass(frozen=True)
class Result:
    """What a run returns."""

    params: PyTree
    """The private output."""
    certificate: Certificate
    history: dict[str, np.ndarray]
    """Public values, one per step."""
    diagnostics: dict[str, np.ndarray] = field(default_factory=dict)
    """Non-private values, if they were asked for."""
