"""Calls can be read: no function takes more than a dozen parameters, and no call passes more than five by position."""

import ast
from pathlib import Path, PurePath

import pytest

import gossamer

PACKAGE = Path(gossamer.__file__).parent
MODULES = {path.relative_to(PACKAGE): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
MOST_PARAMETERS, MOST_POSITIONS = 12, 5
TWO_MORE = {"solve", "schema_from_flags"}
"""The names of `gs.solve` are the public contract, and those of the other are the flags of the command line."""


def functions(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)]


VARIADIC = {"RichProgress"} | {
    node.name
    for source in MODULES.values()
    for node in functions(ast.parse(source))
    if not isinstance(node, ast.Lambda) and node.args.vararg
}
"""Functions that take as many as there are, such as the parts of a page: their arguments are a list."""


def called(node):
    """Return the last name of what is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def faults(path, source):
    """Return what is wrong with a module's functions and calls. The settings of estimators are scikit-learn's style."""
    found, tree = [], ast.parse(source)
    for node in functions(tree):
        name = getattr(node, "name", "a lambda")
        count = len(node.args.posonlyargs) + len(node.args.args) + len(node.args.kwonlyargs)
        if count > MOST_PARAMETERS + 2 * (name in TWO_MORE) and not (path.parts[0] == "learn" and name == "__init__"):
            found.append(f"{path}:{node.lineno} {name} has {count} parameters")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and len(node.args) > MOST_POSITIONS and called(node) not in VARIADIC:
            found.append(f"{path}:{node.lineno} {called(node)} is passed {len(node.args)} arguments by position")
    return found


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_calls_can_be_read(path):
    assert faults(path, MODULES[path]) == []


@pytest.mark.parametrize(
    "planted",
    [
        f"def many({', '.join(f'p{i}' for i in range(13))}): pass",
        f"def many(*, {', '.join(f'p{i}' for i in range(13))}): pass",
        "f(1, 2, 3, 4, 5, 6)",
        "deep.inside.f(1, 2, 3, 4, 5, 6, key=7)",
    ],
)
def test_a_planted_fault_is_noticed(planted):
    path = PurePath("methods/gd.py")
    assert not faults(path, MODULES[Path(path)])
    assert faults(path, MODULES[Path(path)] + planted + "\n")
