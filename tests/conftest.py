"""Set up for all tests.

Every test is in one of three rings, by its marker:

* none: `make quick` runs it, and so does `make test`;
* `slow`: `make test` runs it: its first case, and all of them if it says `slow(each=True)`;
* `deep`: only `make deep` runs it, and so it does the other cases of slow tests.

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


@pytest.hookimpl(tryfirst=True)  # before pytest picks tests by their markers
def pytest_collection_modifyitems(items):
    """Leave all cases of a slow test but the first to the deep ring, unless each of them shows something else."""
    seen = set()
    for item in items:
        slow = item.get_closest_marker("slow")
        if slow is None or slow.kwargs.get("each") or item.get_closest_marker("deep"):
            continue
        test = (item.path, item.originalname)
        if test in seen:
            item.add_marker("deep")
        seen.add(test)


@pytest.fixture(autouse=True, scope="session")
def runs_are_repeated_here():
    """Tests fit the same records again and again; those of the warning about it have a memory of their own."""
    from gossamer.engine import paying

    paying.MEMORY.has_spoken = True


@pytest.fixture(autouse=True, scope="module")
def forget_programs():
    """Let go of compiled programs once they take up a good part of the mappings that a process may have, 65 530."""
    yield
    maps = Path("/proc/self/maps")
    if "jax" in sys.modules and maps.exists() and maps.read_bytes().count(b"\n") > 20_000:
        sys.modules["jax"].clear_caches()
