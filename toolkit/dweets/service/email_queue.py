"""The queue of alert mails, which all gateways on one store share.

A gateway claims a due mail by writing a lease into its record, and renews the lease while it delivers the mail. If the
gateway dies after the mail server accepted the mail, another gateway sends it again with the same Message-ID. If the
connection breaks while the server receives the text, the mail becomes ``uncertain`` and is not sent again.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from toolkit.dweets.service.delivery import MailDelivery
from toolkit.dweets.service.mail import Mail, MailRepository, NotDelivered
from toolkit.dweets.service.stored_records import DamagedRecord, RecordChanged, StoredRecord, retry_while_changed
from toolkit.errors import StoreUnavailable
from toolkit.outside_world import OutsideWorld
from toolkit.stores import Records

_MAILS_AT_ONCE = 4


class EmailQueue:
    """Sends the mails of a store; without a `delivery` they only stay in the outbox."""

    def __init__(
        self, records: Records, delivery: MailDelivery | None, world: OutsideWorld, sender: str, finished_kept: int
    ) -> None:
        self._timings = world.timings
        self._mails = MailRepository(records, finished_kept)
        self._delivery = delivery
        self._sender = sender
        self._now = world.clock.now
        self._slots = asyncio.Semaphore(_MAILS_AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}  # one per waiting mail
        self._claimed: set[str] = set()  # keys of the mails that this gateway is sending
        self._is_closing = False
        self._unsubscribe: Callable[[], None] = lambda: None
        self.mails = self._mails.all

    async def open(self) -> None:
        self._unsubscribe = await self._mails.subscribe(self._schedule)

    async def close(self) -> None:
        """Stop; deliveries that have begun get some seconds to finish."""
        self._unsubscribe()
        self._is_closing = True
        tasks = dict(self._tasks)
        for key, task in tasks.items():
            if key not in self._claimed:
                task.cancel()
        if tasks:
            _, unfinished = await asyncio.wait(tasks.values(), timeout=self._timings.mail_stop)
            for task in unfinished:
                task.cancel()

    def _schedule(self, key: str, min_seconds: float = 0.0) -> None:
        if key in self._claimed or self._is_closing:
            return
        if key in self._tasks:
            self._tasks.pop(key).cancel()
        if (stored := self._mails.waiting.get(key)) is not None:
            seconds = max(min_seconds, self._seconds_until_due(stored.record))
            self._tasks[key] = asyncio.ensure_future(self._send(stored, seconds))

    def _seconds_until_due(self, mail: Mail) -> float:
        if mail.lease:  # counted from the last renewal that this gateway saw, because clocks of machines differ
            return self._timings.lease
        return min(max(0.0, (mail.due - self._now()) / 1000), self._wait_after(mail.attempts))

    def _wait_after(self, attempts: int) -> float:
        return self._timings.mail_waits[min(attempts, len(self._timings.mail_waits)) - 1]

    async def _send(self, stored: StoredRecord[Mail], seconds: float) -> None:
        key, pause = stored.record.key, 0.0
        await asyncio.sleep(seconds)
        async with self._slots:
            self._claimed.add(key)
            try:
                await self._process(stored)
            except (RecordChanged, StoreUnavailable):  # another gateway has it, or the store is away
                pause = self._timings.mail_waits[0]
            finally:
                self._claimed.discard(key)
        del self._tasks[key]
        self._schedule(key, pause)

    async def _process(self, stored: StoredRecord[Mail]) -> None:
        mail = replace(stored.record, lease=secrets.token_hex(8), attempts=stored.record.attempts + 1)
        await self._mails.replace(stored, replace(mail, due=self._now_plus(self._timings.lease)))
        delivering = asyncio.ensure_future(self._deliver(mail))
        try:
            while not (await asyncio.wait([delivering], timeout=self._timings.lease / 3))[0]:
                with contextlib.suppress(StoreUnavailable):  # then no other gateway can claim the mail either
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
            return {"due": self._now_plus(self._wait_after(mail.attempts)), "error": str(error)}
        except OSError as error:
            return {"state": "uncertain", "error": f"the connection broke while the server received the mail: {error}"}
        except Exception as error:  # a bug must not stop the other mails
            asyncio.get_running_loop().call_exception_handler({"message": "a mail was not sent", "exception": error})
            return {"state": "uncertain", "error": f"it could not be sent: {type(error).__name__}"}
        state = self._delivery.final_state if self._delivery else "kept"
        return {"state": state, "error": f"refused: {', '.join(refused)}" if refused else ""}

    async def _change_record(self, claimed: Mail, **changes: Any) -> None:  # noqa: ANN401
        """Change the record of a claimed mail, unless the lease has passed to another gateway."""

        async def attempt() -> None:
            with contextlib.suppress(DamagedRecord):  # logged when it was mirrored
                stored = await self._mails.read(claimed.key)
                if stored is not None and stored.record.lease == claimed.lease:
                    await self._mails.replace(stored, replace(stored.record, **changes))

        await retry_while_changed("this mail", attempt)
