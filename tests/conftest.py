"""Set up for all tests.

Every test is in one of three rings, by its marker:

* none: `make quick` runs it, and so does `make test`;
* `slow`: `make test` runs it;
* `deep`: only `make deep` runs it.

LLVM's optimisations are off: the programs here are small and run briefly, so that compiling them is most of their cost.
XLA's own passes are not touched. But optimisations round differently, and users' programs have them: `make deep` runs
the tests marked `hostile` again, with XLA_FLAGS that leave them on.
The processor plays eight devices for tests of sharding.
"""

import os
import sys
from pathlib import Path

import pytest

os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_force_host_platform_device_count=8")


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Let go of compiled programs once they take up a good part of the mappings that a process may have, 65 530."""
    yield
    maps = Path("/proc/self/maps")
    if "jax" in sys.modules and maps.exists() and maps.read_bytes().count(b"\n") > 20_000:
        sys.modules["jax"].clear_caches()
