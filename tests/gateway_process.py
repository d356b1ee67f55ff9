"""A gateway in a separate process, to be killed."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.conftest import ROOT

_PROGRAM = """
import json, sys, threading
from toolkit_gateway import Gateway
from toolkit_gateway.runtime import Timings
given = json.loads(sys.argv[1])
settings = {name: given.pop(name) for name in ("keep", "archive_seconds") if name in given}
config = {**given.pop("config", {}), "dweets": settings}
gateway = Gateway(timings=Timings(**given.pop("timings", {})), config=config, **given)
print(gateway.base_url, flush=True)
sys.stdin.read()
gateway.close()
"""


class GatewayProcess:
    """A gateway in a process of its own; killed at the end of the ``with`` block.

    Parameters
    ----------
    folder
        Where it keeps everything; None with a ``store``.
    options
        Arguments of `toolkit_gateway.Gateway` (``config`` without dweets), ``keep`` and ``archive_seconds`` of its
        dweets, and ``timings``.
    """

    def __init__(self, folder: Path | None, **options: Any) -> None:
        given = json.dumps({"folder": folder and str(folder), **options})
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert self._process.stdout is not None
        self.base_url = self._process.stdout.readline().strip()
        if not self.base_url:
            self._process.communicate(timeout=60)
            raise AssertionError("the gateway did not start; its own message is above")

    @property
    def port(self) -> int:
        return int(self.base_url.rpartition(":")[2])

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=60)

    def stop(self) -> int:
        """Let it stop properly; returns its exit code."""
        self._process.communicate(timeout=60)
        return self._process.returncode

    def __enter__(self) -> GatewayProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()


class Killer:
    """Kills a gateway with so many answers, in the thread of whoever got the last of them: no thread may be late.

    Parameters
    ----------
    kill
        Ends the gateway.
    answers
        How many are given before.
    """

    def __init__(self, kill: Callable[[], None], answers: int) -> None:
        self._kill = kill
        self._countdown = itertools.count(answers, -1)
        self.is_done = threading.Event()

    def answered(self) -> None:
        if next(self._countdown) == 1:
            self._kill()
            self.is_done.set()
