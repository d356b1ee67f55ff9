"""Rendering beside the event loop: a few processes, started when the first text comes."""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

from toolkit.errors import ServiceFailure
from toolkit.handwriting.render_jobs import Job, Mistake, Outcome, Rendered
from toolkit.handwriting.wire import Problem

log = logging.getLogger("toolkit.handwriting")

_START = "from toolkit.handwriting.render_worker import main; main()"
# In seconds: far above any text within the limits on a slow and busy machine; a stuck process is not for ever.
_LONGEST_RENDER = 120.0


class RenderPool:
    """At most `size` renders at once, each in a process of its own; more of them queue.

    Plain child processes and pipes: ``multiprocessing`` would import the caller's script again in every child, and
    its children outlive a gateway that is killed. These end with the pipe.

    Parameters
    ----------
    size
        Processes.
    """

    def __init__(self, size: int) -> None:
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="render")
        self._idle: queue.LifoQueue[_Worker] = queue.LifoQueue()
        self._workers: set[_Worker] = set()

    async def do(self, job: Job) -> Rendered | Problem | None:
        """Do a job and return what became of it.

        Raises
        ------
        ServiceFailure
            The process died, hung or made a mistake.
        """
        outcome = await asyncio.get_running_loop().run_in_executor(self._threads, self._do, job)
        if isinstance(outcome, Mistake):
            log.error("rendering failed: %s", outcome.place)
            raise ServiceFailure("the gateway failed at this rendering")
        return outcome

    def close(self) -> None:
        """End all processes; what is being rendered is given up."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in list(self._workers):
            worker.kill()
        self._threads.shutdown(wait=True)
        while not self._idle.empty():
            self._idle.get().close()

    def _do(self, job: Job) -> Outcome:
        # The most recently used process first: the others need not even exist.
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = _Worker()
            self._workers.add(worker)
        outcome = worker.do(job)
        if worker.is_alive:
            self._idle.put(worker)
        else:
            self._workers.discard(worker)
        return outcome


class _Worker:
    """One process and the two pipes to it."""

    def __init__(self) -> None:
        # The same places to import from as here, whatever a notebook has added to them.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        assert self._process.stdin is not None  # asked for above
        assert self._process.stdout is not None
        self._jobs = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self._outcomes = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        self._process.stdin.close()
        self._process.stdout.close()

    @property
    def is_alive(self) -> bool:
        return not self._jobs.closed

    def do(self, job: Job) -> Outcome:
        try:
            self._jobs.send(job)
            if self._outcomes.poll(_LONGEST_RENDER):
                outcome: Outcome = self._outcomes.recv()
                return outcome
            why = f"no answer within {_LONGEST_RENDER:.0f} seconds"
        except (EOFError, OSError):
            why = "the process ended"
        self.close()
        return Mistake(why)

    def kill(self) -> None:
        """End the process at once; whoever waits for it is told so by the pipe."""
        self._process.kill()

    def close(self) -> None:
        """End the process, whatever it does, and let go of the pipes."""
        self._process.kill()
        self._process.wait()
        self._jobs.close()
        self._outcomes.close()
