"""The examples in docstrings, which the API pages show, do what they say."""

import doctest
import importlib
import types

import pytest
from testkit.documents import ROOT

SOURCE = ROOT / "src"
FILES = sorted(path for path in SOURCE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_examples_hold(path):
    module = importlib.import_module(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    outcome = doctest.testmod(module)
    assert outcome.attempted > 0
    assert outcome.failed == 0


def test_a_wrong_example_fails():
    module = types.ModuleType("made_up", "\n>>> 1 + 1\n3\n")
    assert doctest.testmod(module, report=False).failed == 1
