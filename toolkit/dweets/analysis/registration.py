"""Give every DataFrame ``.dweets`` from ``import toolkit`` on, without importing pandas for it.

If pandas is not imported yet, a finder on `sys.meta_path` waits for that import. A library for such hooks, wrapt, takes
three times as long to import as the whole toolkit.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, cast

from toolkit.public_api import interrupts_deferred

if TYPE_CHECKING:  # importlib.abc alone takes a third of the time of `import toolkit`
    from importlib.abc import Loader

    import pandas as pd

    from toolkit.dweets.analysis.accessor import DweetAccessor


def register_accessor() -> None:
    """Register the accessor now if pandas is imported, or as soon as it is."""
    if "pandas" in sys.modules and not _is_being_imported(sys.modules["pandas"]):
        _register(sys.modules["pandas"])
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


def _is_being_imported(module: ModuleType) -> bool:
    return not hasattr(module, "DataFrame")


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
            spec.loader = cast("Loader", _PandasLoader(self, spec.loader))
        return spec


class _PandasLoader:
    def __init__(self, finder: _PandasFinder, loader: Loader) -> None:
        self._finder, self._loader = finder, loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # pandas must not see this loader: others ask a module's loader for its source and its files.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        sys.meta_path.remove(self._finder)
        _register(module)
