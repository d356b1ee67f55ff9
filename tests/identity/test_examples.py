"""Every example in a docstring of the identity service runs and says what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import toolkit
import toolkit.identity
from toolkit.gateway import Gateway

MODULES = [module.name for module in pkgutil.iter_modules(toolkit.identity.__path__, "toolkit.identity.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str) -> None:
    names = {"toolkit": toolkit, "Gateway": Gateway}
    found = doctest.testmod(importlib.import_module(name), extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert found.failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    counts = [len(test.examples) for name in MODULES for test in finder.find(importlib.import_module(name))]
    assert sum(counts) > 8
