"""Gateways on one Redis that are killed: acknowledged dweets are stored once, and others finish their work."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

import toolkit
from tests.conftest import Caller, operator_of
from tests.gateway_process import GatewayProcess, Killer
from tests.mail_server import BadServer, MailServer, drip, eventually
from tests.redis_servers import fresh_url
from toolkit_gateway import Gateway
from toolkit_gateway.runtime import Timings

POSTERS, POSTS = 12, 200
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


def test_kill_of_one_of_three_gateways_loses_nothing() -> None:
    shared: dict[str, Any] = {"store": fresh_url(), "keep": 2 * POSTERS * POSTS}
    with GatewayProcess(None, **shared) as victim, Gateway(**shared) as second, Gateway(**shared) as third:
        # By then not all who began at the victim can be done with their posts.
        killer = Killer(victim.kill, POSTERS * POSTS // 3)
        heard: list[Any] = []
        listener = threading.Thread(target=lambda: heard.extend(read_all(second.base_url, "end")))
        listener.start()
        ports = [int(gateway.base_url.rpartition(":")[2]) for gateway in (victim, second, third)]
        posters = [Poster(n, ports, killer.answered) for n in range(POSTERS)]
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
    pairs = [tuple(pair) for pair in kept[:-1]]
    assert len(set(pairs)) == len(pairs), "none is there twice"
    assert acknowledged <= set(pairs) <= acknowledged | maybe, "every acknowledged one is there, and nothing else"
    for poster in posters:
        numbers = [number for who, number in pairs if who == poster.number]
        assert numbers == sorted(numbers), "in the order of the poster"
    assert heard == kept, "who listens at another gateway hears all, once, in the same order"


@pytest.mark.parametrize("held_at", [b"rcpt", b".\r\n"])
def test_another_gateway_sends_the_mail_of_a_killed_one(held_at: bytes) -> None:
    """Before or after the text went out; after it the mail server may have both, with one Message-ID."""
    options: dict[str, Any] = {"store": fresh_url(), "locks": {LOCK: KEY}}
    with BadServer(held_at, drip) as bad, MailServer() as server:
        with GatewayProcess(None, smtp=bad.url, **options) as victim:
            call = Caller(victim)
            call.get(f"/lock/garage?lock={LOCK}&key={KEY}")
            call.get(f"/alert/a@b.example/when/garage/return%20dweet?key={KEY}")
            call.post("garage", "fire", f"?key={KEY}")
            assert bad.is_reached.wait(60)
            with Gateway(smtp=server.url, **options) as other:
                assert operator_of(other).outbox()["state"].tolist() == ["waiting"]
            victim.kill()
        assert server.mails == []
        with Gateway(smtp=server.url, timings=Timings(mail_lease=0.1), **options) as other:
            eventually(lambda: operator_of(other).outbox()["state"].tolist() == ["sent"])
        assert len(server.mails) == 1
