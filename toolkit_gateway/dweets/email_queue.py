"""The queue of alert mails, which all gateways on one store share. Each mail is sent at least once.

The states of a mail, each in its record:

    waiting ---claim--> waiting, with a lease ---delivery--> sent, kept or failed
       ^                  |            |
       '-----back-off-----+--lease over'

A gateway claims a due mail by writing a lease into its record with compare_and_set, so no other gateway sends it at the
same time. The lease lasts longer than any delivery. If the gateway dies before it has written the outcome, another one
claims the mail when the lease is over, and the mail server may receive it twice, with the same Message-ID.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from msgspec.structs import replace

from toolkit.errors import StoreUnavailable
from toolkit_gateway.dweets import stored_records
from toolkit_gateway.dweets.mail import Mail
from toolkit_gateway.dweets.mail_delivery import MailFolder, SmtpDelivery
from toolkit_gateway.dweets.stored_records import DamagedRecord, RecordChanged, mail_key
from toolkit_gateway.runtime import Runtime
from toolkit_gateway.stores import Records

log = logging.getLogger("toolkit_gateway")

#: How long the delivery of a mail is tried (RFC 5321, 4.5.4.1).
MAX_DELIVERY_DAYS = 5
_DAMAGED = "the record of the alert mail %a is damaged (%s): it is not sent"


class EmailQueue:
    def __init__(
        self, records: Records, delivery: SmtpDelivery | MailFolder, runtime: Runtime, sender: str, max_finished: int
    ) -> None:
        self._timings = runtime.timings
        self._records = records
        self._delivery = delivery
        self._sender = sender
        self._max_finished = max_finished
        self._now = runtime.clock.now
        # These three by the id of the mail.
        self._waiting: dict[str, stored_records.Versioned[Mail]] = {}
        self._due: dict[str, float] = {}  # when each waiting mail can be claimed, by `monotonic`
        self._finished: dict[str, int] = {}  # the times of the mails
        self._has_news = asyncio.Event()
        self._is_closing = False
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None

    async def open(self) -> None:
        self._unsubscribe = await stored_records.mirror(self._records, Mail, mail_key(""), _DAMAGED, self._mirror)
        self._task = asyncio.ensure_future(self._send_due_mails())

    async def mails(self) -> list[Mail]:
        mails = []
        for key, value in (await self._records.scan(stored_records.SPACE)).items():
            if key.startswith(mail_key("")):
                with suppress(DamagedRecord):  # `stored_records.mirror` logs it
                    mails.append(Mail.parse(key, value))
        return sorted(mails, key=lambda mail: (mail.at, mail.id))

    async def close(self) -> None:
        """Stop, but give a delivery that has begun some seconds to finish."""
        self._unsubscribe()
        self._is_closing = True
        self._has_news.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=self._timings.mail_stop)
            self._task.cancel()
        self._delivery.close()

    def _mirror(self, mail_id: str, stored: stored_records.Versioned[Mail] | None) -> None:
        for mails in (self._waiting, self._due, self._finished):
            mails.pop(mail_id, None)
        if stored is not None and stored.record.state == "waiting":
            self._waiting[mail_id] = stored
            self._due[mail_id] = monotonic() + self._seconds_until_due(stored.record)
            self._has_news.set()
        elif stored is not None:
            self._finished[mail_id] = stored.record.at

    def _seconds_until_due(self, mail: Mail) -> float:
        if mail.lease:  # counted from the claim as this gateway saw it, because clocks of machines differ
            return self._timings.mail_lease
        return min(max(0.0, (mail.due - self._now()) / 1000), self._back_off(mail.attempts))

    def _back_off(self, attempts: int) -> float:
        return self._timings.mail_waits[min(attempts, len(self._timings.mail_waits)) - 1]

    async def _send_due_mails(self) -> None:
        while not self._is_closing:
            self._has_news.clear()
            next_due = min(self._due.values(), default=None)
            if next_due is None or next_due > monotonic():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._has_news.wait(), next_due and next_due - monotonic())
                continue
            mail_id = min(self._due, key=self._due.__getitem__)
            try:
                await self._send(self._waiting[mail_id])
            except (RecordChanged, StoreUnavailable):  # another gateway has the mail, or the store is unavailable
                await asyncio.sleep(self._timings.mail_waits[0])
            except Exception:  # a bug at one mail must not stop the others
                log.exception("the alert mail %a is tried again later, because of a bug of the gateway", mail_id)
                if stored := self._waiting.get(mail_id):  # no sooner: it may have been sent already
                    wait = max(self._timings.mail_lease, self._back_off(stored.record.attempts))
                    self._due[mail_id] = monotonic() + wait

    async def _send(self, stored: stored_records.Versioned[Mail]) -> None:
        mail = replace(stored.record, lease=secrets.token_hex(8), attempts=stored.record.attempts + 1)
        claim = await self._replace(stored, mail)
        state, error = await self._delivery.deliver(mail, self._sender)
        if state == "waiting" and self._now() - mail.at > MAX_DELIVERY_DAYS * 86_400_000:
            state = "failed"
        if state == "failed":
            log.error("the alert mail %a is given up: %s", mail.id, error)  # the outbox may be full of later mails
        due = self._now() + round(self._back_off(mail.attempts) * 1000)
        after = replace(mail, lease="", state=state, error=error, due=due)
        while True:
            try:
                await self._replace(claim, after)  # RecordChanged: the lease is over, another gateway has the mail
                return
            except StoreUnavailable:  # the outcome must not be lost
                await asyncio.sleep(self._timings.mail_waits[0])

    async def _replace(self, before: stored_records.Versioned[Mail], after: Mail) -> stored_records.Versioned[Mail]:
        """Replace a mail and drop surplus finished mails, or raise RecordChanged."""
        written = stored_records.encode_record(after)
        changes: stored_records.Changes = {after.key: written}
        finished = self._finished if after.state == "waiting" else {**self._finished, after.id: after.at}
        if (surplus := len(finished) - self._max_finished) > 0:
            oldest = sorted(finished, key=lambda mail_id: (finished[mail_id], mail_id))
            changes.update(dict.fromkeys(map(mail_key, oldest[:surplus])))
        await stored_records.compare_and_set(self._records, {after.key: before.version}, changes)
        return stored_records.Versioned(after, written)
