"""Loaded by pytest before all else (``-p`` in `pyproject.toml`), to make all other imports fast."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path


def keep_bytecode() -> None:
    """Share compiled modules between the hundreds of test processes, even if PYTHONDONTWRITEBYTECODE is set.

    Compiling takes seconds of each start. Nothing is written beside the sources, which the person does not want.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        folder = Path(__file__).resolve().parents[1] / ".pytest_cache" / "bytecode"
        sys.dont_write_bytecode = False
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


def leave_out_slow_imports() -> None:
    """Keep jsonschema from importing grammars of IRIs that no schema here needs: each process would parse for a second.

    In the processes that tests start too, such as JupyterLab, but for those of an installed wheel.
    """
    folder = str(Path(__file__).with_name("left_out"))
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if folder not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *filter(None, paths)])
        sys.path.insert(0, folder)


keep_bytecode()
leave_out_slow_imports()


def pytest_collection_finish() -> None:
    """Let the garbage collector pass by modules and tests: they stay to the end, and a million objects take long."""
    gc.collect()
    gc.freeze()
