"""Conditions take turns in one child process, shared fairly between owners; each lock has a budget of CPU time.

An owner is a lock and the recipients of its alert. Many locks whose alerts mail the same recipients share their turns,
and a lock keeps its debt if its alert is set again with other recipients.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from toolkit.dweets.conditions import ConditionWorker, Verdict

BUDGET_PERIOD = 60.0
# If the debts of owners differ by less than this, the owner that has waited longest is first.
_SECONDS_A_RANK = 0.05
_DEBTS_BEFORE_CLEANUP = 10_000


class Owner(NamedTuple):
    """The lock, and the recipients of its mails if there are any, whose debts count the CPU time of a condition."""

    lock: str
    recipients: tuple[str, ...] = ()


class _Turn(NamedTuple):
    owner: Owner
    work: Callable[[], Awaitable[Any]]
    done: asyncio.Future[asyncio.Task[Any]]


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
        self._waiting: dict[object, deque[_Turn]] = {}  # by recipients, or by lock if there are none
        self._next: list[tuple[int, int, object]] = []  # heap: rank, order, key in `_waiting`
        self._numbers = itertools.count()
        self._runner: asyncio.Task[None] | None = None

    async def check_compiles(self, owner: Owner, source: str) -> None:
        await self.take_turn(owner, partial(self._in_thread, owner, partial(self._worker.check_compiles, source)))

    async def evaluate(self, owner: Owner, source: str, contents: Sequence[bytes], max_faults: int) -> list[Verdict]:
        """Evaluate a condition in a turn of its owner; once the budget is used up, each verdict is a fault."""
        if self._debts.of(owner.lock) >= self._debts.budget:
            over = f"it has used its {self._debts.budget:g} seconds of CPU time for this minute"
            return [Verdict(None, over)] * min(len(contents), max_faults)
        done: list[Verdict] = await self._in_thread(owner, partial(self._worker.evaluate, source, contents, max_faults))
        return done

    async def take_turn(self, owner: Owner, work: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
        """Run `work` when it is this owner's turn, and return its result."""
        turn = _Turn(owner, work, asyncio.get_running_loop().create_future())
        queue = owner.recipients or owner.lock
        turns = self._waiting.setdefault(queue, deque())
        turns.append(turn)
        if len(turns) == 1:
            self._enqueue(queue, owner)
        if self._runner is None or self._runner.done():
            self._runner = asyncio.ensure_future(self._run_turns())
        return (await turn.done).result()

    def close(self) -> None:
        if self._runner is not None:
            self._runner.cancel()
        for turn in itertools.chain.from_iterable(self._waiting.values()):
            turn.done.cancel()
        self._worker.close()
        self._thread.shutdown(wait=True, cancel_futures=True)
        self._worker.join()

    async def _run_turns(self) -> None:
        while self._next:
            rank, number, queue = heapq.heappop(self._next)
            turns = self._waiting[queue]
            turn = turns[0]
            if (now := self._rank(turn.owner)) > rank:  # its owner has had another turn since
                heapq.heappush(self._next, (now, number, queue))
                continue
            if not turn.done.cancelled():
                task = asyncio.ensure_future(turn.work())
                await asyncio.gather(task, return_exceptions=True)
                if not turn.done.done():
                    turn.done.set_result(task)
            turns.popleft()
            if turns:
                self._enqueue(queue, turns[0].owner)
            else:
                del self._waiting[queue]

    def _enqueue(self, queue: object, owner: Owner) -> None:
        heapq.heappush(self._next, (self._rank(owner), next(self._numbers), queue))

    def _rank(self, owner: Owner) -> int:
        return int(max(self._debts.of(owner.lock), self._debts.of(owner.recipients)) / _SECONDS_A_RANK)

    async def _in_thread(self, owner: Owner, work: Callable[[], Any]) -> Any:  # noqa: ANN401
        before = self._worker.seconds
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            used = self._worker.seconds - before
            self._debts.add(owner.lock, used)
            if owner.recipients:
                self._debts.add(owner.recipients, used)
