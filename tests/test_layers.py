"""Rooms import in one direction: a room uses those before it in the list, and none after it. So there are no cycles."""

import ast
from pathlib import Path, PurePath

import pytest

import gossamer

PACKAGE = Path(gossamer.__file__).parent
ROOMS = (
    *("base", "geometry", "tables", "privacy", "datasets", "oracle", "models", "objectives", "gradients", "methods"),
    *("engine", "learn", "audit", "report", "experiments", "runs", "cli"),
)
LAZY = ("cli", "runs")
"""Rooms that import inside functions, downwards like all others: commands answer before JAX is loaded."""
UPWARDS = {"objectives/__init__.py": "engine"}
"""`gs.objectives` offers `group_shares` and `positive_share`, which are runs of `gs.solve`, when they are asked for."""


def imported(tree: ast.AST, path: PurePath) -> set[str]:
    """Return the rooms that a module imports from; "" is the package itself, which offers what the stub lists."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = ["gossamer", *path.parts[: -node.level]] if node.level else []
            names += [".".join([*above, *filter(None, [node.module]), alias.name]) for alias in node.names]
    rooms = {name.split(".")[1] if "." in name else "" for name in names if name.split(".")[0] == "gossamer"}
    return {room if room in ROOMS else "" for room in rooms}


def faults(path: PurePath, source: str) -> list[str]:
    """Return what is wrong with a module's imports, those inside functions included."""
    tree, own = ast.parse(source), path.parts[0]
    allowed = {*ROOMS[: ROOMS.index(own) + 1], UPWARDS.get(str(path))}
    if own in ROOMS[ROOMS.index("audit") + 1 :]:  # the highest room of the stub
        allowed.add("")
    found = [f"{path} imports upwards, from {room or 'the package'}" for room in imported(tree, path) - allowed]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    if own not in LAZY and str(path) not in UPWARDS and any(imported(function, path) for function in functions):
        found.append(f"{path} imports inside a function")
    return found


def test_no_room_imports_upwards():
    modules = [path for room in ROOMS for path in (PACKAGE / room).rglob("*.py")]
    assert len(modules) > 150
    assert not [fault for path in modules for fault in faults(path.relative_to(PACKAGE), path.read_text())]


@pytest.mark.parametrize(
    "planted",
    [
        "from gossamer.engine.solving import solve",
        "from gossamer import engine",
        "from ..engine import loop",
        "import gossamer.engine.loop",
        "import gossamer as gs",
        "def late():\n    from gossamer.engine.solving import solve",
        "def late():\n    from gossamer.base import trees",
    ],
)
def test_a_planted_import_is_noticed(planted):
    path = PurePath("methods/gd.py")
    source = (PACKAGE / path).read_text()
    assert not faults(path, source)
    assert faults(path, source + planted + "\n")


def test_everything_has_a_room():
    names = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert names == {*ROOMS, "__init__.py", "__init__.pyi", "py.typed"}
