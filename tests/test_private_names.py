"""The package and its tools use public names of their dependencies only: a private one may change in any release.

Tests read no private attribute of the package's classes.
"""

from __future__ import annotations

import ast

from tests.conftest import ROOT

# Names that a documented protocol gives: IPython's display methods, namedtuple's public helpers.
DOCUMENTED = {"_repr_mimebundle_", "_repr_html_", "_asdict", "_replace", "_make", "_fields", "_exit"}
FILES = sorted(path for folder in ("toolkit", "data/tools") for path in (ROOT / folder).rglob("*.py"))


def is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def private_imports(tree: ast.AST) -> set[str]:
    """Return what is imported under a private name, or from a module with a private part."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name for name in names if any(is_private(part) for part in name.split("."))}
    return found


def own_names(tree: ast.AST) -> set[str]:
    """Return the private names that a file defines: attributes, functions, variables, slots and fields."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return {name for name in found if is_private(name)}


def private_attributes(tree: ast.AST, known: set[str]) -> set[str]:
    """Return the private attributes that are read and that nothing in the package defines."""
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in known
    }


def read_from_outside(tree: ast.AST, names: set[str]) -> set[str]:
    """Return these names where they are attributes of another object than ``self``, ``cls`` or ``super()``."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in names:
            owner = node.value.func if isinstance(node.value, ast.Call) else node.value
            if not (isinstance(owner, ast.Name) and owner.id in ("self", "cls", "super")):
                found.add(node.attr)
    return found


def offenders(trees: dict[str, ast.AST]) -> list[str]:
    known = DOCUMENTED.union(*(own_names(tree) for tree in trees.values()))
    return [
        f"{path}: {name}"
        for path, tree in trees.items()
        for name in sorted(private_imports(tree) | private_attributes(tree, known))
    ]


def test_the_package_uses_no_private_name_of_a_dependency() -> None:
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")) for path in FILES}
    assert offenders(trees) == []


def test_tests_read_no_private_attribute_of_the_package() -> None:
    package = set[str]().union(*(own_names(ast.parse(path.read_text("utf-8"))) for path in FILES)) - DOCUMENTED
    found = {
        str(path.relative_to(ROOT)): names
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if (names := read_from_outside(ast.parse(path.read_text("utf-8")), package))
    }
    assert found == {}


def test_the_scan_finds_private_names() -> None:
    code = "from redis._parsers import x\nimport a._b\nfrom uvicorn import _impl\nclass Own:\n    _mine = 1\n"
    used = "def f(response, own):\n    return response._fp, own._mine, own._replace\n"
    assert offenders({"x.py": ast.parse(code + used)}) == [
        "x.py: _fp",
        "x.py: a._b",
        "x.py: redis._parsers.x",
        "x.py: uvicorn._impl",
    ]
    assert read_from_outside(ast.parse("self._mine, own._mine, own().x._mine, other._theirs"), {"_mine"}) == {"_mine"}
    assert read_from_outside(ast.parse("self._mine, super()._mine"), {"_mine"}) == set()
