"""Gateways on one Redis that are killed: acknowledged dweets are stored once, and others finish their work."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

import toolkit
from tests.conftest import Caller, operator_of
from tests.gateway_process import GatewayProcess, Killer
from tests.mail_server import BadServer, MailServer, drip, eventually
from tests.redis_servers import fresh_url
from tests.soak.callers import Poster
from toolkit_gateway import Gateway
from toolkit_gateway.runtime import Timings

POSTERS, POSTS = 12, 200
LOCK, KEY = "garage-lock", "master-of-the-garage"


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
        ports = [int(gateway.base_url.rpartition(":")[2]) for gateway in (victim, second, third)]

        def post(poster: Poster) -> None:
            for turn in itertools.count(poster.number):  # at the next gateway where one is gone
                poster.work(ports[turn % 3], killer.answered)
                if poster.sent == POSTS:
                    return

        heard: list[Any] = []
        listener = threading.Thread(target=lambda: heard.extend(read_all(second.base_url, "end")))
        listener.start()
        posters = [Poster(number, POSTS) for number in range(POSTERS)]
        threads = [threading.Thread(target=post, args=(poster,)) for poster in posters]
        for thread in threads:
            thread.start()
        assert killer.is_done.wait(60)
        for thread in threads:
            thread.join(90)
        Caller(third).post("all", "end")
        kept = read_all(third.base_url, "end")
        listener.join(60)
    assert [poster.failure for poster in posters if poster.failure] == []
    acknowledged = {(poster.number, number) for poster in posters for number in poster.acknowledged}
    maybe = {(who, number) for who in range(POSTERS) for number in range(1, POSTS + 1)} - acknowledged
    print(f"\n{len(acknowledged)} acknowledged, {len(maybe)} without an answer, {len(kept) - 1} kept")
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
