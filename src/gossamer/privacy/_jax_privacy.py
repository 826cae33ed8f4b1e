"""All that we use of jax-privacy, whose interfaces move: pinned in pyproject.toml and imported here alone."""

from jax_privacy.auditing import CanaryScoreAuditor, Split
from jax_privacy.matrix_factorization.toeplitz import optimal_max_error_strategy_coefs as square_root_coefficients

__all__ = ["CanaryScoreAuditor", "Split", "square_root_coefficients"]
