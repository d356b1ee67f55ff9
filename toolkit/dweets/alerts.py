"""Alerts: watch locked things and open, change and close with what their conditions say.

An alert's record holds the number of the last dweet that it judged for certain. Its change of state, that number
and the mail are written in one step, so a gateway killed at any moment judges the rest again after its restart
and mails no opening twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from toolkit.dweets import wire
from toolkit.dweets.alert_conditions import FAULTS_TO_STOP, Conditions, Verdict
from toolkit.dweets.content import content_of
from toolkit.dweets.lock_records import SPACE
from toolkit.dweets.mail import Mail
from toolkit.dweets.stored_records import DamagedRecord, read_record
from toolkit.dweets.things import journal_of
from toolkit.gateway.stores import Entry, Store, StoreUnavailable

log = logging.getLogger("toolkit.gateway")

# How many dweets are judged in one go, and after how many judged without a change the number is written down.
_DWEETS_A_TURN = 200
_DWEETS_A_CHECKPOINT = 1_000
_SECONDS_TO_RETRY = 1.0
_SECONDS_TO_SETTLE = 5.0


@dataclass(frozen=True, slots=True)
class Alert:
    """What the store keeps of an alert."""

    thing: str
    who: list[str]
    condition: str
    position: int
    is_open: bool = False
    message: str = ""
    since: str | None = None
    sent: int = 0
    day: str = ""

    @classmethod
    def parse(cls, data: bytes) -> Alert:
        """Read a record of the store, or raise DamagedRecord."""
        return read_record(cls, data)

    @classmethod
    def parse_of(cls, thing: str, data: bytes) -> Alert:
        """Read the record of this thing's alert, or raise DamagedRecord."""
        alert = cls.parse(data)
        if alert.thing != thing:
            raise DamagedRecord("it is the alert of another thing")
        return alert

    def bytes(self) -> bytes:
        """Write it for the store."""
        return json.dumps(asdict(self)).encode("utf-8")

    def in_place_of(self, earlier: Alert) -> Alert:
        """Return this alert with what the earlier one has sent of its hundred a day."""
        return replace(self, sent=earlier.sent, day=earlier.day)

    def record(self) -> dict[str, Any]:
        """Return what setting the alert answers."""
        recipients = [{"type": "email", "address": address} for address in self.who]
        return {"thing": self.thing, "condition": self.condition, "is_demo": False, "recipients": recipients}

    def status(self, today: str, fault: str | None) -> dict[str, Any]:
        """Return the alert's status; a fault of its condition takes the place of the message."""
        sent = self.sent if self.day == today else 0
        values = (fault or self.message, self.since, self.is_open, sent, wire.ALERTS_A_DAY)
        return dict(zip(wire.ALERT_STATUS_FIELDS, values, strict=True))

    def judged(self, entry: Entry, verdict: Verdict) -> tuple[Alert, bool]:
        """Return the alert after this dweet, and whether it mails: at opening, or when its message changes."""
        here = replace(self, position=entry.sequence)
        if verdict.fault is not None or (not verdict.met and not self.is_open):
            return here, False
        if not verdict.met:
            return replace(here, is_open=False, message="", since=None), False
        if self.is_open and verdict.message == self.message:
            return here, False
        created = wire.created_text(entry.at)
        day = created[:10]
        sent = self.sent if self.day == day else 0
        mails = sent < wire.ALERTS_A_DAY
        since = self.since if self.is_open else created
        opened = replace(here, is_open=True, message=verdict.message or "", since=since, sent=sent + mails, day=day)
        return opened, mails

    def mail_about(self, entry: Entry) -> Mail:
        """Return the mail for this dweet, which opened the alert or changed its message."""
        created = wire.created_text(entry.at)
        text = (
            f"{self.message}\n\n"
            f"Thing:     {self.thing}\nDweet of:  {created}\nContent:   {content_of(entry.data).decode('utf-8')}\n"
            f"Condition: {self.condition}\n\n"
            f"You get one mail when the alert opens or its message changes; it has been open since {self.since}.\n"
        )
        return Mail.about(self.thing, entry.sequence, entry.at, self.who, self.message, text)


class _OvertakenError(Exception):
    """Another gateway on the same store has changed the alert first: what was judged here counts for nothing."""


class _Watch:
    """One alert at work: what is still to be judged, and what its condition failed at."""

    def __init__(self, alert: Alert, stored: bytes) -> None:
        self.alert = alert
        self.stored = stored
        self.waiting: list[Entry] = []
        self.missed = True  # what came after the alert's position is still to be read from the journal
        self.fault: str | None = None
        self.faults_in_a_row = 0
        self.is_stopped = False
        self.unfollow: Callable[[], None] = lambda: None
        self.task: asyncio.Task[None] | None = None

    def go_back(self) -> None:
        """Begin again from what is stored."""
        self.alert = Alert.parse(self.stored)
        self.faults_in_a_row = 0
        self.is_stopped = False
        self.waiting.clear()
        self.missed = True

    def note(self, verdict: Verdict) -> None:
        """Remember why the condition could not be evaluated, and how often in a row."""
        self.faults_in_a_row = self.faults_in_a_row + 1 if verdict.fault else 0
        self.is_stopped = verdict.stops or self.faults_in_a_row >= FAULTS_TO_STOP
        if verdict.stops:
            self.fault = f"stopped, set it again: {verdict.fault}"
        elif self.is_stopped:
            self.fault = f"stopped after {FAULTS_TO_STOP} failures in a row, set it again: {verdict.fault}"
        else:
            self.fault = verdict.fault and f"the condition failed: {verdict.fault}"


class Alerts:
    """All alerts of one gateway.

    Parameters
    ----------
    store
        Journals to follow, records to keep.
    now
        The gateway's clock in milliseconds since the epoch.
    """

    def __init__(self, store: Store, now: Callable[[], int]) -> None:
        self._store = store
        self._now = now
        self._watches: dict[str, _Watch] = {}
        self._damaged: dict[str, bytes] = {}
        self._conditions = Conditions()
        self._unwatch: Callable[[], None] = lambda: None

    async def open(self) -> None:
        """Take up every alert where it stood, with the dweets that came since."""
        self._unwatch = await self._store.records.watch(SPACE, self._mirror)

    async def close(self) -> None:
        """Stop judging; what is not judged yet is judged after the next start."""
        self._unwatch()
        tasks = [watch.task for watch in self._watches.values() if watch.task is not None]
        for thing in list(self._watches):
            self._end(thing)
        await asyncio.gather(*tasks, return_exceptions=True)
        self._conditions.close()

    async def compile(self, condition: str) -> None:
        """Raise MalformedRequest where the condition does not compile."""
        await self._conditions.compile(condition)

    async def settle(self, thing: str | None = None) -> None:
        """Wait until every dweet committed so far (of one thing, or of all) is judged; not for ever on a busy one.

        Those that were posted to another gateway too, of which this one may not have heard yet.
        """
        names = [thing] if thing is not None else list(self._watches)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS_TO_SETTLE):
                for name in names:
                    await self._settle(name)

    async def _settle(self, thing: str) -> None:
        stored = await self._store.records.get(SPACE, f"alert:{thing}")
        if stored is not None and thing not in self._watches:  # set at another gateway, just now
            self._mirror(f"alert:{thing}", stored)
        newest = await self._store.journals.last(journal_of(thing), 1)
        while newest and (watch := self._watches.get(thing)) is not None:
            if watch.task is None:
                if watch.is_stopped or watch.alert.position >= newest[-1].sequence:
                    return
                watch.task = asyncio.ensure_future(self._catch_up(watch))
            await asyncio.wait([watch.task])

    def status_of(self, alert: Alert) -> dict[str, Any]:
        """Return the status of an alert, with the fault of its condition if there is one."""
        watch = self._watches.get(alert.thing)
        today = datetime.fromtimestamp(self._now() / 1000, UTC).strftime("%Y-%m-%d")
        return alert.status(today, watch.fault if watch is not None else None)

    # -- following ----------------------------------------------------------------------------------------

    def _mirror(self, key: str, value: bytes | None) -> None:
        kind, _, thing = key.partition(":")
        if kind != "alert":
            return
        watch = self._watches.get(thing)
        if watch is not None and value == watch.stored:
            return
        if watch is not None:
            self._end(thing)
        if value is None:
            self._damaged.pop(thing, None)
        elif self._damaged.get(thing) != value:  # else it was reported
            self._begin_or_report(thing, value)

    def _begin_or_report(self, thing: str, stored: bytes) -> None:
        self._damaged.pop(thing, None)
        try:
            alert = Alert.parse_of(thing, stored)
        except DamagedRecord as damage:
            self._damaged[thing] = stored
            log.error("the alert of the thing %a is damaged, so nobody is mailed: %s; set it again", thing, damage)
        else:
            self._begin(alert, stored)

    def _begin(self, alert: Alert, stored: bytes) -> None:
        watch = self._watches[alert.thing] = _Watch(alert, stored)

        def take(entries: Sequence[Entry]) -> None:
            watch.waiting.extend(entries)
            self._wake(watch)

        watch.unfollow = self._store.journals.follow(journal_of(alert.thing), take)
        watch.task = asyncio.ensure_future(self._catch_up(watch))

    def _end(self, thing: str) -> None:
        watch = self._watches.pop(thing)
        watch.unfollow()
        if watch.task is not None:
            watch.task.cancel()

    def _wake(self, watch: _Watch) -> None:
        if watch.task is None:
            watch.task = asyncio.ensure_future(self._judge_waiting(watch))

    async def _catch_up(self, watch: _Watch) -> None:
        watch.missed = True
        await self._judge_waiting(watch)

    # -- judging ------------------------------------------------------------------------------------------

    async def _judge_waiting(self, watch: _Watch) -> None:
        try:
            while (watch.missed or watch.waiting) and not watch.is_stopped:
                try:
                    await self._judge_turn(watch)
                except _OvertakenError:
                    if not await self._begin_anew(watch):
                        return
                except StoreUnavailable:
                    # Nothing of this turn was written: judge it again, from where the store stands.
                    watch.go_back()
                    await asyncio.sleep(_SECONDS_TO_RETRY)
            watch.waiting.clear()
        finally:
            watch.task = None

    async def _judge_turn(self, watch: _Watch) -> None:
        if watch.missed:
            missed = await self._store.journals.after(journal_of(watch.alert.thing), watch.alert.position)
            watch.waiting[:0] = missed
            watch.missed = False
        turn, watch.waiting = watch.waiting[:_DWEETS_A_TURN], watch.waiting[_DWEETS_A_TURN:]
        await self._judge(watch, [entry for entry in turn if entry.sequence > watch.alert.position])

    async def _begin_anew(self, watch: _Watch) -> bool:
        """Go on from what another gateway wrote; False where it removed the alert."""
        while True:
            try:
                stored = await self._store.records.get(SPACE, f"alert:{watch.alert.thing}")
            except StoreUnavailable:
                await asyncio.sleep(_SECONDS_TO_RETRY)
                continue
            if stored is None:
                return False
            watch.stored = stored
            with contextlib.suppress(DamagedRecord):  # reported when it is mirrored
                watch.go_back()
                return True
            return False

    async def _judge(self, watch: _Watch, entries: list[Entry]) -> None:
        contents = [content_of(entry.data) for entry in entries]
        patience = FAULTS_TO_STOP - watch.faults_in_a_row
        verdicts = await self._conditions.evaluate(watch.alert.condition, contents, patience)
        written = Alert.parse(watch.stored).position
        for entry, verdict in zip(entries, verdicts, strict=True):
            if entry.sequence <= watch.alert.position:
                continue  # come twice: missed and heard
            watch.note(verdict)
            before, (watch.alert, mails) = watch.alert, watch.alert.judged(entry, verdict)
            changed = replace(watch.alert, position=before.position) != before
            if changed or entry.sequence - written >= _DWEETS_A_CHECKPOINT:
                await self._write(watch, watch.alert.mail_about(entry) if mails else None)
                written = entry.sequence

    async def _write(self, watch: _Watch, mail: Mail | None) -> None:
        name, stored, expected = f"alert:{watch.alert.thing}", watch.alert.bytes(), watch.stored
        changes: dict[str, bytes | None] = {name: stored}
        if mail is not None:
            changes[mail.key] = mail.bytes()
        # Set before the swap, so that the mirror knows the change as its own.
        watch.stored = stored
        try:
            written = await self._store.records.swap(SPACE, {name: expected}, changes)
        except StoreUnavailable:
            watch.stored = expected  # nothing was written: the retry begins from where the store really stands
            raise
        if not written:  # another gateway judged the same dweet first, or the alert was set anew or removed
            raise _OvertakenError
