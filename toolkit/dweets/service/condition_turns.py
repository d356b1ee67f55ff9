"""Conditions take turns in one child process, shared fairly between owners; each lock has a budget of CPU time.

An owner is a lock and the recipients of its alert. Both are charged for the CPU time. So many locks whose alerts mail
the same recipients get no more turns than one lock, and a lock gets no new budget by a change of its recipients.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple, TypeVar

from toolkit.dweets.conditions import ConditionWorker, Verdict
from toolkit.fair_queue import FairQueue
from toolkit.rate_limit import RateLimit

T = TypeVar("T")

_BUDGET_PERIOD = 60.0  # seconds in which a used-up budget is full again
# Owners with the same rank have used about the same CPU time; of these, the one that has waited longest is first.
_SECONDS_PER_RANK = 0.05


class Owner(NamedTuple):
    """The lock and the recipients of its mails, if any: both are charged for the CPU time of a condition."""

    lock: str
    recipients: tuple[str, ...] = ()


class Conditions:
    """All conditions of a gateway. The owner that used least CPU time recently gets the next turn.

    A lock may use `budget` seconds of CPU time at once, and as much again in each following minute.
    """

    def __init__(self, budget: float) -> None:
        self._thread = ThreadPoolExecutor(1, "gateway-alerts")
        self._worker = ConditionWorker()
        self._budget = budget
        self._seconds_left = RateLimit(budget, budget / _BUDGET_PERIOD, time.monotonic)
        self._turns = FairQueue(1, rank=self._rank)

    @asynccontextmanager
    async def turn(self, owner: Owner) -> AsyncIterator[None]:
        """Wait for the turn of this owner, which ends with the block."""
        await self._turns.acquire(owner)
        try:
            yield
        finally:
            self._turns.release()

    async def check_compiles(self, owner: Owner, source: str) -> None:
        async with self.turn(owner):
            await self._in_thread(owner, partial(self._worker.check_compiles, source))

    async def evaluate(self, owner: Owner, source: str, contents: Sequence[bytes]) -> list[Verdict]:
        """Evaluate a condition, within the owner's `turn`; once the budget is used up, each verdict is a fault."""
        if not contents:
            return []
        if self._seconds_left.tokens(owner.lock) <= 0:
            fault = f"it has used its {self._budget:g} seconds of CPU time for this minute"
            return [Verdict(None, fault, is_skipped=True)] * len(contents)
        return await self._in_thread(owner, partial(self._worker.evaluate, source, contents))

    def close(self) -> None:
        self._turns.close()
        self._worker.stop()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._worker.close()

    def _rank(self, owner: Owner) -> int:
        return int((self._budget - min(map(self._seconds_left.tokens, owner))) / _SECONDS_PER_RANK)

    async def _in_thread(self, owner: Owner, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()

        def measured() -> T:
            before = self._worker.seconds
            try:
                return work()
            finally:  # also if the caller was cancelled
                seconds = self._worker.seconds - before
                for debtor in filter(None, owner):
                    loop.call_soon_threadsafe(self._seconds_left.charge, debtor, seconds)

        return await loop.run_in_executor(self._thread, measured)
