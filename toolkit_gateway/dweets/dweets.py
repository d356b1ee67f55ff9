"""The service of thing messaging, without HTTP: post, read, listen, lock, alert."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from toolkit.dweets import wire
from toolkit.errors import InvalidArgument, MalformedRequest, RateLimited
from toolkit.secret import Secret
from toolkit.settings import Table
from toolkit_gateway.dweets import refusals, replies
from toolkit_gateway.dweets.alerts import Alerts
from toolkit_gateway.dweets.email_queue import EmailQueue
from toolkit_gateway.dweets.live_streams import LiveStreams
from toolkit_gateway.dweets.locks import Locks
from toolkit_gateway.dweets.mail import Mail
from toolkit_gateway.dweets.mail_delivery import MailFolder, SmtpDelivery, check_mail_server
from toolkit_gateway.dweets.stored_days import StoredRange
from toolkit_gateway.dweets.thing_cache import CachedThing, Things, journal_of
from toolkit_gateway.rate_limit import LimitReached, RateLimit
from toolkit_gateway.runtime import Runtime
from toolkit_gateway.stores import Entry, NewEntry, Store

if TYPE_CHECKING:
    from toolkit_gateway.dweets.archiving import Archiving

#: At most this many public things are listed as active.
MAX_ACTIVE_THINGS = 100
_ADJECTIVES = (
    "able amber bold brave brief bright brisk calm clear clever cosy crisp eager early easy fair fast fine fresh "
    "glad golden good grand great green happy honest jolly keen kind large light lively loyal lucky merry mild neat "
    "nice noble plain proud pure quick quiet rapid rare ready rich round royal safe sharp shiny silent silver simple "
    "smooth snowy soft solid stable steady still sunny sweet swift tidy tiny true vast vivid warm wide wild windy wise"
).split()
_NOUNS = (
    "acorn anchor apple arrow aspen atlas bamboo barn basin beach beacon bell birch bird boat book branch bridge brook "
    "cabin camp canal candle canyon castle cedar cherry cliff cloud coast comet coral cove creek crown dawn delta "
    "desert dolphin dune eagle echo elm falcon fern field finch forest fountain garden glacier globe harbor hawk heron "
    "hill island lagoon lake lantern leaf lily maple meadow moon moss mountain oak oasis ocean orchard otter owl panda "
    "pebble pine planet pond reef ridge river robin sail shell shore sky snow sparrow spring star stone stream sun swan"
).split()


class DweetSettings(Table, frozen=True):
    """The settings of thing messaging, which the operator of a gateway chooses."""

    #: Dweets kept for each thing.
    keep: Annotated[int, Meta(ge=wire.HISTORY_LENGTH, le=10**9)] = 10_000
    #: Posts to a thing per second; None for no limit.
    rate: Annotated[int, Meta(ge=1, le=10**6)] | None = None
    #: Locks that the gateway issues at its start: their master keys by name.
    locks: dict[str, Secret] = {}
    #: The server that alert mails go to; None keeps them in the outbox.
    smtp: Secret | None = None
    #: The address that alert mails come from.
    sender: str = "alerts@gateway.invalid"
    #: The folder of the archive, and the seconds between two writes to it.
    archive: Path | None = None
    archive_seconds: Annotated[float, Meta(gt=0, le=86_400)] = 10.0
    #: The number of finished alert mails that are kept.
    finished_mails: Annotated[int, Meta(ge=0, le=10**6)] = 1_000

    def __post_init__(self) -> None:
        if not all(map(wire.is_name, self.locks)):
            raise InvalidArgument("locks: a lock's name must have 1 to 256 bytes of UTF-8 and no control characters")
        if not wire.is_email_address(self.sender):
            raise InvalidArgument("sender: expected one e-mail address, as alerts@example.com")
        if self.smtp is not None:
            check_mail_server(self.smtp)


class DweetService:
    """Thing messaging over a store."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        settings: DweetSettings,
        delivery: MailFolder | SmtpDelivery | None = None,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self.settings = settings
        self.things = Things(store.journals)
        rate = settings.rate
        self._rate_limit = rate and RateLimit(rate, rate, lambda: runtime.clock.now() / 1000)
        self.locks = Locks(store.records, lambda thing: self.streams.end(thing))
        self.streams = LiveStreams(self.things, self.locks)
        self.alerts = Alerts(store, runtime, self.locks)
        delivery = delivery or MailFolder(None)
        self.keeps_mails = isinstance(delivery, MailFolder)  # for want of a mail server
        self.email_queue = EmailQueue(store.records, delivery, runtime, settings.sender, settings.finished_mails)
        self._archiving: Archiving | None = None
        if settings.archive is not None:
            from toolkit_gateway.dweets.archiving import Archiving  # imports Arrow, which takes 0.25 s

            now, lease = runtime.clock.now, runtime.timings.lease
            self._archiving = Archiving(store, settings.archive, now, settings.archive_seconds, lease)

    async def open(self) -> None:
        if self._archiving is not None:
            await self._archiving.open()
        await self.locks.open()
        await self.email_queue.open()
        await self.alerts.open()

    async def close(self) -> None:
        await self.alerts.close()
        await self.email_queue.close()
        self.locks.close()
        if self._archiving is not None:
            await self._archiving.close()

    def post_all(self, thing: str, contents: list[bytes], key: str | None) -> asyncio.Future[list[Entry]]:
        """Add dweets in order, all or none; the future is done when they are committed."""
        self.locks.check_master(thing, key)
        if self._rate_limit:
            try:
                self._rate_limit.take(thing, len(contents))
            except LimitReached:
                raise RateLimited(refusals.RATE_EXCEEDED) from None
        tick, fresh_id, new_entries = self._runtime.clock.tick, self._runtime.fresh_id, []
        for content in contents:
            at = tick()
            new_entries.append(NewEntry(at, fresh_id(), replies.dweet_record(thing, at, content)))
        floor = None if self._archiving is None else self._archiving.note_post(thing)
        return self._store.journals.append(journal_of(thing), new_entries, self.settings.keep, floor)

    def fresh_name(self) -> str:
        """Return a name such as ``brisk-heron-3f0a``; the digits make equal names unlikely."""
        source = self._runtime.random
        return f"{source.choice(_ADJECTIVES)}-{source.choice(_NOUNS)}-{source.randrange(1 << 16):04x}"

    def readable_thing(self, thing: str, key: str | None, length: int) -> CachedThing | None:
        """Check the key and return the cached thing; None if `things.load` must read its last `length` dweets."""
        self.locks.check_reader(thing, key)
        return self.things.cached(thing, length)

    async def stored_range(self, thing: str, key: str | None, date: str, hour: str | None) -> StoredRange:
        self.locks.check_reader(thing, key)
        newest = await self._store.journals.last(journal_of(thing), 1)
        return StoredRange(self.things, thing, newest[0].sequence if newest else 0, *_time_range(date, hour))

    async def mails(self) -> list[Mail]:
        """Return the alert mails, after waiting for the evaluation of new dweets (5 seconds at most)."""
        await self.alerts.settle()
        return await self.email_queue.mails()

    async def active_things(self) -> list[tuple[str, bytes]]:
        """Return the names and newest dweets of the public things that were active last, the latest one first."""
        loaded = await asyncio.gather(*(self.things.load(name, 1) for name in await self._public_names()))
        # Leave out things that were locked while they were loaded, and those whose first dweet is still being written.
        public = (thing for thing in loaded if not self.locks.is_locked(thing.name))
        return [(thing.name, newest) for thing in public if (newest := thing.latest()) is not None]

    async def _public_names(self) -> list[str]:
        prefix, count = journal_of(""), 2 * MAX_ACTIVE_THINGS
        while True:
            names = await self._store.journals.names(prefix, count)
            public = [thing for name in names if not self.locks.is_locked(thing := name.removeprefix(prefix))]
            if len(names) < count or len(public) >= MAX_ACTIVE_THINGS:
                return public[:MAX_ACTIVE_THINGS]
            count *= 4  # most of these things are locked


def _time_range(date: str, hour: str | None) -> tuple[int, int]:
    try:
        day = datetime.strptime(date, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise MalformedRequest("date must be YYYY-MM-DD") from None
    if hour is not None and not (len(hour) == 2 and hour.isascii() and hour.isdigit() and int(hour) < 24):
        raise MalformedRequest("hour must be 00 to 23")
    start = round((day + timedelta(hours=int(hour or 0))).timestamp() * 1000)
    return start, start + (86_400_000 if hour is None else 3_600_000)
