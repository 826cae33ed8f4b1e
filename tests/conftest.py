"""Set up for all tests.

LLVM's optimisations are off: the programs here are small and run briefly, so that compiling them is most of their cost.
XLA's own passes are not touched, and neither is what users run.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_force_host_platform_device_count=8")
