"""Rendering beside the event loop: a few processes, started when the first text comes."""

from __future__ import annotations

import asyncio
import logging
import queue
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias, cast

from toolkit.errors import ServiceFailure
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.parameters import Parameters
from toolkit.handwriting.wire import InvalidParameters, Problem
from toolkit.worker_process import Death, WorkerDied, WorkerProcess

log = logging.getLogger("toolkit.handwriting")

_WORKER = "toolkit.handwriting.service.render_worker"
# In seconds: far above any text within the limits on a slow and busy machine; a stuck process is not for ever.
_LONGEST_RENDER = 120.0

#: A rendering, what is wrong with its parameters (or nothing), or the place where the renderer failed.
Outcome: TypeAlias = Handwritten | tuple[Problem, ...] | str


class RenderPool:
    """At most `size` renders at once, each in a process of its own; more of them queue.

    Parameters
    ----------
    size
        Processes.
    """

    def __init__(self, size: int) -> None:
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="render")
        self._workers = [WorkerProcess(_WORKER) for _ in range(size)]
        # The most recently used process first: the others need not even exist.
        self._idle: queue.LifoQueue[WorkerProcess] = queue.LifoQueue()
        for worker in self._workers:
            self._idle.put(worker)

    async def render(self, parameters: Parameters) -> Handwritten:
        """Render a text.

        Raises
        ------
        InvalidParameters
            The text cannot be drawn like this.
        ServiceFailure
            The process died, hung or failed.
        """
        outcome = await self._run(parameters, checks_only=False)
        if isinstance(outcome, tuple):
            raise InvalidParameters(outcome)
        return outcome

    async def missing_characters(self, parameters: Parameters) -> tuple[Problem, ...]:
        """Return the problem of a text with characters that cannot be written, if it has some."""
        outcome = await self._run(parameters, checks_only=True)
        return outcome if isinstance(outcome, tuple) else ()

    def close(self) -> None:
        """End all processes; what is being rendered is given up."""
        for worker in self._workers:
            worker.close()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers:
            worker.join()

    async def _run(self, parameters: Parameters, *, checks_only: bool) -> Handwritten | tuple[Problem, ...]:
        job = parameters, checks_only
        outcome = await asyncio.get_running_loop().run_in_executor(self._threads, self._do, job)
        if isinstance(outcome, str):
            log.error("rendering failed: %s", outcome)
            raise ServiceFailure("the gateway failed at this rendering")
        return outcome

    def _do(self, job: tuple[Parameters, bool]) -> Outcome:
        worker = self._idle.get_nowait()  # there are as many as threads
        try:
            outcome = _render(worker, job)
            if isinstance(outcome, WorkerDied) and outcome.death is Death.OTHER:
                outcome = _render(worker, job)  # ended from outside, which says nothing about the text
        finally:
            self._idle.put(worker)
        return str(outcome) if isinstance(outcome, WorkerDied) else outcome


def _render(worker: WorkerProcess, job: tuple[Parameters, bool]) -> Outcome | WorkerDied:
    try:
        (outcome,) = worker.do(job, _LONGEST_RENDER)
    except WorkerDied as died:
        return died
    return cast("Outcome", outcome)
