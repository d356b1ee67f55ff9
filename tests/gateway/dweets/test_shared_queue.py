"""Two gateways on one store: which one evaluates, sends and takes over, also when notifications are late."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from tests.gateway.stores.stores_under_test import SetClock
from toolkit.errors import StoreUnavailable
from toolkit_gateway.dweets.dweets import DweetService, DweetSettings
from toolkit_gateway.dweets.email_queue import EmailQueue
from toolkit_gateway.dweets.mail import Mail
from toolkit_gateway.dweets.mail_delivery import Outcome
from toolkit_gateway.dweets.replies import encode_frame
from toolkit_gateway.dweets.stored_records import SPACE, Changes, encode_record
from toolkit_gateway.runtime import Runtime, Timings
from toolkit_gateway.stores import Store
from toolkit_gateway.stores.embedded import EmbeddedStore

LOCK, KEY = "garage-lock", "master-of-the-garage"
MAIL = Mail("garage:1", 1_000, "garage", ["a@b.example"], "Alert of garage: fire", "fire\n")


@asynccontextmanager
async def store_at(now: Callable[[], int] | None = None) -> AsyncIterator[EmbeddedStore]:
    store = EmbeddedStore(None, now or Runtime().clock.now)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def services(*stores: Store) -> AsyncIterator[list[DweetService]]:
    """Open one service on each store; given twice, it is a store that two gateways share."""
    opened = [DweetService(store, Runtime(), DweetSettings()) for store in stores]
    for service in opened:
        await service.open()
    try:
        yield opened
    finally:
        for service in opened:
            await service.close()


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await check():
            await asyncio.sleep(0.01)


async def arm(service: DweetService, condition: str = "return dweet") -> None:
    await service.locks.adopt(LOCK, KEY)
    await service.locks.lock("garage", LOCK, KEY)
    await service.alerts.set("a@b.example", "garage", condition, KEY)


# -- evaluating ----------------------------------------------------------------------------------------------


class Late:
    """Journals or records that deliver no news while `is_deaf` is set, like those of a gateway on a slow network."""

    def __init__(self, part: Any) -> None:
        self._part = part
        self._held: list[Callable[[], None]] = []
        self.is_deaf = False

    def subscribe(self, name: str, subscriber: Callable[..., None]) -> Any:
        return self._part.subscribe(name, self._hearing(subscriber))

    def listen(self) -> None:
        self.is_deaf = False
        while self._held:
            self._held.pop(0)()

    def _hearing(self, told: Callable[..., None]) -> Callable[..., None]:
        def hear(*news: Any) -> None:
            if self.is_deaf:
                self._held.append(lambda: told(*news))
            else:
                told(*news)

        return hear

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


class LateStore:
    def __init__(self, store: EmbeddedStore) -> None:
        self.journals: Any = Late(store.journals)
        self.records: Any = Late(store.records)
        self.ephemeral = store.ephemeral


async def test_alert_evaluates_dweets_not_yet_delivered() -> None:
    async with store_at() as store:
        poster: Any = LateStore(store)
        late: Any = LateStore(store)
        async with services(poster, late) as (first, second):
            await arm(first)
            await second.alerts.get("garage", KEY)
            late.journals.is_deaf = poster.journals.is_deaf = True
            await first.post_all("garage", [b'"fire"'], KEY)
            status = (await second.alerts.get("garage", KEY))["status"]
            assert (status["open"], status["message"]) == (True, "fire")
            late.journals.listen()
            again = (await second.alerts.get("garage", KEY))["status"]
            assert again == status
            assert len(await second.email_queue.mails()) == 1


async def test_alert_changed_elsewhere_is_evaluated_as_changed() -> None:
    async with store_at() as store:
        idle: Any = LateStore(store)
        late: Any = LateStore(store)
        async with services(idle, late) as (first, second):
            await arm(first)
            await second.alerts.get("garage", KEY)
            late.records.is_deaf = True
            await first.alerts.set("a@b.example", "garage", "return 'new ' + dweet", KEY)
            idle.journals.is_deaf = True  # only the one that does not know of the new alert evaluates
            await second.post_all("garage", [b'"fire"'], KEY)
            await second.alerts.settle("garage")
            found = [mail.subject for mail in await second.email_queue.mails()]
            late.records.listen()
            await second.alerts.settle("garage")
            assert [mail.subject for mail in await second.email_queue.mails()] == found
            assert found == ["Alert of garage: new fire"]


class Reader:
    def __init__(self) -> None:
        self.contents: list[Any] = []
        self.ended = False

    def write(self, *pieces: bytes) -> None:
        self.contents += [json.loads(json.loads(piece.split(b"\r\n")[1]))["content"] for piece in pieces]

    async def drain(self) -> None:
        return

    def end(self) -> None:
        self.ended = True


@pytest.mark.parametrize("by", ["number", "transaction"])
async def test_stream_resumes_exactly_at_a_lagging_gateway(by: str) -> None:
    async with store_at() as store:
        late: Any = LateStore(store)
        async with services(store, late) as (first, second):
            await first.post_all("kitchen", [b"0"], None)
            await second.things.load("kitchen", 500)
            late.journals.is_deaf = True
            posted = [(await first.post_all("kitchen", [b"%d" % number], None))[0] for number in range(1, 6)]
            reader = Reader()
            read = posted[2]  # dweets 0 to 3 were read at the first
            since = str(read.sequence) if by == "number" else read.id
            number = await second.streams.position("kitchen", None, since)
            stop = await second.streams.listen("kitchen", None, number, encode_frame, reader)
            late.journals.listen()
            await first.post_all("kitchen", [b"6"], None)
            stop()
            assert reader.contents == [4, 5, 6]


async def test_two_starting_gateways_issue_a_given_lock_once() -> None:
    async with store_at() as store, services(store, store) as (first, second):
        await asyncio.gather(*(service.locks.adopt(LOCK, KEY) for service in (first, second) for _ in range(10)))
        await second.locks.lock("garage", LOCK, KEY)
        assert len(await store.records.scan(SPACE)) == 2  # the lock, and the thing that it is on


# -- the e-mail queue --------------------------------------------------------------------------------------


SENT = Outcome("sent")


class Delivery:
    """Delivers when the test says so, and keeps the ids of the mails."""

    def __init__(self, outcome: Outcome = SENT, *, is_held: bool = False) -> None:
        self.mails: list[str] = []
        self.goes_on = asyncio.Event()
        self._outcome = outcome
        if not is_held:
            self.goes_on.set()

    async def deliver(self, mail: Mail, sender: str) -> Outcome:
        self.mails.append(mail.id)
        await self.goes_on.wait()
        return self._outcome

    async def is_at_work(self) -> bool:
        return bool(self.mails)

    def close(self) -> None:
        pass


@asynccontextmanager
async def queues(
    store: EmbeddedStore, *deliveries: Any, clock: SetClock | None = None, **timings: Any
) -> AsyncIterator[list[EmailQueue]]:
    """Open a queue for each delivery, as of so many gateways on one store."""
    runtime = Runtime(clock, timings=Timings(**timings))
    opened = [EmailQueue(store.records, delivery, runtime, "alerts@gateway.invalid", 1_000) for delivery in deliveries]
    for queue in opened:
        await queue.open()
    try:
        yield opened
    finally:
        for queue in opened:
            await queue.close()


async def put(store: EmbeddedStore, mail: Mail) -> None:
    await store.records.put(SPACE, mail.key, encode_record(mail))


async def in_store(store: EmbeddedStore) -> list[Mail]:
    found = (await store.records.scan(SPACE)).items()
    return sorted((Mail.parse(key, data) for key, data in found), key=lambda mail: mail.at)


async def has_states(store: EmbeddedStore, *wanted: str) -> bool:
    return [mail.state for mail in await in_store(store)] == list(wanted)


async def test_two_gateways_never_send_one_mail_concurrently() -> None:
    held, other = Delivery(is_held=True), Delivery()
    async with store_at() as store, queues(store, held) as _:
        await put(store, MAIL)
        await until(held.is_at_work)
        async with queues(store, other) as _:
            await put(store, replace(MAIL, id="garage:2", at=2_000))
            await until(lambda: has_states(store, "waiting", "sent"))  # so the other one is at work
            held.goes_on.set()
            await until(lambda: has_states(store, "sent", "sent"))
    assert (held.mails, other.mails) == (["garage:1"], ["garage:2"])


async def test_two_gateways_share_the_mails_and_send_each_once() -> None:
    deliveries = [Delivery(), Delivery()]
    async with store_at() as store, queues(store, *deliveries, mail_waits=(0.01,)):
        for number in range(30):
            await put(store, replace(MAIL, id=f"garage:{number}", at=number))
        await until(lambda: has_states(store, *["sent"] * 30))
    sent = [mail for delivery in deliveries for mail in delivery.mails]
    assert sorted(sent) == sorted(f"garage:{number}" for number in range(30))


async def test_the_mail_of_a_dead_gateway_is_taken_over() -> None:
    """A lease ends some time after this gateway has seen it, whatever the clock of the dead gateway said."""
    delivery = Delivery()
    taken = replace(MAIL, lease="dead", due=2 * 10**14, attempts=1)
    assert taken.content("a@b.example") == MAIL.content("a@b.example"), "its Message-ID shows that it is the same"
    async with store_at() as store:
        await put(store, taken)
        async with queues(store, delivery, mail_lease=0.05):
            await until(lambda: has_states(store, "sent"))
            assert delivery.mails == [MAIL.id]


async def test_outcome_after_a_lost_lease_is_not_written() -> None:
    """Another gateway has claimed the mail: what the first one says of it comes too late."""
    held = Delivery(is_held=True)
    async with store_at() as store:
        await put(store, MAIL)
        async with queues(store, held):
            await until(held.is_at_work)
            await put(store, taken := replace(MAIL, lease="other", attempts=2))
            held.goes_on.set()
        assert await in_store(store) == [taken]


async def test_back_off_grows_and_outlives_a_restart() -> None:
    """After a restart a mail waits for what is left, and never longer than a wait, whatever a clock said."""

    async def has_attempts(store: EmbeddedStore, number: int) -> bool:
        (mail,) = await in_store(store)
        return mail.attempts == number and not mail.lease

    clock = SetClock()
    async with store_at(clock) as store:
        failing = Delivery(Outcome("waiting", "the server is away"))
        async with queues(store, failing, mail_waits=(0.01, 0.02, 1_000), clock=clock):
            await put(store, MAIL)
            await until(lambda: has_attempts(store, 3))
            (mail,) = await in_store(store)
        assert (mail.due, mail.error) == (clock.at + 1_000_000, "the server is away")
        clock.at = mail.due
        async with queues(store, Delivery(), clock=clock):
            await until(lambda: has_states(store, "sent"))
        await put(store, replace(MAIL, attempts=1, due=2 * 10**14))
        async with queues(store, Delivery(), mail_waits=(0.05,), clock=clock):
            await until(lambda: has_states(store, "sent"))


async def test_store_write_after_delivery_is_retried() -> None:
    """What became of a mail is not forgotten, and the mail is not sent again."""
    held = Delivery(is_held=True)
    async with store_at() as store:
        real, failures = store.records.compare_and_set, 3

        def compare_and_set(space: str, expected: Changes, changes: Changes) -> Any:
            nonlocal failures
            if held.goes_on.is_set() and failures:
                failures -= 1
                raise StoreUnavailable("the disk is full")
            return real(space, expected, changes)

        store.records.compare_and_set = compare_and_set  # type: ignore[method-assign, assignment]
        await put(store, MAIL)
        async with queues(store, held, mail_waits=(0.01,)):
            await until(held.is_at_work)
            held.goes_on.set()
            await until(lambda: has_states(store, "sent"))
        assert (failures, held.mails) == (0, [MAIL.id])


@pytest.mark.parametrize(("goes_on", "seconds", "state"), [(True, 60.0, "sent"), (False, 0.01, "waiting")])
async def test_stop_waits_a_limited_time_for_a_delivery(goes_on: bool, seconds: float, state: str) -> None:
    """If it does not end, the mail keeps its lease, so the next gateway sends it once the lease has ended."""
    held = Delivery(is_held=True)
    async with store_at() as store:
        await put(store, MAIL)
        async with queues(store, held, mail_stop=seconds) as (queue,):
            await until(held.is_at_work)
            stopping = asyncio.ensure_future(queue.close())
            await asyncio.sleep(0)
            if goes_on:
                held.goes_on.set()
            await stopping
            (mail,) = await in_store(store)
            assert (mail.state, bool(mail.lease)) == (state, not goes_on)
