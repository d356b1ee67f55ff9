"""The outbox: alert mails that survive a crash, are retried, and are never sent twice for one opening.

A mail is written together with the alert's change. Before its text is handed to the mail server it is marked;
a gateway that dies between that mark and the server's answer cannot know whether the server took it, so such a
mail stays in the outbox as ``uncertain`` instead of being sent a second time.

Gateways on one store share the outbox. Whoever sends a mail has claimed it: its owner stands in the mail's own
record, and only a swap of that record claims it or moves it on, so no two have it at once. A claim holds as long as
its owner's lease. When that has run out, another gateway takes the mail over if it waits, and calls it uncertain if
it was being handed over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from toolkit.dweets.lease import Lease
from toolkit.dweets.lock_records import SPACE
from toolkit.dweets.mail import Mail, NotSendable, OutgoingMail
from toolkit.dweets.stored_records import DamagedRecord
from toolkit.gateway.stores import Store, StoreUnavailable

log = logging.getLogger("toolkit.gateway")

# Seconds before each further attempt; the last one is repeated.
WAITS = (1, 5, 30, 120, 600, 1800, 3600)
# Mails that are done with are kept to be looked at: so many, the newest.
DONE_KEPT = 1_000
# Mails that one gateway sends at once.
_HANDS = 4
# How long a stop waits for the mail server's word on a text that is on its way.
_SECONDS_TO_FINISH = 5.0


class NotDelivered(Exception):
    """The mail server refused or could not be reached: it has not taken the mail for certain."""


class _TakenElsewhere(Exception):
    """Another gateway on the same store is sending this mail."""


class _Stored(NamedTuple):
    """A mail, and the bytes of its record: what a change compares, never the mail written again."""

    mail: Mail
    record: bytes


class Postman(Protocol):
    """Brings mails to people, or keeps them where people look."""

    #: The state of a mail that was delivered: ``sent`` or ``kept``.
    delivered: str

    async def deliver(self, mail: OutgoingMail, before_text: Callable[[], object]) -> list[str]:
        """Deliver; call `before_text` in between, when the server is ready for the text.

        A postman who may deliver the same mail again without harm need not call it.

        Returns
        -------
        list of str
            The recipients that the server refused.

        Raises
        ------
        NotDelivered
            The server has not taken it.
        OSError
            The connection broke when the text was on its way.
        """
        ...


class Outbox:
    """The alert mails of all gateways on one store, and this gateway's part in sending them.

    Parameters
    ----------
    store
        Its records hold the mails, beside their alerts.
    postman
        Sends them; None keeps them to be read.
    sender
        The address they come from.
    now
        The gateway's clock in milliseconds since the epoch.
    """

    def __init__(self, store: Store, postman: Postman | None, sender: str, now: Callable[[], int]) -> None:
        self._records = store.records
        self._postman = postman
        self._sender = sender
        self._now = now
        self._lease = Lease(store.fleeting, now)
        self._open: dict[str, _Stored] = {}  # by key: those not at their end
        self._done: dict[str, tuple[int, str]] = {}
        self._ready: asyncio.Queue[str] = asyncio.Queue()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._in_hand: set[str] = set()
        self._handing: set[asyncio.Task[Any]] = set()
        self._closing = False
        self._hands: list[asyncio.Task[None]] = []
        self._unwatch: Callable[[], None] = lambda: None

    async def open(self) -> None:
        """Take up every mail that is not sent yet, unless another gateway is at it."""
        self._unwatch = await self._records.watch(SPACE, self._mirror)
        self._hands = [asyncio.ensure_future(self._work()) for _ in range(_HANDS)]

    async def close(self) -> None:
        """Stop sending; what waits is sent after the next start, or by another gateway."""
        self._unwatch()
        for timer in self._timers.values():
            timer.cancel()
        self._closing = True
        for hand in self._hands:
            if hand not in self._handing:
                hand.cancel()
        if self._handing:  # their text is on its way: cut off now, nobody would know whether it arrived
            await asyncio.wait(self._handing, timeout=_SECONDS_TO_FINISH)
        for hand in self._hands:
            hand.cancel()
        await asyncio.gather(*self._hands, return_exceptions=True)
        with contextlib.suppress(StoreUnavailable):  # then the lease runs out by itself
            await self._lease.end()

    async def mails(self) -> list[Mail]:
        """Return all mails, of those sent or kept the last thousand, oldest first."""
        found = await self._records.scan(SPACE)
        mails = []
        for key, value in found.items():
            if _is_mail(key):
                with contextlib.suppress(DamagedRecord):  # reported when it was mirrored
                    mails.append(Mail.parse(key, value))
        return sorted(mails, key=_age)

    # -- which mail is whose turn -------------------------------------------------------------------------

    def _mirror(self, key: str, value: bytes | None) -> None:
        if not _is_mail(key):
            return
        self._open.pop(key, None)
        self._done.pop(key, None)
        if value is None:
            return
        try:
            mail = Mail.parse(key, value)
        except DamagedRecord as damage:
            log.error("the record of the alert mail %a is damaged (%s): it is not sent", key, damage)
            return
        if mail.is_done:
            self._done[key] = _age(mail)
        elif mail.state != "uncertain":
            self._open[key] = _Stored(mail, value)
            if key not in self._in_hand:
                self._arm(key, self._seconds_to_wait(mail))

    def _seconds_to_wait(self, mail: Mail) -> float:
        """Return when to look at a mail: at its next attempt, or at once whether its owner is alive."""
        if mail.owner or not mail.attempts:
            return 0.0
        # By the clock, so that a restart does not begin the wait anew; but never longer than the wait itself, whatever
        # the clocks of two machines say.
        return min(max(0.0, (mail.due - self._now()) / 1000), _wait_after(mail.attempts))

    def _arm(self, key: str, seconds: float) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._let_in, key)

    def _let_in(self, key: str) -> None:
        del self._timers[key]
        self._ready.put_nowait(key)

    async def _work(self) -> None:
        hand = asyncio.current_task()
        assert hand is not None
        while not self._closing:
            key = await self._ready.get()
            stored = self._open.get(key)
            if stored is None or key in self._in_hand:
                continue
            self._in_hand.add(key)
            try:
                await self._take_up(key, stored)
            except StoreUnavailable:
                self._arm(key, WAITS[0])
            finally:
                self._in_hand.discard(key)
                self._handing.discard(hand)

    async def _take_up(self, key: str, stored: _Stored) -> None:
        mail = stored.mail
        if mail.owner not in ("", self._lease.owner) and await self._lease.is_held(mail.owner):
            self._arm(key, self._lease.seconds_between_looks)
        elif mail.state == "handing":
            error = "the gateway stopped at handing it over"
            await self._change(stored.record, replace(mail, state="uncertain", error=error))
        else:
            # The lease before the claim: a claim that is found without its lease counts as a dead gateway's.
            async with self._lease.held():
                claimed = replace(mail, owner=self._lease.owner)
                if await self._change(stored.record, claimed):
                    await self._send(_Stored(claimed, claimed.bytes()))
        # Changed meanwhile: the mirror did not ask for a turn, because the mail was in hand.
        now = self._open.get(key)
        if now is not None and now != stored:
            self._arm(key, self._seconds_to_wait(now.mail))

    # -- sending ------------------------------------------------------------------------------------------

    async def _send(self, claimed: _Stored) -> None:
        after: Mail | None
        try:
            if self._postman is not None:
                outgoing = claimed.mail.outgoing(self._sender)
                after = await self._attempt(claimed, outgoing, self._postman)
            else:
                after = replace(claimed.mail, state="kept", owner="")
        except NotSendable as error:
            after = replace(claimed.mail, state="unsendable", error=str(error))
        if after is not None:
            await self._settle(after)

    async def _attempt(self, claimed: _Stored, outgoing: OutgoingMail, postman: Postman) -> Mail | None:
        """Return the mail after one attempt, or None where it is another gateway's now."""
        handing = replace(claimed.mail, state="handing", attempts=claimed.mail.attempts + 1)
        loop, hand = asyncio.get_running_loop(), asyncio.current_task()
        assert hand is not None

        async def to_handing() -> bool:
            if self._closing:
                return False
            self._handing.add(hand)
            return await self._change(claimed.record, handing)

        def mark() -> None:
            # Called in the postman's thread: the text goes out only once the mark is on disk.
            try:
                marked = asyncio.run_coroutine_threadsafe(to_handing(), loop).result(timeout=30)
            except TimeoutError:  # an OSError, which would say that the text was on its way
                raise StoreUnavailable("the store did not answer in time") from None
            if not marked:
                raise _TakenElsewhere

        try:
            refused = await postman.deliver(outgoing, mark)
        except _TakenElsewhere:
            return None
        except (NotDelivered, StoreUnavailable) as error:  # without the mark the text was not handed over either
            due = self._now() + round(_wait_after(handing.attempts) * 1000)
            return replace(handing, state="waiting", owner="", due=due, error=str(error))
        except OSError as error:
            return replace(handing, state="uncertain", error=f"the connection broke at handing it over: {error}")
        except Exception as error:  # a mistake of ours must not cost the other mails their turn
            loop.call_exception_handler({"message": "a mail could not be sent", "exception": error})
            return replace(handing, state="uncertain", error=f"it could not be sent: {type(error).__name__}")
        return replace(handing, state=postman.delivered, error=f"refused: {', '.join(refused)}" if refused else "")

    async def _settle(self, after: Mail) -> None:
        """Write down what became of a mail of ours; what happened must not be forgotten while the store is away."""
        while True:
            try:
                if await self._write_if_ours(after):
                    return
            except StoreUnavailable:
                await asyncio.sleep(WAITS[0])

    async def _write_if_ours(self, after: Mail) -> bool:
        found = await self._records.get(SPACE, after.key)
        try:
            before = Mail.parse(after.key, found) if found is not None else None
        except DamagedRecord:  # reported when it was mirrored
            return True
        # Whoever took us for dead has either claimed the mail, which is no longer ours then, or called it uncertain,
        # and that we know better.
        if found is None or before is None or before.is_done or before.owner != self._lease.owner:
            return True
        return await self._change(found, after)

    async def _change(self, before: bytes, after: Mail) -> bool:
        changes: dict[str, bytes | None] = {after.key: after.bytes()}
        surplus = len(self._done) + after.is_done - DONE_KEPT
        if surplus > 0:
            changes.update(dict.fromkeys(sorted(self._done, key=self._done.__getitem__)[:surplus]))
        return await self._records.swap(SPACE, {after.key: before}, changes)


def _is_mail(key: str) -> bool:
    return key.startswith("mail:")


def _wait_after(attempts: int) -> float:
    return WAITS[min(attempts, len(WAITS)) - 1]


def _age(mail: Mail) -> tuple[int, str]:
    return mail.at, mail.id
