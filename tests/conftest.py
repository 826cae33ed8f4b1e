"""Set up for all tests.

Every test is in one of three rings, by its marker:

* none: `make quick` runs it, and so does `make test`;
* `slow`: `make test` runs it;
* `deep`: only `make deep` runs it.

LLVM's optimisations and XLA's new emitters of fused loops are off: the programs here are small and run briefly, so that
compiling them is most of their cost. XLA's other passes are not touched. But optimised programs round differently, and
users run those: `make deep` runs the tests marked `hostile` again, with XLA_FLAGS that leave everything on.
The processor plays eight devices for tests of sharding.
"""

import os
import sys
from pathlib import Path

import pytest

FLAGS = (
    "--xla_backend_optimization_level=0",
    "--xla_cpu_use_fusion_emitters=false",
    "--xla_force_host_platform_device_count=8",
)
os.environ.setdefault("XLA_FLAGS", " ".join(FLAGS))


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Let go of compiled programs once they take up a good part of the mappings that a process may have, 65 530."""
    yield
    maps = Path("/proc/self/maps")
    if "jax" in sys.modules and maps.exists() and maps.read_bytes().count(b"\n") > 20_000:
        sys.modules["jax"].clear_caches()
