"""Every public name says what it is, and every example in a docstring runs and prints what it says."""

from __future__ import annotations

import ast
import doctest
import importlib
from pathlib import Path

import pytest

from tests.conftest import ROOT
from toolkit.gateway import Gateway

MODULES = sorted((ROOT / "toolkit").rglob("*.py"))
#: What a person calls in a notebook. Everything else has a docstring where its name does not say it all.
PUBLIC = [path for path in MODULES if path.parent.name in ("client", "widgets", "analysis")]
PUBLIC += [ROOT / "toolkit" / name for name in ("connection.py", "errors.py", "secret.py", "gateway/gateway.py")]
PUBLIC += [ROOT / "toolkit" / "dweets" / "archive" / "archive.py"]
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


def test_every_public_name_has_a_docstring() -> None:
    silent = [
        f"{dotted(path)}.{node.name}"
        for path in PUBLIC
        for node in public_definitions(ast.parse(path.read_text("utf-8")).body)
        if not ast.get_docstring(node)
    ]
    assert not silent


def run_examples(paths: list[Path]) -> None:
    results = {dotted(path): doctest.testmod(importlib.import_module(dotted(path))) for path in paths}
    assert all(result.attempted for result in results.values())
    assert not [name for name, result in results.items() if result.failed], "the differences are printed above"


def with_examples(*, of_handwriting: bool) -> list[Path]:
    found = [path for path in MODULES if ("handwriting" in path.relative_to(ROOT).parts) == of_handwriting]
    return [path for path in found if ">>>" in path.read_text("utf-8")]


def test_every_example_runs_and_prints_what_it_says() -> None:
    run_examples(with_examples(of_handwriting=False))


def test_every_example_of_handwriting_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    # All on one gateway: the renderers of each take a second to start.
    with Gateway() as gateway:
        monkeypatch.setenv("TOOLKIT_URL", gateway.base_url)
        run_examples(with_examples(of_handwriting=True))
