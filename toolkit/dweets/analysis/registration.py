"""Give every DataFrame ``.dweets`` from ``import toolkit`` on, without importing pandas for it.

If pandas is not imported yet, a finder on `sys.meta_path` waits for that import. A library for such hooks, wrapt, takes
three times as long to import as the whole toolkit.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

from toolkit.public_api import interrupts_deferred

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.dweets.analysis.accessor import DweetAccessor


def register_accessor() -> None:
    """Register the accessor now if pandas is imported, or as soon as it is."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and hasattr(pandas, "DataFrame"):  # otherwise it is being imported
        _register(pandas)
    elif not any(isinstance(finder, _PandasFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _PandasFinder())


def _register(pandas: ModuleType) -> None:
    if not hasattr(pandas.DataFrame, "dweets"):
        pandas.api.extensions.register_dataframe_accessor("dweets")(_accessor)


def _accessor(frame: pd.DataFrame) -> DweetAccessor:
    # Not imported at the import of pandas: a module that imports pandas could be half imported then.
    with interrupts_deferred():
        from toolkit.dweets.analysis.accessor import DweetAccessor
    return DweetAccessor(frame)


class _PandasFinder:
    """Finds pandas as the other finders do, and registers the accessor once pandas is imported."""

    def __init__(self) -> None:
        self._is_searching = False

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "pandas" or self._is_searching:
            return None
        self._is_searching = True  # the other finders are asked through the same list
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._is_searching = False
        if spec is not None and spec.loader is not None:
            # The loader stays the same object: others ask a module's loader for its source and its files.
            spec.loader.exec_module = partial(self._execute, spec.loader.exec_module)  # type: ignore[method-assign]
        return spec

    def _execute(self, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        execute(module)
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        _register(module)
