"""Set up for all tests.

LLVM's optimisations are off: the programs here are small and run briefly, so that compiling them is most of their cost.
XLA's own passes are not touched, and neither is what users run. Programs are kept on disk, so that two workers, or a
process that a test starts, do not compile the same one twice. The processor plays eight devices, for tests of sharding.
"""

import os
from pathlib import Path

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_force_host_platform_device_count=8")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
