"""Set up for all tests.

LLVM's optimisations are off: the programs here are small and run briefly, so that compiling them is most of their cost.
XLA's own passes are not touched, nor is what users run. The processor plays eight devices for tests of sharding.
"""

import os
import sys

import pytest

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_force_host_platform_device_count=8")


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Let go of a module's compiled programs: thousands would use up the mappings that a process may have."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
