"""Several gateway processes on one port of one machine: starts them, starts again who dies, and ends all of them."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from toolkit.gateway.foreground import signals_to_end
from toolkit.gateway.options import GatewayOptions
from toolkit.gateway.server import CannotServe
from toolkit.gateway.shared_port import SharedPort

log = logging.getLogger("toolkit.gateway")

_START = "from toolkit.gateway.worker_process import main; main()"
_START_SECONDS = 60.0
# More than a gateway takes to stop by itself.
_STOP_SECONDS = 20.0
# How long to wait before a worker is started again, by how often it died in a row; the last one is repeated.
_PAUSES = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
# Who lived so long before it died begins at the first pause again.
_LONG_LIFE_SECONDS = 60.0


def run_workers(
    count: int, host: str, port: int, options: GatewayOptions, log_level: str, announce: Callable[[str], object]
) -> None:
    """Run `count` gateways on one port until the first signal to end, then stop all of them properly.

    Parameters
    ----------
    count
        How many processes.
    host, port
        Where to listen.
    options
        Everything else, with the store that they share. One of the processes writes the archive, and another takes
        over where that dies.
    log_level
        As of `log_to_stderr`.
    announce
        Called with the base URL once all accept calls.

    Raises
    ------
    CannotServe, NoSharedPort
        The port cannot be listened on or shared, or a worker could not start and said why.
    """
    with signals_to_end() as ended:
        shared = SharedPort(host, port)
        workers = Workers(count, shared, options, log_level)
        try:
            workers.start(ended)
            if not ended.is_set():
                shown = f"[{host}]" if ":" in host else host
                announce(f"http://{shown}:{shared.port}")
            ended.wait()
        finally:
            workers.stop()
            shared.close()


class Workers:
    """Worker processes that are started again when they die.

    Parameters
    ----------
    count
        How many.
    port
        Where they listen.
    options
        Everything else that they are told.
    log_level
        From which level on they log.
    """

    def __init__(self, count: int, port: SharedPort, options: GatewayOptions, log_level: str) -> None:
        # Told by their input, never on a command line: keys are in it.
        order = {"port": port.part, "options": options.to_json(), "log_level": log_level}
        self._stopping = threading.Event()
        self._workers = [_Worker(number, order, port.inherited, self._stopping) for number in range(1, count + 1)]

    def start(self, ended: threading.Event) -> None:
        """Start all, and return once they accept calls or the end was asked for.

        Raises
        ------
        CannotServe
            One did not start, with its own reason.
        """
        for worker in self._workers:
            worker.start()
        deadline = time.monotonic() + _START_SECONDS
        for worker in self._workers:
            while not worker.started.wait(0.1) and not ended.is_set():
                if time.monotonic() > deadline:
                    raise CannotServe(f"a worker did not start within {_START_SECONDS:.0f} seconds")
            if worker.refusal:
                raise CannotServe(worker.refusal)

    def stop(self) -> None:
        """Let all finish what they are answering, and return once no process is left."""
        self._stopping.set()
        for worker in self._workers:
            worker.end()
        deadline = time.monotonic() + _STOP_SECONDS
        for worker in self._workers:
            worker.wait_for_end(max(0.0, deadline - time.monotonic()))


class _Worker:
    """One place among the workers, and the thread that keeps a process in it."""

    def __init__(
        self, number: int, order: Mapping[str, Any], inherited: tuple[int, ...], stopping: threading.Event
    ) -> None:
        self._number = number
        self._name = f"worker {number}"
        self._order = order
        self._inherited = inherited
        self._stopping = stopping
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name=f"gateway-{self._name}", daemon=True)
        #: Set once the first process accepts calls, or never will: then `refusal` says why.
        self.started = threading.Event()
        self.refusal = ""

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """End the input of the process: it stops by itself."""
        with self._guard:
            if self._process is not None and self._process.stdin is not None:
                self._process.stdin.close()

    def wait_for_end(self, seconds: float) -> None:
        """Return once the process is gone; one that does not go is killed."""
        if self._thread.ident is None:
            return
        self._thread.join(seconds)
        if self._thread.is_alive():
            with self._guard:
                if self._process is not None:
                    log.error("%s did not stop in time and was killed", self._name)
                    self._process.kill()
            self._thread.join()

    def _run(self) -> None:
        deaths = 0
        while not self._stopping.is_set():
            begun = time.monotonic()
            why = self._live()
            if not self.started.is_set():
                self.refusal = why
                self.started.set()
                return
            if self._stopping.is_set():
                return
            deaths = 1 if time.monotonic() - begun > _LONG_LIFE_SECONDS else deaths + 1
            pause = _PAUSES[min(deaths, len(_PAUSES)) - 1]
            log.warning("%s %s; it is started again in %.1f s", self._name, why, pause)
            self._stopping.wait(pause)

    def _live(self) -> str:
        """Run one process to its end and return how that came."""
        process = self._spawn()
        if process is None:
            return "was not started"
        assert process.stdout is not None  # asked for
        try:
            word = process.stdout.readline()
            said = json.loads(word) if word.endswith(b"\n") else {}
            if "ready" in said:
                self.started.set()
            code = process.wait()
        finally:
            process.stdout.close()
            self.end()
        return said.get("refused") or _ending(process.pid, code, "ready" in said)

    def _spawn(self) -> subprocess.Popen[bytes] | None:
        # The same places to import from as here.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        with self._guard:
            if self._stopping.is_set():
                return None
            process = self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _START],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
                pass_fds=self._inherited,
                bufsize=0,
            )
            assert process.stdin is not None  # asked for
            # What a gateway has to say about its start, only one says, and once.
            order = {**self._order, "says_how_it_starts": self._number == 1 and not self.started.is_set()}
            try:
                process.stdin.write(json.dumps(order).encode("utf-8") + b"\n")
            except BrokenPipeError:
                log.debug("%s died before it could be told what to do", self._name)  # its end says why
        return process


def _ending(pid: int, code: int, was_ready: bool) -> str:
    how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
    return f"(process {pid}) ended {how}" + ("" if was_ready else " before it was ready")
