"""Loaded by pytest before all else (``-p`` in `pyproject.toml`), to make all other imports fast."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
from collections.abc import Generator
from pathlib import Path

import pytest


def keep_bytecode() -> None:
    """Share compiled modules between the hundreds of test processes, even if PYTHONDONTWRITEBYTECODE is set.

    Compiling takes seconds of each start. Nothing is written beside the sources, which the person does not want.
    """
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
        folder = Path(__file__).resolve().parents[1] / ".pytest_cache" / "bytecode"
        sys.dont_write_bytecode = False
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(folder)


keep_bytecode()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Import the modules of the tests; the garbage collector passes by all of it, as it stays to the end."""
    gc.disable()
    try:
        import_own_share(session.config)
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def import_own_share(config: pytest.Config) -> None:
    """In each worker of pytest-xdist, import other modules of tests before all are collected.

    Where there is no bytecode yet, pytest rewrites each module for seconds: so one worker does it, not each of them.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    paths = sorted(path.relative_to(config.rootpath) for path in (config.rootpath / "tests").rglob("test_*.py"))
    for path in paths[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # reported when the module is collected
            importlib.import_module(".".join(path.with_suffix("").parts))
