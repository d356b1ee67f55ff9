"""The first use of a service imports large libraries: frames get their accessor, and an interrupt breaks nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

USE = "frame = pd.DataFrame({'celsius': [1.0, 2.0]}, pd.date_range('2026', periods=2, freq='h', name='created'))\n"
USE += "print(len(frame.dweets.resample('1D')))"


def output_of(program: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "imports",
    [
        "import toolkit\nimport inspect\nimport pandas as pd\nassert inspect.getsource(pd)",
        "import pandas as pd\nimport toolkit\nfrom importlib import reload\nreload(toolkit)",
    ],
)
def test_frames_have_dweets_in_either_order(imports: str) -> None:
    assert output_of(f"{imports}\n{USE}") == "1\n"


def test_imports_load_no_more_than_they_need() -> None:
    program = """
import sys, toolkit
print(toolkit.errors.CannotServe.__name__, *sys.modules)
with toolkit.connect("http://127.0.0.1:9") as tk:
    tk.dweets, tk.handwriting, tk.rewards, tk.identity, tk.operator
    [getattr(toolkit, name) for name in toolkit.__all__ if name != "Gateway"]
print(*sys.modules)
"""
    imported, used = output_of(program).splitlines()
    large = {"pandas", "numpy", "matplotlib", "ipywidgets", "asyncio", "toolkit.connection"}
    assert not large & set(imported.split())
    loaded = {name.split(".")[0] for name in used.split()}
    assert {"pandas", "ipywidgets"} <= loaded
    gateway = {"cachetools", "filelock", "httptools", "pydyf", "redis", "rocksdict", "uharfbuzz", "uvloop"}
    assert not ({"toolkit_gateway", "duckdb", "dask"} | gateway) & loaded


INTERRUPT = f"""
import importlib.abc, signal, sys
import toolkit

class Interrupt(importlib.abc.MetaPathFinder):
    def __init__(self, module):
        self.module = module

    def find_spec(self, name, path=None, target=None):
        if name == self.module:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
tk = toolkit.connect("http://127.0.0.1:9")
for use, module in (
    (lambda: tk.dweets, "pandas.core.frame"),
    (lambda: tk.handwriting, "PIL.Image"),
    (lambda: toolkit.HistoryExplorer, "ipywidgets.widgets"),
    (lambda: toolkit.rewards.funnel, "toolkit.rewards.analysis.funnels"),
):
    sys.meta_path.insert(0, Interrupt(module))
    try:
        use()
    except KeyboardInterrupt:
        print("interrupted", module)
    use()
import pandas as pd
{USE}
"""


def test_an_interrupted_first_use_can_be_repeated() -> None:
    modules = ("pandas.core.frame", "PIL.Image", "ipywidgets.widgets", "toolkit.rewards.analysis.funnels")
    assert output_of(INTERRUPT).splitlines() == [*(f"interrupted {module}" for module in modules), "1"]
