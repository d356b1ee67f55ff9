"""The examples in the docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib

import pytest

MODULES = [
    "renderer",
    "catalogue",
    "parameters",
    "keyed_noise",
    "canvases.pdf",
    "canvases.png_file",
    "bounded_cache",
    "ribbons",
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module):
    result = doctest.testmod(importlib.import_module(f"toolkit.handwriting.{module}"))
    assert result.attempted > 0
    assert result.failed == 0
