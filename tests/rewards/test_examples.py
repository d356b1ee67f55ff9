"""The examples in the docstrings run and give what they say."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.conftest import ROOT

MODULES = sorted(path.stem for path in (ROOT / "toolkit" / "rewards").glob("*.py") if ">>>" in path.read_text("utf-8"))


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"toolkit.rewards.{name}"))
    assert result.attempted > 0
    assert result.failed == 0
