"""The examples of the docstrings are true."""

from __future__ import annotations

import doctest
import importlib

import pytest

NAMES = ("authentication", "client", "hands_on_offer", "handwritten", "query", "rate_limit", "style", "widget", "wire")


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_of(name: str) -> None:
    results = doctest.testmod(importlib.import_module(f"toolkit.handwriting.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
