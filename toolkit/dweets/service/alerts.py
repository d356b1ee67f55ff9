"""Alerts: their records, the evaluation of their conditions, and the mail that an alert sends when it triggers.

The state of an alert, the number of the last evaluated dweet and the mail are written in one step. So a gateway that is
killed at any moment evaluates the rest after its restart and queues no mail twice. If two gateways evaluate the same
alert, the first compare_and_set wins, and the other one continues from there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

from msgspec.structs import replace

from toolkit.dweets import wire
from toolkit.dweets.conditions import CONTENTS_A_JOB, FAULTS_TO_STOP, RESTART_PAUSES, Verdict
from toolkit.dweets.content import content_of
from toolkit.dweets.service.condition_turns import Conditions, Owner
from toolkit.dweets.service.mail import Mail, check_recipients
from toolkit.dweets.service.stored_records import (
    SPACE,
    Changes,
    DamagedRecord,
    Record,
    RecordChanged,
    StoredRecord,
    alert_key,
    compare_and_set,
    encode_record,
    new_version,
    read_stored,
    retry_while_changed,
    thing_key,
)
from toolkit.dweets.service.things import journal_of
from toolkit.errors import StoreUnavailable
from toolkit.outside_world import OutsideWorld
from toolkit.stores import Entry, Records, Store

log = logging.getLogger("toolkit.gateway")

# The position of an alert that does not change is stored after this many dweets.
_DWEETS_A_CHECKPOINT = 1_000
_BYTES_A_JOB = 1024 * 1024
_SECONDS_TO_RETRY = 1.0


class Alert(Record, frozen=True):
    """An alert in the store. Every dweet up to the sequence number ``position`` has been evaluated."""

    thing: str
    lock: str
    who: list[str]
    condition: str
    position: int
    is_open: bool = False
    message: str = ""
    since: str | None = None

    def check_for_key(self, key: str) -> None:
        if alert_key(self.thing) != key:
            raise DamagedRecord("it belongs to another thing")
        check_recipients(self.who)

    @property
    def owner(self) -> Owner:
        return Owner(self.lock, tuple(sorted(set(self.who))))

    def response(self) -> dict[str, Any]:
        recipients = [{"type": "email", "address": address} for address in self.who]
        return {"thing": self.thing, "condition": self.condition, "is_demo": False, "recipients": recipients}

    def status(self, mails_today: int, fault: str | None) -> dict[str, Any]:
        values = (fault or self.message, self.since, self.is_open, mails_today, wire.ALERTS_A_DAY)
        return dict(zip(wire.ALERT_STATUS_FIELDS, values, strict=True))

    def after(self, entry: Entry, verdict: Verdict) -> Alert:
        here = replace(self, position=entry.sequence)
        if verdict.fault is not None or (not verdict.met and not self.is_open):
            return here
        if not verdict.met:
            return replace(here, is_open=False, message="", since=None)
        since = self.since if self.is_open else wire.created_text(entry.at)
        return replace(here, is_open=True, message=verdict.message or "", since=since)

    def is_triggered_after(self, before: Alert) -> bool:
        """Whether the alert has opened since `before`, or its message has changed."""
        return self.is_open and (self.is_open, self.message) != (before.is_open, before.message)

    def trigger_mail(self, entry: Entry) -> Mail:
        created = wire.created_text(entry.at)
        text = (
            f"{self.message}\n\n"
            f"Thing:     {self.thing}\nDweet of:  {created}\nContent:   {content_of(entry.data).decode('utf-8')}\n"
            f"Condition: {self.condition}\n\n"
            f"You get one mail when the alert opens or its message changes; it has been open since {self.since}.\n"
        )
        return Mail.for_alert(self.thing, entry.sequence, entry.at, self.who, self.message, text)


class MailCount(Record, frozen=True):
    """The number of mails that a lock caused on a day, also if it was on several things or its alert was set again."""

    day: str = ""
    mails: int = 0

    def on(self, day: str) -> int:
        return self.mails if self.day == day else 0


class AlertRepository:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def subscribe(self, on_change: Callable[[str, StoredRecord[Alert] | None], None]) -> Callable[[], None]:
        """Call `on_change` with thing and alert, now and after each change; None for a removed or damaged alert."""

        def mirror(key: str, value: bytes | None) -> None:
            kind, _, thing = key.partition(":")
            if kind != "alert":
                return
            stored = None
            try:
                stored = None if value is None else StoredRecord(Alert.parse(key, value), value)
            except DamagedRecord as damage:
                log.error("the alert of the thing %a is damaged, set it again: %s; it sends no mail", thing, damage)
            on_change(thing, stored)

        return await self._records.subscribe(SPACE, mirror)

    async def read(self, thing: str) -> StoredRecord[Alert] | None:
        return await read_stored(self._records, Alert, alert_key(thing))

    async def read_mail_count(self, alert: Alert) -> StoredRecord[MailCount]:
        data = await self._records.get(SPACE, _count_key(alert))
        count = MailCount()
        try:
            count = MailCount() if data is None else MailCount.parse(_count_key(alert), data)
        except DamagedRecord as damage:
            log.error("the mail count of the lock %a is damaged: %s; the count starts at 0", alert.lock, damage)
        return StoredRecord(count, data)

    async def set(self, alert: Alert, lock_version: bytes | None) -> None:
        expected = {thing_key(alert.thing): lock_version}
        await compare_and_set(self._records, expected, {alert_key(alert.thing): encode_record(alert)})

    async def remove(self, thing: str) -> bool:
        key = alert_key(thing)

        async def attempt() -> bool:
            data = await self._records.get(SPACE, key)
            if data is not None:
                await compare_and_set(self._records, {key: data}, {key: None})
            return data is not None

        return await retry_while_changed("this alert", attempt)

    async def replace(
        self, before: StoredRecord[Alert], after: StoredRecord[Alert], mail: Mail | None, count: StoredRecord[MailCount]
    ) -> StoredRecord[MailCount]:
        """Replace an alert, add its mail and count it in one step; return the new count, or raise RecordChanged."""
        key, count_key = alert_key(after.record.thing), _count_key(after.record)
        expected: Changes = {key: before.version}
        changes: Changes = {key: after.version}
        if mail is not None:
            expected[count_key] = count.version
            day = wire.created_text(mail.at)[:10]
            count = new_version(MailCount(day, count.record.on(day) + 1))
            changes |= {mail.key: encode_record(mail), count_key: count.version}
        await compare_and_set(self._records, expected, changes)
        return count


def _count_key(alert: Alert) -> str:
    return f"mails-today:{alert.lock}"


class _Evaluator:
    """The state of one alert while this gateway evaluates its condition."""

    def __init__(self, stored: StoredRecord[Alert]) -> None:
        self.fault: str | None = None
        self.unsubscribe: Callable[[], None] = lambda: None
        self.task: asyncio.Task[None] | None = None
        self.start_at(stored)

    def start_at(self, stored: StoredRecord[Alert]) -> None:
        self.stored = stored
        self.alert = stored.record
        self.count: StoredRecord[MailCount] = StoredRecord(MailCount(), None)
        self.faults_in_a_row = 0
        self.pauses = 0
        self.is_stopped = False
        self.is_outdated = True  # the alert and its count must be read again
        self.has_new_dweets = True

    def note_verdict(self, verdict: Verdict) -> None:
        self.faults_in_a_row = self.faults_in_a_row + 1 if verdict.fault else 0
        self.is_stopped = verdict.stops or self.faults_in_a_row >= FAULTS_TO_STOP
        if verdict.stops:
            self.fault = f"stopped, set the alert again: {verdict.fault}"
        elif self.is_stopped:
            self.fault = f"stopped after {FAULTS_TO_STOP} failures in a row, set the alert again: {verdict.fault}"
        else:
            self.fault = verdict.fault and f"the condition failed: {verdict.fault}"


class Alerts:
    def __init__(self, store: Store, world: OutsideWorld) -> None:
        self._journals = store.journals
        self._now = world.clock.now
        self._settle_seconds = world.timings.settle
        self._evaluators: dict[str, _Evaluator] = {}
        self.conditions = Conditions(world.timings.condition_budget)
        self._unsubscribe: Callable[[], None] = lambda: None
        self.repository = AlertRepository(store.records)

    async def open(self) -> None:
        self._unsubscribe = await self.repository.subscribe(self._mirror)

    async def close(self) -> None:
        self._unsubscribe()
        tasks = [evaluator.task for evaluator in self._evaluators.values() if evaluator.task is not None]
        for thing in list(self._evaluators):
            self._end_evaluation(thing)
        await asyncio.gather(*tasks, return_exceptions=True)
        self.conditions.close()

    async def settle(self, thing: str | None = None) -> None:
        """Wait some seconds until every dweet that any gateway has committed is evaluated, of one thing or of all."""
        names = [thing] if thing is not None else list(self._evaluators)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settle_seconds):
                for name in names:
                    await self._settle(name)

    async def _settle(self, thing: str) -> None:
        if thing not in self._evaluators:  # another gateway may just have set it
            with contextlib.suppress(DamagedRecord):  # logged when it was mirrored
                self._mirror(thing, await self.repository.read(thing))
        newest = await self._journals.last(journal_of(thing), 1)
        while newest and (evaluator := self._evaluators.get(thing)) is not None:
            if evaluator.task is None:
                if evaluator.is_stopped or evaluator.alert.position >= newest[-1].sequence:
                    return
                evaluator.has_new_dweets = True
                self._start_task(evaluator)
            assert evaluator.task is not None
            await asyncio.wait([evaluator.task])

    async def status_of(self, alert: Alert) -> dict[str, Any]:
        evaluator = self._evaluators.get(alert.thing)
        today = datetime.fromtimestamp(self._now() / 1000, UTC).strftime("%Y-%m-%d")
        count = await self.repository.read_mail_count(alert)
        return alert.status(count.record.on(today), evaluator.fault if evaluator is not None else None)

    def _mirror(self, thing: str, stored: StoredRecord[Alert] | None) -> None:
        evaluator = self._evaluators.get(thing)
        if evaluator is not None:
            if stored is not None and stored.version == evaluator.stored.version:
                return  # our own change
            self._end_evaluation(thing)
        if stored is not None:
            self._begin_evaluation(thing, stored)

    def _begin_evaluation(self, thing: str, stored: StoredRecord[Alert]) -> None:
        evaluator = self._evaluators[thing] = _Evaluator(stored)

        def note_new_dweets(entries: Sequence[Entry]) -> None:
            if not evaluator.is_stopped:
                evaluator.has_new_dweets = True
                self._start_task(evaluator)

        evaluator.unsubscribe = self._journals.subscribe(journal_of(thing), note_new_dweets)
        self._start_task(evaluator)

    def _end_evaluation(self, thing: str) -> None:
        evaluator = self._evaluators.pop(thing)
        evaluator.unsubscribe()
        if evaluator.task is not None:
            evaluator.task.cancel()

    def _start_task(self, evaluator: _Evaluator) -> None:
        if evaluator.task is None:
            evaluator.task = asyncio.ensure_future(self._evaluate_until_done(evaluator))

    async def _evaluate_until_done(self, evaluator: _Evaluator) -> None:
        try:
            while not evaluator.is_stopped and (evaluator.is_outdated or evaluator.has_new_dweets):
                try:
                    if not await retry_while_changed("this alert", lambda: self._evaluate_some(evaluator)):
                        return
                except StoreUnavailable:
                    evaluator.is_outdated = True
                    await asyncio.sleep(_SECONDS_TO_RETRY)
        finally:
            evaluator.task = None

    async def _evaluate_some(self, evaluator: _Evaluator) -> bool:
        """Evaluate some of the new dweets; False if the alert no longer exists."""
        if evaluator.is_outdated and not await self._reread(evaluator):
            return False
        async with self.conditions.turn(evaluator.alert.owner):
            entries, verdicts = await self._evaluate(evaluator)
        try:
            for entry, verdict in zip(entries, verdicts, strict=False):
                await self._apply_verdict(evaluator, entry, verdict)
                if evaluator.is_stopped:
                    break
        except RecordChanged:
            evaluator.is_outdated = True
            raise
        evaluator.pauses = evaluator.pauses + 1 if entries and not verdicts else 0
        if evaluator.pauses:  # the child was killed from outside
            await asyncio.sleep(RESTART_PAUSES[min(evaluator.pauses, len(RESTART_PAUSES)) - 1])
        return True

    async def _reread(self, evaluator: _Evaluator) -> bool:
        stored = None
        with contextlib.suppress(DamagedRecord):  # logged when it is mirrored
            stored = await self.repository.read(evaluator.alert.thing)
        if stored is None:
            return False
        count = await self.repository.read_mail_count(stored.record)
        evaluator.start_at(stored)
        evaluator.count, evaluator.is_outdated = count, False
        return True

    async def _evaluate(self, evaluator: _Evaluator) -> tuple[list[Entry], list[Verdict]]:
        # Dweets are read only during the turn of an alert, so that only one alert has many dweets in memory.
        evaluator.has_new_dweets = False
        alert = evaluator.alert
        entries = await self._journals.after(journal_of(alert.thing), alert.position, CONTENTS_A_JOB)
        if not entries:
            return [], []
        contents = [content_of(entry.data) for entry in entries]
        ends = accumulate(map(len, contents))
        contents = contents[: max(1, sum(end <= _BYTES_A_JOB for end in ends))]
        verdicts = await self.conditions.evaluate(alert.owner, alert.condition, contents)
        evaluator.has_new_dweets |= len(verdicts) < len(entries) or len(entries) == CONTENTS_A_JOB
        return entries, verdicts

    async def _apply_verdict(self, evaluator: _Evaluator, entry: Entry, verdict: Verdict) -> None:
        evaluator.note_verdict(verdict)
        before, evaluator.alert = evaluator.alert, evaluator.alert.after(entry, verdict)
        is_changed = replace(evaluator.alert, position=before.position) != before
        if is_changed or entry.sequence - evaluator.stored.record.position >= _DWEETS_A_CHECKPOINT:
            await self._write_alert(evaluator, entry if evaluator.alert.is_triggered_after(before) else None)

    async def _write_alert(self, evaluator: _Evaluator, trigger: Entry | None) -> None:
        mail = None
        if trigger is not None and evaluator.count.record.on(wire.created_text(trigger.at)[:10]) < wire.ALERTS_A_DAY:
            mail = evaluator.alert.trigger_mail(trigger)
        before, evaluator.stored = evaluator.stored, new_version(evaluator.alert)
        # Set `stored` first: the mirror must recognise this change as our own.
        try:
            evaluator.count = await self.repository.replace(before, evaluator.stored, mail, evaluator.count)
        except (RecordChanged, StoreUnavailable):
            evaluator.stored = before
            raise
