"""Alerts: follow locked things, evaluate conditions, and store what triggers.

An alert's record holds the number of the last dweet that was evaluated for certain. The alert's change, that number
and the mail are written in one step, so a gateway that is killed at any moment evaluates the rest again after its
restart and queues no mail twice. Of many gateways on one store the first to write counts; the others go on from there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from typing import Any

from msgspec.structs import replace

from toolkit.dweets import wire
from toolkit.dweets.conditions import CONTENTS_A_JOB, FAULTS_TO_STOP, PAUSES, Verdict
from toolkit.dweets.content import content_of
from toolkit.dweets.service.alert_records import Alert, AlertRepository, MailCount
from toolkit.dweets.service.condition_turns import Conditions, Owner
from toolkit.dweets.service.stored_records import DamagedRecord, RecordChanged, Stored, new_version, retry_while_changed
from toolkit.dweets.service.things import journal_of
from toolkit.errors import StoreUnavailable
from toolkit.outside_world import Timings
from toolkit.stores import Entry, Store

# After so many dweets without a change the alert's position is written down.
_DWEETS_A_CHECKPOINT = 1_000
# New dweets of a thing that wait in memory for the turn of its alert; more are read from the journal then.
_BYTES_AT_HAND = 16 * 1024
_BYTES_A_JOB = 1024 * 1024
_SECONDS_TO_RETRY = 1.0


class _Watch:
    def __init__(self, stored: Stored[Alert]) -> None:
        self.fault: str | None = None
        self.unfollow: Callable[[], None] = lambda: None
        self.task: asyncio.Task[None] | None = None
        self.start_at(stored)

    def start_at(self, stored: Stored[Alert]) -> None:
        self.stored = stored
        self.alert = stored.record
        self.count: Stored[MailCount] = Stored(MailCount(), None)
        self.faults_in_a_row = 0
        self.pauses = 0
        self.is_stopped = False
        self.is_outdated = True  # the alert and its count are to be read again
        self.skip_waiting()

    @property
    def has_work(self) -> bool:
        return not self.is_stopped and (self.is_outdated or self.has_missed or bool(self.waiting))

    def wait(self, entries: Sequence[Entry]) -> None:
        self.waiting_bytes += sum(len(entry.data) for entry in entries)
        if self.waiting_bytes > _BYTES_AT_HAND:
            self.skip_waiting()
        elif not self.has_missed:
            self.waiting += entries

    def skip_waiting(self) -> None:
        """Forget the waiting entries: what came after the alert's position is read from the journal."""
        self.waiting: list[Entry] = []
        self.waiting_bytes = 0
        self.has_missed = True

    def note(self, verdict: Verdict) -> None:
        self.faults_in_a_row = self.faults_in_a_row + 1 if verdict.fault else 0
        self.is_stopped = verdict.stops or self.faults_in_a_row >= FAULTS_TO_STOP
        if verdict.stops:
            self.fault = f"stopped, set it again: {verdict.fault}"
        elif self.is_stopped:
            self.fault = f"stopped after {FAULTS_TO_STOP} failures in a row, set it again: {verdict.fault}"
        else:
            self.fault = verdict.fault and f"the condition failed: {verdict.fault}"


class Alerts:
    def __init__(self, store: Store, now: Callable[[], int], timings: Timings) -> None:
        self._journals = store.journals
        self._now = now
        self._settle_seconds = timings.settle
        self._watches: dict[str, _Watch] = {}
        self._conditions = Conditions(timings.condition_budget)
        self._unwatch: Callable[[], None] = lambda: None
        self.repository = AlertRepository(store.records)

    async def open(self) -> None:
        """Continue every alert where it stopped, with the dweets that have come since."""
        self._unwatch = await self.repository.watch(self._mirror)

    async def close(self) -> None:
        """Stop; what is not evaluated yet is evaluated after the next start."""
        self._unwatch()
        tasks = [watch.task for watch in self._watches.values() if watch.task is not None]
        for thing in list(self._watches):
            self._end(thing)
        await asyncio.gather(*tasks, return_exceptions=True)
        self._conditions.close()

    async def compile(self, lock: str, condition: str) -> None:
        await self._conditions.compile(Owner(lock), condition)

    async def settle(self, thing: str | None = None) -> None:
        """Wait a while until every dweet committed so far, to any gateway, is evaluated."""
        names = [thing] if thing is not None else list(self._watches)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settle_seconds):
                for name in names:
                    await self._settle(name)

    async def _settle(self, thing: str) -> None:
        if thing not in self._watches:  # perhaps it was set at another gateway, just now
            with contextlib.suppress(DamagedRecord):  # reported when it was mirrored
                self._mirror(thing, await self.repository.read(thing))
        newest = await self._journals.last(journal_of(thing), 1)
        while newest and (watch := self._watches.get(thing)) is not None:
            if watch.task is None:
                if watch.is_stopped or watch.alert.position >= newest[-1].sequence:
                    return
                watch.skip_waiting()
                self._wake(watch)
            assert watch.task is not None
            await asyncio.wait([watch.task])

    async def status_of(self, alert: Alert) -> dict[str, Any]:
        watch = self._watches.get(alert.thing)
        today = datetime.fromtimestamp(self._now() / 1000, UTC).strftime("%Y-%m-%d")
        count = await self.repository.read_count(alert)
        return alert.status(count.record.on(today), watch.fault if watch is not None else None)

    # -- following ----------------------------------------------------------------------------------------

    def _mirror(self, thing: str, stored: Stored[Alert] | None) -> None:
        watch = self._watches.get(thing)
        if watch is not None:
            if stored is not None and stored.version == watch.stored.version:
                return  # written here
            self._end(thing)
        if stored is not None:
            self._begin(thing, stored)

    def _begin(self, thing: str, stored: Stored[Alert]) -> None:
        watch = self._watches[thing] = _Watch(stored)

        def take(entries: Sequence[Entry]) -> None:
            if not watch.is_stopped:
                watch.wait(entries)
                self._wake(watch)

        watch.unfollow = self._journals.subscribe(journal_of(thing), take)
        self._wake(watch)

    def _end(self, thing: str) -> None:
        watch = self._watches.pop(thing)
        watch.unfollow()
        if watch.task is not None:
            watch.task.cancel()

    def _wake(self, watch: _Watch) -> None:
        if watch.task is None:
            watch.task = asyncio.ensure_future(self._work(watch))

    # -- evaluating ---------------------------------------------------------------------------------------

    async def _work(self, watch: _Watch) -> None:
        try:
            while watch.has_work:
                try:
                    if not await retry_while_changed("this alert", lambda: self._evaluate_some(watch)):
                        return
                except StoreUnavailable:
                    watch.is_outdated = True
                    await asyncio.sleep(_SECONDS_TO_RETRY)
        finally:
            watch.task = None

    async def _evaluate_some(self, watch: _Watch) -> bool:
        """Evaluate some of the dweets that wait; False where there is no alert any more."""
        if watch.is_outdated and not await self._read(watch):
            return False
        entries, verdicts = await self._conditions.take_turn(watch.alert.owner, partial(self._evaluate, watch))
        try:
            for entry, verdict in zip(entries, verdicts, strict=False):
                await self._take(watch, entry, verdict)
        except RecordChanged:
            watch.is_outdated = True
            raise
        if len(verdicts) < len(entries):
            watch.skip_waiting()
        watch.pauses = watch.pauses + 1 if entries and not verdicts else 0
        if watch.pauses:  # the child was ended from outside
            await asyncio.sleep(PAUSES[min(watch.pauses, len(PAUSES)) - 1])
        return True

    async def _read(self, watch: _Watch) -> bool:
        try:
            stored = await self.repository.read(watch.alert.thing)
        except DamagedRecord:  # reported when it is mirrored
            return False
        if stored is None:
            return False
        count = await self.repository.read_count(stored.record)
        watch.start_at(stored)
        watch.count, watch.is_outdated = count, False
        return True

    async def _evaluate(self, watch: _Watch) -> tuple[list[Entry], list[Verdict]]:
        """Evaluate the next entries: in a turn, so that only one alert has many of them in memory."""
        entries, has_missed = watch.waiting, watch.has_missed
        watch.skip_waiting()
        watch.has_missed = False
        if has_missed:
            entries = await self._journals.after(journal_of(watch.alert.thing), watch.alert.position, CONTENTS_A_JOB)
            watch.has_missed |= len(entries) == CONTENTS_A_JOB
        entries = [entry for entry in entries if entry.sequence > watch.alert.position]  # read and heard
        contents = _first_bytes([content_of(entry.data) for entry in entries])
        if not contents:
            return [], []
        patience = FAULTS_TO_STOP - watch.faults_in_a_row
        return entries, await self._conditions.evaluate(watch.alert.owner, watch.alert.condition, contents, patience)

    async def _take(self, watch: _Watch, entry: Entry, verdict: Verdict) -> None:
        if entry.sequence <= watch.alert.position:
            return  # heard twice
        watch.note(verdict)
        before, watch.alert = watch.alert, watch.alert.after(entry, verdict)
        is_changed = replace(watch.alert, position=before.position) != before
        if is_changed or entry.sequence - watch.stored.record.position >= _DWEETS_A_CHECKPOINT:
            await self._write(watch, entry if watch.alert.is_triggered_after(before) else None)

    async def _write(self, watch: _Watch, trigger: Entry | None) -> None:
        mail = None
        if trigger is not None and watch.count.record.on(wire.created_text(trigger.at)[:10]) < wire.ALERTS_A_DAY:
            mail = watch.alert.mail_about(trigger)
        before, watch.stored = watch.stored, new_version(watch.alert)
        # `stored` is set before: the mirror must recognise the change as its own.
        try:
            watch.count = await self.repository.replace(before, watch.stored, mail, watch.count)
        except (RecordChanged, StoreUnavailable):
            watch.stored = before
            raise


def _first_bytes(contents: list[bytes]) -> list[bytes]:
    """Return the first contents: at least one, and no more than a job may hold."""
    ends = accumulate(map(len, contents))
    return contents[: max(1, sum(end <= _BYTES_A_JOB for end in ends))]
