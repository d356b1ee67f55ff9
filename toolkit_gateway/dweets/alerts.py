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
from typing import Any

from msgspec.structs import replace

from toolkit.dweets import wire
from toolkit.dweets.conditions import CONTENTS_PER_JOB, FAULTS_TO_STOP, Verdict
from toolkit.errors import Conflict, NotFound, ServiceFailure, StoreUnavailable
from toolkit_gateway.dweets import refusals, replies, stored_records
from toolkit_gateway.dweets.condition_turns import Conditions
from toolkit_gateway.dweets.contents import content_of
from toolkit_gateway.dweets.locks import Locks
from toolkit_gateway.dweets.mail import Mail, check_recipients
from toolkit_gateway.dweets.stored_records import DamagedRecord, RecordChanged, alert_key, thing_key
from toolkit_gateway.dweets.thing_cache import first_entries, journal_of
from toolkit_gateway.runtime import Runtime
from toolkit_gateway.stores import Entry, Records, Store

log = logging.getLogger("toolkit_gateway")

# After this many dweets, the position of an alert is stored even if nothing else in it has changed.
_DWEETS_PER_CHECKPOINT = 1_000
_SECONDS_TO_RETRY = 1.0
_STATUS_FIELDS = ("message", "since", "open", "alerts_sent_today", "alerts_allowed_today")
_REPEATED = "the condition was interrupted at the last dweet, and evaluated again with more CPU time"
_DAMAGED = "the alert of the thing %a is damaged, set it again: %s; it sends no mail"


class Alert(stored_records.Record, frozen=True):
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

    def response(self) -> dict[str, Any]:
        recipients = [{"type": "email", "address": address} for address in self.who]
        return {"thing": self.thing, "condition": self.condition, "is_demo": False, "recipients": recipients}

    def after(self, entry: Entry, verdict: Verdict) -> Alert:
        evaluated = replace(self, position=entry.sequence)
        if verdict.fault is not None or (not verdict.met and not self.is_open):
            return evaluated
        if not verdict.met:
            return replace(evaluated, is_open=False, message="", since=None)
        since = self.since if self.is_open else replies.created_text(entry.at)
        return replace(evaluated, is_open=True, message=verdict.message or "", since=since)

    def mail_about(self, entry: Entry) -> Mail:
        created = replies.created_text(entry.at)
        text = (
            f"{self.message}\n\n"
            f"Thing:     {self.thing}\nDweet of:  {created}\nContent:   {content_of(entry.data).decode('utf-8')}\n"
            f"Condition: {self.condition}\n\n"
            f"You get one mail when the alert opens or its message changes; it has been open since {self.since}.\n"
        )
        return Mail.for_alert(self.thing, entry.sequence, entry.at, self.who, self.message, text)


class MailCount(stored_records.Record, frozen=True):
    """How many alert mails a lock has caused on one day, with all things and alerts that used it."""

    day: str
    mails: int


def _mail_count_key(lock: str) -> str:
    return f"mails-today:{lock}"


async def _mails_on(day: str, records: Records, alert: Alert) -> tuple[int, bytes | None]:
    """Return the number of mails of the alert's lock on a day, and the version of the record."""
    data = await records.get(stored_records.SPACE, _mail_count_key(alert.lock))
    try:
        count = data and MailCount.parse(_mail_count_key(alert.lock), data)
    except DamagedRecord as damage:
        log.error("the mail count of the lock %a is damaged: %s; the count starts at 0", alert.lock, damage)
        count = None
    return count.mails if count and count.day == day else 0, data


class _Evaluator:
    """Evaluates the condition of one alert for each new dweet of its thing."""

    def __init__(self, alert: stored_records.Versioned[Alert], store: Store, conditions: Conditions) -> None:
        self._journals = store.journals
        self._records = store.records
        self._conditions = conditions
        self._has_news = True
        self._start_with(alert)
        self._unsubscribe = self._journals.subscribe(journal_of(alert.record.thing), self._note_new_dweets)
        self._task = asyncio.ensure_future(self._evaluate_until_done())

    def _start_with(self, stored: stored_records.Versioned[Alert]) -> None:
        self.alert, self.version = stored
        self.fault: str | None = None
        self.is_repetition = False  # of the last evaluation
        self._stored_position = self.alert.position
        self._faults_in_a_row = 0
        self._is_stopped = False

    def wake(self) -> None:
        """Start to evaluate new dweets, with the alert as it is stored now."""
        self._has_news = True
        if self._task.done():
            self._task = asyncio.ensure_future(self._evaluate_until_done())

    async def settle(self, sequence: int) -> None:
        """Wait until the dweets up to this sequence number are evaluated and the results are stored."""
        while not (self._task.done() and (self._is_stopped or self.alert.position >= sequence)):
            if self._task.done():
                self.wake()
            await asyncio.wait([self._task])

    def end(self) -> asyncio.Task[None]:
        """Stop, and return a task that is done when the evaluation has ended."""
        self._is_stopped = True
        self._unsubscribe()
        self._task.cancel()
        return self._task

    def _note_new_dweets(self, entries: Sequence[Entry]) -> None:
        if not self._is_stopped:
            self.wake()

    async def _evaluate_until_done(self) -> None:
        while self._has_news:
            self._has_news = False
            try:
                await self._evaluate_batch()
            except RecordChanged:  # somebody else has changed a record: read the alert again and continue from there
                self._has_news = True
            except (StoreUnavailable, ServiceFailure):  # or another program keeps killing the child process
                self._has_news = True
                await asyncio.sleep(_SECONDS_TO_RETRY)

    async def _evaluate_batch(self) -> None:
        """Evaluate a batch of the new dweets, and store what they change."""
        stored = None
        with contextlib.suppress(DamagedRecord):  # `stored_records.mirror` logs it
            stored = await stored_records.read(self._records, Alert, alert_key(self.alert.thing))
        if stored is not None and stored.version != self.version:
            self._start_with(stored)
        if stored is None or self._is_stopped:
            self._is_stopped = True
            return
        alert = self.alert
        async with self._conditions.turn(alert.who):  # one batch is read at a time: it takes much memory
            entries = await self._journals.after(journal_of(alert.thing), alert.position, CONTENTS_PER_JOB)
            contents = [content_of(entry.data) for entry in first_entries(entries)]
            verdicts = await self._conditions.evaluate(alert.condition, contents)
        for entry, verdict in zip(entries, verdicts, strict=False):
            await self._apply_verdict(entry, verdict)
            if self._is_stopped:
                return
        self._has_news |= len(verdicts) < len(entries) or len(entries) == CONTENTS_PER_JOB

    async def _apply_verdict(self, entry: Entry, verdict: Verdict) -> None:
        self._note_fault(verdict)
        before, self.alert = self.alert, self.alert.after(entry, verdict)
        is_changed = replace(self.alert, position=before.position) != before
        if is_changed or entry.sequence - self._stored_position >= _DWEETS_PER_CHECKPOINT:
            await self._write_alert(entry if is_changed and self.alert.is_open else None)

    def _note_fault(self, verdict: Verdict) -> None:
        self._faults_in_a_row = self._faults_in_a_row + 1 if verdict.fault else 0
        self._is_stopped = verdict.stops or self._faults_in_a_row >= FAULTS_TO_STOP
        if verdict.stops:
            self.fault = f"stopped, set the alert again: {verdict.fault}"
        elif self._is_stopped:
            self.fault = f"stopped after {FAULTS_TO_STOP} failures in a row, set the alert again: {verdict.fault}"
        else:
            self.fault = verdict.fault and f"the condition failed: {verdict.fault}"
        self.is_repetition = verdict.is_repetition

    async def _write_alert(self, triggered_by: Entry | None) -> None:
        key, written = alert_key(self.alert.thing), stored_records.encode_record(self.alert)
        expected: dict[str, bytes | None] = {key: self.version}
        changes: stored_records.Changes = {key: written}
        if triggered_by is not None:
            day = replies.created_text(triggered_by.at)[:10]
            mails, count_version = await _mails_on(day, self._records, self.alert)
            if mails < wire.ALERTS_PER_DAY:
                mail, count_key = self.alert.mail_about(triggered_by), _mail_count_key(self.alert.lock)
                expected[count_key] = count_version
                changes[count_key] = stored_records.encode_record(MailCount(day, mails + 1))
                changes[mail.key] = stored_records.encode_record(mail)
        self.version, self._stored_position = written, self.alert.position  # the mirror must recognise our own change
        await stored_records.compare_and_set(self._records, expected, changes)


class Alerts:
    def __init__(self, store: Store, runtime: Runtime, locks: Locks) -> None:
        self._store = store
        self._records = store.records
        self._now = runtime.clock.now
        self._settle_seconds = runtime.timings.settle
        self._locks = locks
        self._conditions = Conditions(runtime.timings.condition_seconds)
        self._evaluators: dict[str, _Evaluator] = {}  # by thing
        self._unsubscribe: Callable[[], None] = lambda: None

    async def open(self) -> None:
        self._unsubscribe = await stored_records.mirror(self._records, Alert, alert_key(""), _DAMAGED, self._mirror)

    async def close(self) -> None:
        self._unsubscribe()
        ending = [self._evaluators.pop(thing).end() for thing in list(self._evaluators)]
        await asyncio.gather(*ending, return_exceptions=True)
        self._conditions.close()

    @stored_records.retry_while_changed
    async def set(self, who: str, thing: str, condition: str, key: str | None) -> dict[str, Any]:
        """Set or replace the alert of a locked thing; mails that the lock has caused today still count."""
        lock = await self._locks.lock_of(thing, key)
        recipients = wire.checked_recipients(who)
        await self._conditions.check_compiles(recipients, condition)
        newest = await self._store.journals.last(journal_of(thing), 1)
        alert = Alert(thing, lock.record.lock, recipients, condition, newest[-1].sequence if newest else 0)
        changes = {alert_key(thing): stored_records.encode_record(alert)}
        await stored_records.compare_and_set(self._records, {thing_key(thing): lock.version}, changes)
        return alert.response()

    async def get(self, thing: str, key: str | None) -> dict[str, Any]:
        """Wait some seconds for the evaluation of all dweets acknowledged so far; return the alert and its status."""
        await self._locks.lock_of(thing, key)
        await self.settle(thing)
        try:
            stored = await stored_records.read(self._records, Alert, alert_key(thing))
        except DamagedRecord:
            raise Conflict(refusals.ALERT_DAMAGED) from None
        if stored is None:
            raise NotFound(refusals.NOT_FOUND)
        alert, evaluator = stored.record, self._evaluators.get(thing)
        message = alert.message
        if evaluator is not None:
            message = evaluator.fault or message or (evaluator.is_repetition and _REPEATED) or ""
        mails_today, _ = await _mails_on(replies.created_text(self._now())[:10], self._records, alert)
        status = message, alert.since, alert.is_open, mails_today, wire.ALERTS_PER_DAY
        return {"status": dict(zip(_STATUS_FIELDS, status, strict=True)), **alert.response()}

    @stored_records.retry_while_changed
    async def remove(self, thing: str, key: str | None) -> dict[str, str]:
        lock = await self._locks.lock_of(thing, key)
        if await self._records.get(stored_records.SPACE, alert_key(thing)) is None:
            raise NotFound(refusals.NOT_FOUND)
        await stored_records.compare_and_set(self._records, {thing_key(thing): lock.version}, {alert_key(thing): None})
        return {"thing": thing}

    async def settle(self, thing: str | None = None) -> None:
        """Wait until all committed dweets of one thing, or of all things, are evaluated; give up after some seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._settle_seconds):
                for name in [thing] if thing is not None else list(self._evaluators):
                    await self._settle(name)

    async def _settle(self, thing: str) -> None:
        if thing not in self._evaluators:  # another gateway may just have set the alert
            with contextlib.suppress(DamagedRecord):  # `stored_records.mirror` logs it
                self._mirror(thing, await stored_records.read(self._records, Alert, alert_key(thing)))
        newest = await self._store.journals.last(journal_of(thing), 1)
        if newest and (evaluator := self._evaluators.get(thing)) is not None:
            await evaluator.settle(newest[-1].sequence)

    def _mirror(self, thing: str, stored: stored_records.Versioned[Alert] | None) -> None:
        evaluator = self._evaluators.get(thing)
        if stored is None:
            if evaluator is not None:
                self._evaluators.pop(thing).end()
        elif evaluator is None:
            self._evaluators[thing] = _Evaluator(stored, self._store, self._conditions)
        elif stored.version != evaluator.version:  # the evaluator itself did not make this change
            evaluator.wake()
