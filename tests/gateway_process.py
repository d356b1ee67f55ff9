"""A gateway in a process of its own, to be killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.conftest import ROOT

_PROGRAM = """
import json, sys, threading
from toolkit.gateway import Gateway
from toolkit.dweets import outbox
from toolkit.dweets.service import DweetSettings
given = json.loads(sys.argv[1])
settings = {name: given.pop(name) for name in ("keep", "archive_seconds") if name in given}
if settings:
    given["settings"] = DweetSettings(**settings)
if "lease" in given:
    from toolkit.dweets import archiving
    archiving._LEASE_MILLISECONDS = given.pop("lease")
outbox.WAITS = tuple(given.pop("waits", outbox.WAITS))
gateway = Gateway(**given)
print(gateway.base_url, flush=True)
sys.stdin.read()
gateway.stop()
"""


class GatewayProcess:
    """A gateway in a process of its own; killed at the end of the ``with`` block.

    Parameters
    ----------
    options
        Arguments of `toolkit.gateway.Gateway`, ``keep`` and ``archive_seconds`` of its settings, ``waits`` for
        those of the outbox, ``lease`` for the milliseconds that one of many archives.
    """

    def __init__(self, folder: Path, **options: Any) -> None:
        given = json.dumps({"folder": None if "store" in options else str(folder), **options})
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert self._process.stdout is not None
        self.base_url = self._process.stdout.readline().strip()
        if not self.base_url:
            self._process.communicate(timeout=30)
            raise AssertionError("the gateway did not start; its own message is above")

    @property
    def port(self) -> int:
        return int(self.base_url.rpartition(":")[2])

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=30)

    def stop(self) -> int:
        """Let it stop properly; returns its exit code."""
        self._process.communicate(timeout=30)
        return self._process.returncode

    def __enter__(self) -> GatewayProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()
