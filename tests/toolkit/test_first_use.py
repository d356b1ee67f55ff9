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
        "import toolkit\nimport pandas as pd",
        "import pandas as pd\nimport toolkit",
        "import toolkit\ntoolkit.Archive\nimport pandas as pd",
        "import toolkit\nfrom importlib import reload\nimport pandas as pd\nreload(toolkit)",
        "import toolkit\nimport inspect\nimport pandas as pd\nassert inspect.getsource(pd)",
    ],
)
def test_frames_have_dweets_in_either_order(imports: str) -> None:
    assert output_of(f"{imports}\n{USE}") == "1\n"


def test_the_import_loads_no_large_library() -> None:
    large = {"pandas", "numpy", "matplotlib", "ipywidgets", "asyncio"}
    loaded = set(output_of("import sys, toolkit; print(*sys.modules)").split())
    assert "toolkit.connection" not in loaded
    assert not large & loaded


def test_a_client_loads_no_module_of_the_gateway() -> None:
    program = """
import sys, toolkit
with toolkit.connect("http://127.0.0.1:9") as tk:
    tk.dweets, tk.handwriting, tk.rewards, tk.identity, tk.operator
    [getattr(toolkit, name) for name in toolkit.__all__ if name != "Gateway"]
print(*sys.modules)
"""
    loaded = {name.split(".")[0] for name in output_of(program).split()}
    assert {"pandas", "ipywidgets"} <= loaded
    gateway = {"cachetools", "filelock", "httptools", "pydyf", "redis", "rocksdict", "uharfbuzz", "uvloop"}
    assert not ({"toolkit_gateway", "duckdb", "dask"} | gateway) & loaded


INTERRUPT = """
import importlib.abc, signal, sys
import toolkit

class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
tk = toolkit.connect("http://127.0.0.1:9")
sys.meta_path.insert(0, Interrupt())
try:
    {use}
except KeyboardInterrupt:
    print("interrupted")
{use}
import pandas as pd
{frame}
"""


@pytest.mark.parametrize(
    ("use", "module"),
    [
        ("tk.dweets", "pandas.core.frame"),
        ("tk.handwriting", "PIL.Image"),
        ("toolkit.HistoryExplorer", "ipywidgets.widgets"),
        ("toolkit.rewards.funnel", "pandas.core.frame"),
    ],
)
def test_an_interrupted_first_use_can_be_repeated(use: str, module: str) -> None:
    program = INTERRUPT.format(use=use, module=module, frame=USE)
    assert output_of(program) == "interrupted\n1\n"
