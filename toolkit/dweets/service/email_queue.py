"""The queue of alert mails, which all gateways on one store share.

A gateway claims a due mail by writing a lease into its record, and renews the lease while it delivers the mail. If the
gateway dies after the mail server accepted the mail, another gateway sends it again with the same Message-ID. If the
connection breaks while the server receives the text, the mail becomes ``uncertain`` and is not sent again.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from toolkit.dweets.service import storage
from toolkit.dweets.service.mail import MAX_DELIVERY_DAYS, Mail, MailDelivery, NotDelivered
from toolkit.dweets.service.storage import DamagedRecord, RecordChanged, mail_key
from toolkit.errors import StoreUnavailable
from toolkit.outside_world import OutsideWorld
from toolkit.stores import Records

log = logging.getLogger("toolkit.gateway")

_MAILS_AT_ONCE = 4
_DAMAGED = "the record of the alert mail %a is damaged (%s): it is not sent"


class EmailQueue:
    """Sends the mails of a store; without a `delivery` they only stay in the outbox."""

    def __init__(
        self, records: Records, delivery: MailDelivery | None, world: OutsideWorld, sender: str, max_finished: int
    ) -> None:
        self._timings = world.timings
        self._records = records
        self._delivery = delivery
        self._sender = sender
        self._max_finished = max_finished
        self._now = world.clock.now
        self._slots = asyncio.Semaphore(_MAILS_AT_ONCE)
        self._waiting: dict[str, storage.Versioned[Mail]] = {}  # this and the next three by the id of the mail
        self._finished: dict[str, int] = {}  # the times of the mails
        self._tasks: dict[str, asyncio.Task[None]] = {}  # one per waiting mail
        self._claimed: set[str] = set()  # the mails that this gateway is sending
        self._is_closing = False
        self._unsubscribe: Callable[[], None] = lambda: None

    async def open(self) -> None:
        self._unsubscribe = await storage.mirror(self._records, Mail, mail_key(""), _DAMAGED, self._mirror)

    async def mails(self) -> list[Mail]:
        mails = []
        for key, value in (await self._records.scan(storage.SPACE)).items():
            if key.startswith(mail_key("")):
                with contextlib.suppress(DamagedRecord):  # `storage.mirror` logs it
                    mails.append(Mail.parse(key, value))
        return sorted(mails, key=lambda mail: (mail.at, mail.id))

    async def close(self) -> None:
        """Stop, but give deliveries that have begun some seconds to finish."""
        self._unsubscribe()
        self._is_closing = True
        for mail_id in self._tasks.keys() - self._claimed:
            self._tasks[mail_id].cancel()
        if self._tasks:
            _, unfinished = await asyncio.wait(self._tasks.values(), timeout=self._timings.mail_stop)
            for task in unfinished:
                task.cancel()

    def _mirror(self, mail_id: str, stored: storage.Versioned[Mail] | None) -> None:
        self._waiting.pop(mail_id, None)
        self._finished.pop(mail_id, None)
        if stored is not None and stored.record.is_finished:
            self._finished[mail_id] = stored.record.at
        elif stored is not None:
            self._waiting[mail_id] = stored
        self._schedule(mail_id)

    def _schedule(self, mail_id: str, min_seconds: float = 0.0) -> None:
        if mail_id in self._claimed or self._is_closing:
            return
        if mail_id in self._tasks:
            self._tasks.pop(mail_id).cancel()
        if (stored := self._waiting.get(mail_id)) is not None:
            seconds = max(min_seconds, self._seconds_until_due(stored.record))
            self._tasks[mail_id] = asyncio.ensure_future(self._send(stored, seconds))

    def _seconds_until_due(self, mail: Mail) -> float:
        if mail.lease:  # counted from the last renewal that this gateway saw, because clocks of machines differ
            return self._timings.lease
        return min(max(0.0, (mail.due - self._now()) / 1000), self._wait_after(mail.attempts))

    def _wait_after(self, attempts: int) -> float:
        return self._timings.mail_waits[min(attempts, len(self._timings.mail_waits)) - 1]

    async def _send(self, stored: storage.Versioned[Mail], seconds: float) -> None:
        mail_id, pause = stored.record.id, 0.0
        await asyncio.sleep(seconds)
        async with self._slots:
            self._claimed.add(mail_id)
            try:
                await self._process(stored)
            except (RecordChanged, StoreUnavailable):  # another gateway has the mail, or the store is unavailable
                pause = self._timings.mail_waits[0]
            finally:
                self._claimed.discard(mail_id)
        del self._tasks[mail_id]
        self._schedule(mail_id, pause)

    async def _process(self, stored: storage.Versioned[Mail]) -> None:
        mail = replace(stored.record, lease=secrets.token_hex(8), attempts=stored.record.attempts + 1)
        await self._replace(stored, replace(mail, due=self._now_plus(self._timings.lease)))
        delivering = asyncio.ensure_future(self._deliver(mail))
        try:
            while not (await asyncio.wait([delivering], timeout=self._timings.lease / 3))[0]:
                with contextlib.suppress(StoreUnavailable):  # nor can another gateway claim the mail now
                    await self._change_record(mail, due=self._now_plus(self._timings.lease))
        finally:
            delivering.cancel()
        outcome = delivering.result()
        while True:
            try:
                return await self._change_record(mail, lease="", **outcome)
            except StoreUnavailable:  # the outcome must not be lost
                await asyncio.sleep(self._timings.mail_waits[0])

    def _now_plus(self, seconds: float) -> int:
        return self._now() + round(seconds * 1000)

    async def _deliver(self, mail: Mail) -> dict[str, Any]:
        """Deliver a mail, and return the changes for its record."""
        try:
            outgoing = mail.outgoing(self._sender)
            refused = await self._delivery.deliver(outgoing) if self._delivery else []
        except NotDelivered as error:
            if error.is_permanent or self._now() - mail.at > MAX_DELIVERY_DAYS * 86_400_000:
                log.error("the alert mail %a is given up: %s", mail.id, error)  # the outbox may be full of later mails
                return {"state": "failed", "error": str(error)}
            return {"due": self._now_plus(self._wait_after(mail.attempts)), "error": str(error)}
        except OSError as error:
            return {"state": "uncertain", "error": f"the connection broke while the server received the mail: {error}"}
        except Exception as error:  # a bug must not stop the other mails
            asyncio.get_running_loop().call_exception_handler({"message": "a mail was not sent", "exception": error})
            return {"state": "uncertain", "error": f"it could not be sent: {type(error).__name__}"}
        state = self._delivery.final_state if self._delivery else "kept"
        return {"state": state, "error": f"refused: {', '.join(refused)}" if refused else ""}

    @storage.retry_while_changed
    async def _change_record(self, claimed: Mail, **changes: Any) -> None:  # noqa: ANN401
        """Change the record of a claimed mail, unless the lease has passed to another gateway."""
        with contextlib.suppress(DamagedRecord):  # `storage.mirror` logs it
            stored = await storage.read(self._records, Mail, claimed.key)
            if stored is not None and stored.record.lease == claimed.lease:
                await self._replace(stored, replace(stored.record, **changes))

    async def _replace(self, before: storage.Versioned[Mail], after: Mail) -> None:
        """Replace a mail and drop surplus finished mails, or raise RecordChanged."""
        changes: storage.Changes = {after.key: storage.encode_record(after)}
        surplus = len(self._finished) + after.is_finished - self._max_finished
        if surplus > 0:
            finished = {**self._finished, after.id: after.at} if after.is_finished else self._finished
            oldest = sorted(finished, key=lambda mail_id: (finished[mail_id], mail_id))
            changes.update(dict.fromkeys(map(mail_key, oldest[:surplus])))
        await storage.compare_and_set(self._records, {after.key: before.version}, changes)
