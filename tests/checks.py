"""A plugin of pytest that checks style, types and import rules while the tests of the whole suite run.

Each check is a command that can also be run alone, as in ``uv run mypy``. It appears in the results like a test, with
the output of the command if it fails. Where files, folders or tests are named, only these run.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

PROGRAMS = Path(sys.executable).parent
COMMANDS = ("ruff check --no-fix", "ruff format --check", "lint-imports --no-cache", "mypy")


def is_whole_suite(config: pytest.Config) -> bool:
    return config.args == config.getini("testpaths") and not (config.getoption("-k") or config.getoption("--co"))


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Run the commands in a thread, one after the other, and report them when the tests have ended."""
    config = session.config
    is_worker = hasattr(config, "workerinput")  # one of the processes of pytest-xdist
    if is_worker or not is_whole_suite(config):
        return (yield)
    with ThreadPoolExecutor(max_workers=1) as thread:
        reports = [thread.submit(report_of, command, config.rootpath) for command in COMMANDS]
        try:
            result = yield
            for report in reports:
                config.hook.pytest_runtest_logreport(report=report.result())
        finally:  # after an interrupt, no further command begins
            thread.shutdown(cancel_futures=True)
        return result


def report_of(command: str, folder: Path) -> pytest.TestReport:
    program, *arguments = command.split()
    done = subprocess.run([PROGRAMS / program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    return pytest.TestReport(
        nodeid=command,
        location=("pyproject.toml", None, command),
        keywords={},
        outcome="failed" if done.returncode else "passed",
        longrepr=done.stdout + done.stderr if done.returncode else None,
        when="call",
    )
