"""Two gateways on one store: who judges, who sends, who takes over, and that none trusts what it has not heard yet."""

from __future__ import annotations

import asyncio
import email
import email.policy
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.gateway.stores_under_test import SetClock
from tests.mail_server import MailServer
from tests.ports import free_port
from toolkit.dweets import lease, outbox
from toolkit.dweets.lock_records import SPACE
from toolkit.dweets.mail import Mail
from toolkit.dweets.service import DweetService, DweetSettings
from toolkit.dweets.stream import encode_frame
from toolkit.errors import KeyRejected
from toolkit.gateway.mail import SmtpPostman
from toolkit.gateway.outside_world import OutsideWorld
from toolkit.gateway.stores import Follower, Store
from toolkit.gateway.stores.embedded import EmbeddedStore

LOCK, KEY = "garage-lock", "master-of-the-garage"
MAIL = Mail("garage:1", 1_000, "garage", ["a@b.example"], "Alert of garage: fire", "fire\n")


@asynccontextmanager
async def store_at(now: Callable[[], int] | None = None) -> AsyncIterator[EmbeddedStore]:
    store = EmbeddedStore(None, now or OutsideWorld().clock.now)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def services(*stores: Store, smtp: str | None = None) -> AsyncIterator[list[DweetService]]:
    """Open one service on each store; given twice, it is a store that two gateways share."""
    postmen = [SmtpPostman(smtp) if smtp else None for _ in stores]
    opened = [
        DweetService(store, OutsideWorld(), DweetSettings(), postman)
        for store, postman in zip(stores, postmen, strict=True)
    ]
    for service in opened:
        await service.open()
    try:
        yield opened
    finally:
        for service in opened:
            await service.close()
        for postman in postmen:
            if postman is not None:
                postman.close()


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await check():
            await asyncio.sleep(0.01)


async def arm(service: DweetService, condition: str = "return dweet") -> None:
    await service.locks.adopt(LOCK, KEY)
    await service.locks.lock("garage", LOCK, KEY)
    await service.set_alert("a@b.example", "garage", condition, KEY)


def subjects(server: MailServer) -> list[str]:
    found = []
    for mail in server.mails:
        assert isinstance(mail.content, bytes)
        found.append(str(email.message_from_bytes(mail.content, policy=email.policy.default)["Subject"]))
    return found


async def states(service: DweetService) -> list[str]:
    return [mail.state for mail in await service.outbox.mails()]


# -- judging ----------------------------------------------------------------------------------------------


def test_two_judges_mail_each_opening_once_and_go_on_from_what_the_faster_one_wrote() -> None:
    """Each dweet changes the message, so at each of them one of the two loses the swap."""

    async def run(server: MailServer) -> None:
        async with store_at() as store, services(store, store, smtp=server.url) as (first, second):
            await arm(first)
            for number in range(60):
                poster = (first, second)[number % 2]
                await poster.post("garage", json.dumps(f"message {number}").encode(), KEY)
                if number % 20 == 19:
                    reader = (second, first)[number % 2]
                    _, status = await reader.get_alert("garage", KEY)
                    assert (status["message"], status["alerts_sent_today"]) == (f"message {number}", number + 1)
            await until(lambda: all_sent(second, 60))

    async def all_sent(service: DweetService, count: int) -> bool:
        return await states(service) == ["sent"] * count

    with MailServer() as server:
        asyncio.run(run(server))
        assert sorted(subjects(server)) == sorted(f"Alert of garage: message {number}" for number in range(60))


class Late:
    """Journals or records of a gateway that hears nothing while it is told not to: the far end of a slow wire."""

    def __init__(self, part: Any) -> None:
        self._part = part
        self._held: list[Callable[[], None]] = []
        self.is_deaf = False

    def follow(self, name: str, follower: Follower) -> Callable[[], None]:
        stop: Callable[[], None] = self._part.follow(name, self._hearing(follower))
        return stop

    def watch(self, space: str, watcher: Callable[[str, bytes | None], None]) -> Any:
        return self._part.watch(space, self._hearing(watcher))

    def listen(self) -> None:
        """Hear what was held back, and from now on everything at once."""
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
    """The same store, as a gateway sees it that hears late."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.journals: Any = Late(store.journals)
        self.records: Any = Late(store.records)
        self.fleeting = store.fleeting


def test_an_alert_is_settled_with_dweets_that_this_gateway_has_not_heard_of_yet() -> None:
    async def run() -> None:
        async with store_at() as store:
            poster: Any = LateStore(store)
            late: Any = LateStore(store)
            async with services(poster, late) as (first, second):
                await arm(first)
                await second.get_alert("garage", KEY)
                late.journals.is_deaf = poster.journals.is_deaf = True
                await first.post("garage", b'"fire"', KEY)
                _, status = await second.get_alert("garage", KEY)
                assert (status["open"], status["message"]) == (True, "fire")
                late.journals.listen()
                _, again = await second.get_alert("garage", KEY)
                assert again == status
                assert len(await second.outbox.mails()) == 1

    asyncio.run(run())


def test_a_judge_whose_alert_was_set_anew_elsewhere_goes_on_with_the_new_one() -> None:
    async def run() -> list[str]:
        async with store_at() as store:
            idle: Any = LateStore(store)
            late: Any = LateStore(store)
            async with services(idle, late) as (first, second):
                await arm(first)
                await second.get_alert("garage", KEY)
                late.records.is_deaf = True
                await first.set_alert("a@b.example", "garage", "return 'new ' + dweet", KEY)
                idle.journals.is_deaf = True  # only the one that does not know of the new alert judges
                await second.post("garage", b'"fire"', KEY)
                await second.alerts.settle("garage")
                found = [mail.subject for mail in await second.outbox.mails()]
                late.records.listen()
                await second.alerts.settle("garage")
                assert [mail.subject for mail in await second.outbox.mails()] == found
                return found

    assert asyncio.run(run()) == ["Alert of garage: new fire"]


class Reader:
    """Reads a stream of frames into a list."""

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
def test_a_stream_resumed_at_a_gateway_that_hears_late_gets_none_twice_and_misses_none(by: str) -> None:
    async def run() -> list[Any]:
        async with store_at() as store:
            late: Any = LateStore(store)
            async with services(store, late) as (first, second):
                await first.post("kitchen", b"0", None)
                await second.load("kitchen")
                late.journals.is_deaf = True
                posted = [(await first.post("kitchen", b"%d" % number, None))[0] for number in range(1, 6)]
                reader = Reader()
                read = posted[2]  # dweets 0 to 3 were read at the first
                since = str(read.sequence) if by == "number" else read.id
                number = await second.streams.position("kitchen", None, since)
                stop = await second.streams.listen("kitchen", None, number, encode_frame, reader)
                late.journals.listen()
                await first.post("kitchen", b"6", None)
                stop()
                return reader.contents

    assert asyncio.run(run()) == [4, 5, 6]


def test_a_lock_set_at_one_ends_the_streams_at_both_and_is_known_at_both() -> None:
    async def run() -> None:
        async with store_at() as store, services(store, store) as (first, second):
            readers = [Reader(), Reader()]
            for service, reader in zip((first, second), readers, strict=True):
                await service.streams.listen("garage", None, 0, encode_frame, reader)
            issued = await first.locks.issue()
            await second.locks.lock("garage", issued.lock, issued.master_key.reveal())
            assert [reader.ended for reader in readers] == [True, True]
            for service in (first, second):
                with pytest.raises(KeyRejected):
                    service.post("garage", b"1", None)

    asyncio.run(run())


def test_two_gateways_that_start_at_once_issue_the_same_given_lock_once() -> None:
    async def run() -> int:
        async with store_at() as store, services(store, store) as (first, second):
            await asyncio.gather(*(service.locks.adopt(LOCK, KEY) for service in (first, second) for _ in range(10)))
            await second.locks.lock("garage", LOCK, KEY)
            return len(await store.records.scan(SPACE))

    assert asyncio.run(run()) == 2  # the lock, and the thing that it is on


# -- sending ----------------------------------------------------------------------------------------------


async def put(store: Store, mail: Mail) -> None:
    await store.records.put(SPACE, mail.key, mail.bytes())


def test_a_mail_is_left_alone_while_its_owner_lives_and_taken_over_when_its_lease_has_run_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.06)

    async def run(server: MailServer) -> None:
        clock = SetClock()
        async with store_at(clock) as store:
            # What a gateway leaves that dies while it sends: its claims, and its last sign of life.
            await store.fleeting.put("leases", "dead", b"1", clock.at + 1_000)
            await put(store, replace(MAIL, owner="dead"))
            await put(store, replace(MAIL, id="garage:2", owner="dead", state="handing", attempts=1))
            await put(store, replace(MAIL, id="garage:3"))
            async with services(store, store, smtp=server.url) as (first, second):
                await until(lambda: has_states(first, ["waiting", "handing", "sent"]))
                for _ in range(10):  # several looks at the lease, which is held
                    assert await states(second) == ["waiting", "handing", "sent"]
                    await asyncio.sleep(0.02)
                clock.at += 1_001
                await until(lambda: has_states(second, ["sent", "uncertain", "sent"]))
                (_, uncertain, _) = await first.outbox.mails()
                assert uncertain.error == "the gateway stopped at handing it over"

    async def has_states(service: DweetService, wanted: list[str]) -> bool:
        return await states(service) == wanted

    with MailServer() as server:
        asyncio.run(run(server))
        assert len(server.mails) == 2


def test_two_that_fail_at_a_mail_wait_and_one_of_them_sends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "WAITS", (0.02, 0.05))

    async def run() -> int:
        port = free_port()
        async with store_at() as store, services(store, store, smtp=f"smtp://127.0.0.1:{port}") as (first, second):
            for number in range(20):
                await put(store, replace(MAIL, id=f"garage:{number}"))

            async def all_failed_twice() -> bool:
                return all(mail.attempts >= 2 for mail in await first.outbox.mails())

            await until(all_failed_twice)
            with MailServer(port) as server:

                async def all_sent() -> bool:
                    return await states(second) == ["sent"] * 20

                await until(all_sent)
                return len(server.mails)

    assert asyncio.run(run()) == 20


def test_a_wait_goes_on_where_it_was_after_a_restart_and_is_never_longer_than_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "WAITS", (1_000,))
    waits: list[float] = []

    async def run(server: MailServer) -> None:
        clock = SetClock()
        async with store_at(clock) as store:
            service = DweetService(store, OutsideWorld(), DweetSettings(), SmtpPostman(server.url))
            service.outbox._now = clock
            monkeypatch.setattr(service.outbox, "_arm", lambda key, seconds: waits.append(seconds))
            await put(store, replace(MAIL, attempts=3, due=clock.at + 400_000))
            await put(store, replace(MAIL, id="garage:2", at=1_001, attempts=3, due=clock.at - 1))
            await put(store, replace(MAIL, id="garage:3", at=1_002, attempts=3, due=clock.at + 10_000_000))
            await service.open()
            await service.close()

    with MailServer() as server:
        asyncio.run(run(server))
    assert waits == [400, 0, 1_000]


def test_a_stop_lets_the_text_that_is_on_its_way_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mail server is slow at taking the text: the gateway that stops waits for its word."""
    monkeypatch.setattr(outbox, "_SECONDS_TO_FINISH", 60.0)

    async def run() -> tuple[list[str], list[str]]:
        at_text, goes_on = asyncio.Event(), asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"220 hello\r\n")
            async for line in reader:
                if line.lower().startswith(b"data"):
                    writer.write(b"354 go on\r\n")
                    await reader.readuntil(b"\r\n.\r\n")
                    at_text.set()
                    await goes_on.wait()
                writer.write(b"250 OK\r\n")
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, store_at() as store:
            async with services(store, smtp=f"smtp://127.0.0.1:{port}") as (service,):
                await put(store, MAIL)
                await at_text.wait()
                before = await states(service)
                stopping = asyncio.ensure_future(service.outbox.close())
                await asyncio.sleep(0)
                goes_on.set()
                await stopping
            return before, [Mail.parse(key, data).state for key, data in (await store.records.scan(SPACE)).items()]

    before, after = asyncio.run(run())
    assert before == ["handing"]
    assert after == ["sent"]
