"""The records of alerts and of the mails that each lock caused today."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from toolkit.dweets import wire
from toolkit.dweets.conditions import Verdict
from toolkit.dweets.content import content_of
from toolkit.dweets.service.condition_turns import Owner
from toolkit.dweets.service.mail import Mail
from toolkit.dweets.service.stored_records import (
    SPACE,
    Changes,
    DamagedRecord,
    Record,
    StoredRecord,
    alert_key,
    compare_and_set,
    new_version,
    read_stored,
    thing_key,
    write_record,
)
from toolkit.stores import Entry, Records

log = logging.getLogger("toolkit.gateway")


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

    def check(self, key: str) -> None:
        if alert_key(self.thing) != key:
            raise DamagedRecord("it belongs to another thing")

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

    def mail_about(self, entry: Entry) -> Mail:
        created = wire.created_text(entry.at)
        text = (
            f"{self.message}\n\n"
            f"Thing:     {self.thing}\nDweet of:  {created}\nContent:   {content_of(entry.data).decode('utf-8')}\n"
            f"Condition: {self.condition}\n\n"
            f"You get one mail when the alert opens or its message changes; it has been open since {self.since}.\n"
        )
        return Mail.about(self.thing, entry.sequence, entry.at, self.who, self.message, text)


class MailCount(Record, frozen=True):
    """The mails that a lock caused on a day, whatever its thing was and however often its alert was set."""

    day: str = ""
    mails: int = 0

    def on(self, day: str) -> int:
        return self.mails if self.day == day else 0


class AlertRepository:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def subscribe(self, on_change: Callable[[str, StoredRecord[Alert] | None], None]) -> Callable[[], None]:
        """Call `on_change` with each alert, now and whenever it changes; None if it was removed or is damaged."""

        def mirror(key: str, value: bytes | None) -> None:
            kind, _, thing = key.partition(":")
            if kind != "alert":
                return
            stored = None
            try:
                stored = None if value is None else StoredRecord(Alert.parse(key, value), value)
            except DamagedRecord as damage:
                log.error("the alert of the thing %a is damaged and sends no mail: %s; set it again", thing, damage)
            on_change(thing, stored)

        return await self._records.subscribe(SPACE, mirror)

    async def read(self, thing: str) -> StoredRecord[Alert] | None:
        return await read_stored(self._records, Alert, alert_key(thing))

    async def read_count(self, alert: Alert) -> StoredRecord[MailCount]:
        data = await self._records.get(SPACE, _count_key(alert))
        count = MailCount()
        try:
            count = MailCount() if data is None else MailCount.parse(_count_key(alert), data)
        except DamagedRecord as damage:
            log.error("the mail count of the lock %a is damaged: %s; it starts at 0", alert.lock, damage)
        return StoredRecord(count, data)

    async def set(self, alert: Alert, lock_version: bytes | None) -> None:
        expected = {thing_key(alert.thing): lock_version}
        await compare_and_set(self._records, expected, {alert_key(alert.thing): write_record(alert)})

    async def remove(self, thing: str) -> bool:
        return await self._records.pop(SPACE, alert_key(thing)) is not None

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
            changes |= {mail.key: write_record(mail), count_key: count.version}
        await compare_and_set(self._records, expected, changes)
        return count


def _count_key(alert: Alert) -> str:
    return f"mails-today:{alert.lock}"
