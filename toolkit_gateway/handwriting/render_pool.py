"""Render in worker processes, so that the event loop is not blocked. A worker starts when it gets its first text."""

import asyncio
import logging
import threading
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import cast

from toolkit.errors import InvalidParameters, Overloaded, Problem, ServiceFailure
from toolkit.system.worker_process import Death, WorkerDied, WorkerProcess
from toolkit_gateway.fair_queue import FairQueue, QueueFull
from toolkit_gateway.handwriting import refusals
from toolkit_gateway.handwriting.render_job import Job, Outcome
from toolkit_gateway.ink.parameters import Parameters, Rendering

log = logging.getLogger("toolkit_gateway.handwriting")

WORKER_MODULE = "toolkit_gateway.handwriting.render_worker"
# The limit of wall-clock time is this multiple of the CPU limit, for a renderer that hangs or an overloaded machine.
# On Windows, this is the only limit.
_WALL_TIME_FACTOR = 10
_RETRY_SECONDS = 2.0
# A process whose caches grow larger is replaced. The letters of all hands take less.
_CACHE_BYTES = 128 * 1024 * 1024
# A process has this time to finish a cancelled job before it is killed; a new process takes as long to start.
_GRACE_SECONDS = 1.0


class RenderPool:
    """Renders up to `size` texts at the same time, each in its own process and with a limit of CPU time."""

    def __init__(self, size: int, max_waiting: int, cpu_seconds: float) -> None:
        self._queue = FairQueue(size, max_waiting)
        self._cpu_seconds = cpu_seconds
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="render")
        self._workers = [WorkerProcess(WORKER_MODULE, Outcome, _CACHE_BYTES) for _ in range(size)]
        # The most recent worker is used first: under light load the other workers are never started.
        self._idle = list(self._workers)

    async def render(self, parameters: Parameters, key: Hashable) -> Rendering:
        """Render a text for the caller with this key; cancelling this coroutine stops the rendering."""
        outcome = await self._run_job((parameters, False, self._cpu_seconds), key)
        if isinstance(outcome, tuple):
            raise InvalidParameters(outcome)
        return outcome

    async def check_characters(self, parameters: Parameters, key: Hashable) -> tuple[Problem, ...]:
        outcome = await self._run_job((parameters, True, self._cpu_seconds), key)
        return outcome if isinstance(outcome, tuple) else ()

    def close(self) -> None:
        """End all processes; unfinished renderings are lost."""
        for worker in self._workers:
            worker.stop()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for worker in self._workers:
            worker.close()

    async def _run_job(self, job: Job, key: Hashable) -> Rendering | tuple[Problem, ...]:
        try:
            await self._queue.acquire(key)
        except QueueFull:
            raise Overloaded(refusals.QUEUE_FULL, retry_after=_RETRY_SECONDS) from None
        loop = asyncio.get_running_loop()
        worker, cancelled = self._idle.pop(), threading.Event()
        rendering = loop.run_in_executor(self._threads, self._run_in_worker, worker, job, cancelled)
        rendering.add_done_callback(lambda _: self._return_worker(worker))

        def kill_if_unfinished() -> None:
            if not rendering.done():
                worker.kill()

        try:
            outcome = await asyncio.shield(rendering)
        except asyncio.CancelledError:
            cancelled.set()
            loop.call_later(_GRACE_SECONDS, kill_if_unfinished)
            raise
        if isinstance(outcome, WorkerDied | str):
            log.error("rendering failed: %s", outcome)
            raise _error_of(outcome)
        return outcome

    def _return_worker(self, worker: WorkerProcess) -> None:
        self._idle.append(worker)
        self._queue.release()

    def _run_in_worker(self, worker: WorkerProcess, job: Job, cancelled: threading.Event) -> Outcome | WorkerDied:
        for _ in range(2):
            try:
                (outcome,) = worker.do(job, _WALL_TIME_FACTOR * self._cpu_seconds)
            except WorkerDied as died:
                outcome = died
                if died.death is Death.OTHER and not cancelled.is_set():
                    continue  # retry: another program killed the worker, not this text
            break
        return cast("Outcome | WorkerDied", outcome)


def _error_of(outcome: WorkerDied | str) -> ServiceFailure | InvalidParameters:
    death = outcome.death if isinstance(outcome, WorkerDied) else None
    if death is Death.CPU_LIMIT:
        return InvalidParameters([Problem(None, refusals.TOO_MUCH_WORK)])
    if death is Death.WALL_LIMIT:
        return Overloaded(refusals.TOO_BUSY, retry_after=_RETRY_SECONDS)
    return ServiceFailure("the gateway failed at this rendering")
