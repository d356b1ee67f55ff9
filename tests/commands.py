"""Run commands of the toolkit, in a new process or in the process of the test."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from click.testing import CliRunner, Result

from tests.conftest import raw_call
from toolkit.cli import main

TOOLKIT = (sys.executable, "-m", "toolkit")


def run(*arguments: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*TOOLKIT, *arguments], capture_output=True, text=True, timeout=60, check=False, env=os.environ | environment
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@contextmanager
def log_kept_as_it_is() -> Iterator[None]:
    """Undo what `toolkit gateway` does with the log of its process."""
    logs = [logging.getLogger("toolkit_gateway")]
    before = [(log.handlers[:], log.level, log.propagate) for log in logs]
    yield
    for log, (handlers, level, propagate) in zip(logs, before, strict=True):
        log.handlers, log.level, log.propagate = handlers, level, propagate


def called(*arguments: str, code: int = 0, stdin: bytes = b"", **environment: str) -> Result:
    """Run a command in this process, where a test is about no process, pipe or signal."""
    with log_kept_as_it_is():
        done = CliRunner().invoke(main, arguments, input=stdin, env=environment)
    assert done.exit_code == code, done.output
    assert isinstance(done.exception, SystemExit | None), done.exception
    return done


@contextmanager
def started(*arguments: str, stdin: int = subprocess.DEVNULL, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command until the block ends; a test that wants more than its death ends it itself."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*TOOLKIT, *arguments], stdin=stdin, stdout=pipe, stderr=pipe, text=True, env=os.environ | environment
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate(timeout=60)


def url_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert re.fullmatch(r"gateway at http://127\.0\.0\.1:\d+\n", line), line
    return line.removeprefix("gateway at ").strip()


def outcome(url: str, method: str, target: str, body: bytes = b"") -> str | int:
    answer = json.loads(raw_call(url, method, target, body).body)
    return answer["this"] if answer["this"] == "succeeded" else answer["with"]


def end(process: subprocess.Popen[str], number: int = signal.SIGTERM) -> tuple[str, str]:
    """Send a signal; the process must end by itself, with exit code 0. Returns the rest of its output."""
    process.send_signal(number)
    said, complained = process.communicate(timeout=60)
    assert process.returncode == 0, complained
    return said, complained


@contextmanager
def started_lab(
    folder: Path, *arguments: str, stdin: int = subprocess.DEVNULL
) -> Iterator[tuple[subprocess.Popen[str], str, str, str]]:
    """Run the lab with all of its state below `folder`; gives the process, the gateway's URL, the lab's, its token."""
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR")
    environment = {name: str(folder / name.lower()) for name in names}
    data, lab = folder / "data of the gateway", folder / "lab"
    options = ["--no-browser", f"--data={data}", f"--folder={lab}", *arguments]
    with started("lab", *options, stdin=stdin, **environment) as process:
        gateway = url_of(process)
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().removeprefix("lab at ").strip())
        assert process.stdout.readline() == f"notebooks in {lab}, dweets in {data}; Ctrl-C stops lab and gateway\n"
        yield process, gateway, f"http://{address.netloc}", address.query.removeprefix("token=")


def call_lab(url: str, token: str, path: str, body: bytes | None = None) -> object:
    request = urllib.request.Request(url + path, body, {"Authorization": f"token {token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def kernel_environment(pid: int) -> dict[str, str]:
    # At its start JupyterLab also asks npm, where there is one, for language servers.
    (kernel,) = (child for child in psutil.Process(pid).children() if "ipykernel_launcher" in child.cmdline())
    return kernel.environ()
