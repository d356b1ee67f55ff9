"""The conditions of all alerts take turns in one child process.

The keys of the turns are the recipients of the alerts. So many locks whose alerts mail the same recipients get no more
turns than one lock.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from toolkit.dweets.conditions import ConditionWorker, Verdict
from toolkit_gateway.fair_queue import FairQueue

T = TypeVar("T")


class Conditions:
    def __init__(self, seconds: tuple[float, float]) -> None:
        self._thread = ThreadPoolExecutor(1, "gateway-alerts")
        self._worker = ConditionWorker(seconds)
        self._turns = FairQueue(1)

    @asynccontextmanager
    async def turn(self, recipients: Sequence[str]) -> AsyncIterator[None]:
        """Wait for the turn of an alert with these recipients, which ends with the block."""
        await self._turns.acquire(tuple(sorted(set(recipients))))
        try:
            yield
        finally:
            self._turns.release()

    async def check_compiles(self, recipients: Sequence[str], source: str) -> None:
        async with self.turn(recipients):
            await self._in_thread(partial(self._worker.check_compiles, source))

    async def evaluate(self, source: str, contents: Sequence[bytes]) -> list[Verdict]:
        """Evaluate a condition on the first contents, as many as fit into a `turn`, which the caller has."""
        return await self._in_thread(partial(self._worker.evaluate, source, contents)) if contents else []

    def close(self) -> None:
        self._turns.close()
        self._worker.stop()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._worker.close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
