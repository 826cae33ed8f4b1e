"""All that we use of jax-privacy, whose interfaces move: pinned in pyproject.toml and imported here alone."""

from jax_privacy.auditing import CanaryScoreAuditor, Split

__all__ = ["CanaryScoreAuditor", "Split"]
