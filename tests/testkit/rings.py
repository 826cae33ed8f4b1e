"""Parameters of one test in several rings: what holds of many things is tried on a few of them first."""

import pytest


def slow_but(cases, *quick):
    """Return parameters of which all but the named cases are left to `make test`."""
    return _but(cases, quick, pytest.mark.slow)


def deep_but(cases, *kept):
    """Return parameters of which all but the named cases are left to `make deep`."""
    return _but(cases, kept, pytest.mark.deep)


def _but(cases, kept, ring):
    """A tuple is a case of several parameters."""
    assert set(kept) <= set(cases), f"there is no case {set(kept) - set(cases)}"
    values = {case: case if isinstance(case, tuple) else (case,) for case in cases}
    return [pytest.param(*values[case], marks=() if case in kept else ring) for case in cases]
