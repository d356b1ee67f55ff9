"""Every example in a docstring runs and prints what it shows."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from tests.conftest import ROOT
from toolkit_gateway import Gateway

MODULES = sorted((ROOT / "toolkit").rglob("*.py"))


def dotted(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def run_examples(paths: list[Path]) -> None:
    results = {dotted(path): doctest.testmod(importlib.import_module(dotted(path))) for path in paths}
    assert all(result.attempted for result in results.values())
    assert not [name for name, result in results.items() if result.failed], "the differences are printed above"


def with_examples(*, of_handwriting: bool) -> list[Path]:
    found = [path for path in MODULES if ("handwriting" in path.relative_to(ROOT).parts) == of_handwriting]
    return [path for path in found if ">>>" in path.read_text("utf-8")]


def test_docstring_examples_run_and_print_what_they_show() -> None:
    run_examples(with_examples(of_handwriting=False))


def test_handwriting_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # All on one gateway: the renderers of each take a second to start.
    with Gateway() as gateway:
        monkeypatch.setenv("TOOLKIT_URL", gateway.base_url)
        run_examples(with_examples(of_handwriting=True))
