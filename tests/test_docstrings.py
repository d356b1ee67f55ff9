"""Every public name says what it is, and every example in a docstring runs and prints what it says."""

from __future__ import annotations

import ast
import doctest
import importlib
from pathlib import Path

import pytest

from tests.conftest import ROOT

MODULES = sorted((ROOT / "toolkit").rglob("*.py"))
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def public_definitions(body: list[ast.stmt]) -> list[Definition]:
    found = []
    for node in body:
        if isinstance(node, Definition) and not node.name.startswith("_"):
            found.append(node)
            found += public_definitions(node.body) if isinstance(node, ast.ClassDef) else []
    return found


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_every_public_name_has_a_docstring(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    silent = [node.name for node in public_definitions(tree.body) if not ast.get_docstring(node)]
    assert not silent, f"without a docstring: {silent}"


@pytest.mark.parametrize("path", MODULES, ids=dotted)
def test_every_example_runs_and_prints_what_it_says(path: Path) -> None:
    if ">>>" not in path.read_text("utf-8"):
        return
    import toolkit.gateway  # noqa: F401

    results = doctest.testmod(importlib.import_module(dotted(path)))
    assert results.attempted > 0
    assert results.failed == 0, "the differences are printed above"
