"""Gateways on one Redis that are killed: what they acknowledged is there once, and what they had begun others end."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import toolkit
from tests.conftest import operator_of
from tests.dweets.conftest import Caller
from tests.gateway_process import GatewayProcess, Killer
from tests.mail_server import MailServer, eventually
from tests.redis_servers import fresh_url
from toolkit.dweets.service.mail import Mail
from toolkit.dweets.service.storage import SPACE
from toolkit.gateway import Gateway
from toolkit.gateway.gateway import store_of
from toolkit.outside_world import OutsideWorld, Timings

POSTERS, POSTS = 16, 1_300
LOCK, KEY = "garage-lock", "master-of-the-garage"


class Poster(threading.Thread):
    """Posts numbers to one thing, one after the other, and goes on at another gateway where one is gone.

    ``acknowledged`` are those that were answered. What was sent and not answered is in ``maybe``: it is not sent
    again, so it may be there once or not at all.
    """

    def __init__(self, number: int, ports: list[int], answered: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.number, self.ports, self.answered = number, ports, answered
        self.acknowledged: list[int] = []
        self.maybe: list[int] = []
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            turn, number = self.number, 0
            while number < POSTS:
                number = self._post_while_it_lives(self.ports[turn % len(self.ports)], number)
                turn += 1
        except Exception as error:
            self.failure = error

    def _post_while_it_lives(self, port: int, number: int) -> int:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=60)
        except ConnectionRefusedError:
            return number
        with connection:
            while number < POSTS:
                body = b"[%d,%d]" % (self.number, number)
                head = b"POST /dweet/for/all HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
                try:
                    connection.sendall(head + body)
                    answer = connection.recv(65536)
                except ConnectionError:
                    answer = b""
                (self.acknowledged if b'"this":"succeeded"' in answer else self.maybe).append(number)
                number += 1
                if not answer:
                    return number
                self.answered()
        return number


def read_all(base_url: str, last: Any) -> list[Any]:
    """Listen to all from the first up to this content; whoever is too slow, and cut off, resumes."""
    found: list[Any] = []
    with toolkit.connect(base_url) as tk, tk.dweets.listen("all", since=0) as dweets:
        while not found or found[-1] != last:
            found.append(next(dweets).content)
    return found


def test_a_gateway_killed_among_three_loses_nothing_that_was_acknowledged() -> None:
    options: dict[str, Any] = {"store": fresh_url(), "keep": 2 * POSTERS * POSTS}
    with (
        GatewayProcess(None, **options) as victim,
        GatewayProcess(None, **options) as second,
        GatewayProcess(None, **options) as third,
    ):
        # By then not all who began at the victim can be done with their posts.
        killer = Killer(victim.kill, POSTERS * POSTS // 3)
        heard: list[Any] = []
        listener = threading.Thread(target=lambda: heard.extend(read_all(second.base_url, "end")))
        listener.start()
        posters = [Poster(n, [victim.port, second.port, third.port], killer.answered) for n in range(POSTERS)]
        for poster in posters:
            poster.start()
        assert killer.is_done.wait(60)
        for poster in posters:
            poster.join(90)
        Caller(third).post("all", "end")
        kept = read_all(third.base_url, "end")
        listener.join(60)
    assert [poster.failure for poster in posters if poster.failure] == []
    acknowledged = {(poster.number, number) for poster in posters for number in poster.acknowledged}
    maybe = {(poster.number, number) for poster in posters for number in poster.maybe}
    print(f"\n{len(acknowledged)} acknowledged, {len(maybe)} without an answer, {len(kept) - 1} kept")
    assert len(acknowledged) + len(maybe) == POSTERS * POSTS
    assert 0 < len(maybe) <= POSTERS, "it was killed in the middle"
    assert len(acknowledged) >= 20_000
    pairs = [tuple(pair) for pair in kept[:-1]]
    assert len(set(pairs)) == len(pairs), "none is there twice"
    assert acknowledged <= set(pairs) <= acknowledged | maybe, "every acknowledged one is there, and nothing else"
    for poster in posters:
        numbers = [number for who, number in pairs if who == poster.number]
        assert numbers == sorted(numbers), "in the order of the poster"
    assert heard == kept, "who listens at another gateway hears all, once, in the same order"


class StuckMailServer:
    """Takes a mail up to a point of the conversation and says nothing from there on; ``is_stuck`` is set then."""

    def __init__(self, says_nothing_to: bytes) -> None:
        self._says_nothing_to = says_nothing_to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"smtp://127.0.0.1:{self._listener.getsockname()[1]}"
        self.is_stuck, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rwb") as lines:
            lines.write(b"220 hello\r\n")
            lines.flush()
            in_text = False
            while not (line := lines.readline()).lower().startswith(self._says_nothing_to):
                if not in_text:
                    in_text = line.lower().startswith(b"data")
                    lines.write(b"354 go on\r\n" if in_text else b"250 OK\r\n")
                    lines.flush()
            self.is_stuck.set()
            self._over.wait(60)

    def close(self) -> None:
        self._over.set()
        self._thread.join(10)
        self._listener.close()


@pytest.mark.parametrize("says_nothing_to", [b"rcpt", b".\r\n"])
def test_another_gateway_sends_the_mail_of_a_killed_one(says_nothing_to: bytes) -> None:
    """Before or after the text went out; after it the mail server may have both, with one Message-ID."""
    store, stuck = fresh_url(), StuckMailServer(says_nothing_to)
    options, timings = {"store": store, "locks": {LOCK: KEY}}, {"lease": 1.5}
    with GatewayProcess(None, smtp=stuck.url, timings=timings, **options) as victim, MailServer() as server:
        call = Caller(victim)
        call.get(f"/lock/garage?lock={LOCK}&key={KEY}")
        call.get(f"/alert/a@b.example/when/garage/return%20dweet?key={KEY}")
        call.post("garage", "fire", f"?key={KEY}")
        assert stuck.is_stuck.wait(60)
        with Gateway(smtp=server.url, timings=Timings(**timings), **options) as other:
            lease_ends: set[int] = set()
            while len(lease_ends) < 5:  # renewed for longer than a lease lasts without
                time.sleep(0.02)
                lease_ends.add(stored_mail(store).due)
                assert operator_of(other).outbox()["state"].tolist() == ["waiting"]
            assert server.mails == []
            victim.kill()
            eventually(lambda: operator_of(other).outbox()["state"].tolist() == ["sent"])
        assert len(server.mails) == 1
    stuck.close()


def stored_mail(url: str) -> Mail:
    """Return the only mail of a store as it is now."""

    async def read() -> Mail:
        store = store_of(None, url, OutsideWorld().clock.now)
        await store.open()
        try:
            found = await store.records.scan(SPACE)
        finally:
            await store.close()
        (mail,) = [Mail.parse(key, data) for key, data in found.items() if key.startswith("mail:")]
        return mail

    return asyncio.run(read())
