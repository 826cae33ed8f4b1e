"""The site's parts fit together: its pages are in the navigation, the API pages name what is public."""

import ast
import importlib
import re
from types import ModuleType

from testkit.documents import ROOT

import gossamer as gs
from gossamer import datasets, models, tables

DOCS = ROOT / "docs"
REFERENCE = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
IDENTIFIERS = re.findall(r"^::: (\S+)$", REFERENCE, re.MULTILINE)


def defined(module):
    """Return the names that a module of ours defines, without those that it imports."""
    path = ROOT / "src" / module.replace(".", "/")
    source = path.with_suffix(".py") if path.with_suffix(".py").exists() else path / "__init__.py"
    nodes = ast.parse(source.read_text(encoding="utf-8")).body if source.exists() else []
    functions = {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    targets = [target for node in nodes if isinstance(node, ast.Assign) for target in node.targets]
    return functions | {target.id for target in targets if isinstance(target, ast.Name)}


def test_every_public_name_is_in_the_reference():
    parts = (gs, gs.methods, gs.objectives, gs.learn, gs.audit, gs.geometry, datasets, models, tables)
    public = {name for part in parts for name in part.__all__ if not isinstance(getattr(part, name), ModuleType)}
    documented = {name for each in IDENTIFIERS for name in (each.rpartition(".")[2], *defined(each))}
    assert public - documented <= {"ALL", "MISSING"}  # lists for programs: of methods, of words for a missing value


def test_the_reference_names_what_is_there():
    """Each identifier is a module of ours, or what one of them has; it is asked for by the name that users import."""
    for identifier in IDENTIFIERS:
        module, _, name = identifier.rpartition(".")
        assert defined(identifier) or hasattr(importlib.import_module(module), name), identifier


def test_the_threat_model_names_tests_that_are_there():
    """A claim whose attack was renamed or removed would stand there unattacked."""
    named = set(re.findall(r"`(test_\w+\.py)`", (DOCS / "threat-model.md").read_text(encoding="utf-8")))
    assert named
    assert named <= {path.name for path in (ROOT / "tests").rglob("test_*.py")}


def test_every_page_is_in_the_navigation():
    """Tables of results are linked from pages; all others have a place of their own."""
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1]
    listed = set(re.findall(r": (\S+\.md)$", navigation, re.MULTILINE))
    pages = {str(page.relative_to(DOCS)) for folder in ("", "api", "examples") for page in (DOCS / folder).glob("*.md")}
    assert listed == pages
