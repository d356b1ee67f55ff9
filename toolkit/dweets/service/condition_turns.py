"""Conditions take turns in one child process, shared fairly between owners; each lock has a budget of CPU time.

An owner is a lock and the recipients of its alert. Many locks whose alerts mail the same recipients share one debt, and
a lock keeps its debt if its alert is set again with other recipients.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import NamedTuple, TypeVar

from toolkit.dweets.conditions import ConditionWorker, Verdict
from toolkit.fair_queue import FairQueue

T = TypeVar("T")

BUDGET_PERIOD = 60.0
# If the debts of owners differ by less than this, the owner that has waited longest is first.
_SECONDS_A_RANK = 0.05
_DEBTS_BEFORE_CLEANUP = 10_000


class Owner(NamedTuple):
    """The lock, and the recipients of its mails if there are any, whose debts count the CPU time of a condition."""

    lock: str
    recipients: tuple[str, ...] = ()


class Debts:
    """CPU seconds that a lock or a group of recipients used recently; a debt falls by one `budget` per period."""

    def __init__(self, budget: float, now: Callable[[], float] = time.monotonic) -> None:
        self.budget = budget
        self._now = now
        self._paid_off_at: dict[object, float] = {}

    def __len__(self) -> int:
        return len(self._paid_off_at)

    def of(self, debtor: object) -> float:
        left = self._paid_off_at.get(debtor, 0.0) - self._now()
        return max(0.0, left) * self.budget / BUDGET_PERIOD

    def add(self, debtor: object, seconds: float) -> None:
        now = self._now()
        if len(self._paid_off_at) >= _DEBTS_BEFORE_CLEANUP:
            self._paid_off_at = {key: at for key, at in self._paid_off_at.items() if at > now}
        since = max(now, self._paid_off_at.get(debtor, 0.0))
        self._paid_off_at[debtor] = since + seconds * BUDGET_PERIOD / self.budget


class Conditions:
    """All conditions of a gateway. The owner with the smallest debt gets the next turn."""

    def __init__(self, budget: float) -> None:
        self._thread = ThreadPoolExecutor(1, "gateway-alerts")
        self._worker = ConditionWorker()
        self._debts = Debts(budget)
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
        """Evaluate a condition in its owner's `turn`; once the budget is used up, each verdict is a fault."""
        if self._debts.of(owner.lock) >= self._debts.budget:
            over = f"it has used its {self._debts.budget:g} seconds of CPU time for this minute"
            return [Verdict(None, over)] * len(contents)
        return await self._in_thread(owner, partial(self._worker.evaluate, source, contents))

    def close(self) -> None:
        self._turns.close()
        self._worker.close()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._worker.join()

    def _rank(self, owner: Owner) -> int:
        return int(max(map(self._debts.of, owner)) / _SECONDS_A_RANK)

    async def _in_thread(self, owner: Owner, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()

        def measured() -> T:
            before = self._worker.seconds
            try:
                return work()
            finally:  # also if the caller was cancelled
                loop.call_soon_threadsafe(self._charge, owner, self._worker.seconds - before)

        return await loop.run_in_executor(self._thread, measured)

    def _charge(self, owner: Owner, seconds: float) -> None:
        for debtor in filter(None, owner):
            self._debts.add(debtor, seconds)
