"""Notebook 6 where no Redis is installed: its last part says so, and everything else stays as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

NOTEBOOK = ROOT / "notebooks" / "6-fleet.ipynb"


def environment(folder: Path) -> dict[str, str]:
    """Return the environment with a PATH on which there is only this Python."""
    for name in ("python", "python3"):
        (folder / name).symlink_to(sys.executable)
    return {**os.environ, "PATH": str(folder)}


def test_the_fleet_notebook_says_that_there_is_no_redis(tmp_path: Path) -> None:
    # Its own cells about Redis behind its imports; the long part of it is run by nbval, and by the browser.
    cells = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    about_redis = [source for source in sources if "start_redis()" in source]
    assert len(about_redis) == 2
    program = "\n".join([*(line for line in sources[0].splitlines() if line.startswith("import")), *about_redis])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment(tmp_path),
    )
    assert "No Redis is installed here, so this part is skipped" in done.stdout


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_fleet_notebook_compares_without_redis(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--nbval-cell-timeout=300", str(NOTEBOOK)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False, env=environment(tmp_path)
    )
    assert done.returncode == 0, done.stdout
