"""A gateway killed during posts has everything it acknowledged, once and in order; many callers at once."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Caller, RawStream, raw_call
from tests.gateway_parts import gateway_and_services
from tests.gateway_process import GatewayProcess, Killer
from tests.mail_server import eventually
from toolkit_gateway import Gateway
from toolkit_gateway.dweets import dweets
from toolkit_gateway.dweets.things import Things
from toolkit_gateway.stores import Entry

POSTS, CONNECTIONS = 3_000, 8


class Poster(threading.Thread):
    """Posts numbers to one thing over one connection, and remembers which ones were acknowledged."""

    def __init__(self, port: int, worker: int, count: int, enough: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self.worker, self.count, self.enough = worker, count, enough
        self.acknowledged: list[int] = []
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def run(self) -> None:
        try:
            for number in range(self.count):
                self.connection.request("POST", "/dweet/for/all", json.dumps([self.worker, number]))
                if b'"this":"succeeded"' in self.connection.getresponse().read():
                    self.acknowledged.append(number)
                self.enough()
        except (OSError, http.client.HTTPException):
            return  # the gateway was killed: what it acknowledged is what counts
        finally:
            self.connection.close()


def content_of(chunk: bytes) -> list[int]:
    content: list[int] = json.loads(json.loads(chunk.split(b"\r\n")[1]))["content"]
    return content


def contents_since(base_url: str, position: int) -> list[list[int]]:
    """Return all dweets after a position, up to the one that ends them."""
    contents: list[Any] = []
    with RawStream(base_url, f"/listen/for/dweets/from/all?since={position}") as stream:
        while contents[-1:] != [["the", "end"]]:
            contents.append(content_of(stream.chunk()))
    return contents


def listen(base_url: str, seen: list[list[int]], listening: list[RawStream]) -> threading.Thread:
    def read() -> None:
        with RawStream(base_url, f"/listen/for/dweets/from/all?since={len(seen)}") as stream:
            listening.append(stream)
            for chunk in stream.chunks_until_cut_off():
                seen.append(content_of(chunk))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def test_kill_during_posts_loses_nothing_acknowledged(tmp_path: Path) -> None:
    with GatewayProcess(tmp_path, keep=POSTS) as process:
        seen: list[list[int]] = []
        listening: list[RawStream] = []
        listener = listen(process.base_url, seen, listening)
        killer = Killer(process.kill, POSTS // 3)
        posters = [Poster(process.port, n, POSTS // CONNECTIONS, killer.answered) for n in range(CONNECTIONS)]
        eventually(lambda: bool(listening))
        for poster in posters:
            poster.start()
        assert killer.is_done.wait(60)
        for poster in [*posters, listener]:
            poster.join(60)
    acknowledged = {(poster.worker, number) for poster in posters for number in poster.acknowledged}
    assert POSTS // 4 < len(acknowledged) < POSTS, "it was killed in the middle"
    with GatewayProcess(tmp_path, keep=POSTS) as process:
        raw_call(process.base_url, "POST", "/dweet/for/all", b'["the", "end"]')
        resumed = [*seen, *contents_since(process.base_url, len(seen))]
        kept = contents_since(process.base_url, 0)
        assert process.stop() == 0
    print(f"\n{len(acknowledged)} acknowledged, {len(kept) - 1} kept, {len(seen)} heard before the kill")
    pairs = [tuple(pair) for pair in kept[:-1]]
    assert len(set(pairs)) == len(pairs), "none is there twice"
    assert acknowledged <= set(pairs), "every acknowledged one is there"
    for worker in range(CONNECTIONS):
        numbers = [number for who, number in pairs if who == worker]
        assert numbers == list(range(len(numbers))), "in the order of the caller"
    assert resumed == kept, "the listener missed none and got none twice"


def test_hundreds_of_listeners_get_every_dweet(call: Caller, thing: str) -> None:
    streams = [call.stream(f"/listen/for/dweets/from/{thing}") for _ in range(300)]
    try:
        for number in range(3):
            assert call.post(thing, number)["this"] == "succeeded"
        for stream in streams:
            assert [content_of(stream.chunk()) for _ in range(3)] == [0, 1, 2]
    finally:
        for stream in streams:
            stream.close()
    assert call.post(thing, "still here")["this"] == "succeeded"


def test_two_thousand_things_post_at_once(shared: Gateway) -> None:
    port = int(shared.base_url.rpartition(":")[2])
    wrong: list[int] = []

    def use(start: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        for number in range(start, start + 500):
            connection.request("POST", f"/dweet/for/many-{number}", str(number))
            connection.getresponse().read()
        for number in range(start, start + 500, 10):
            connection.request("GET", f"/get/latest/dweet/for/many-{number}")
            if json.loads(connection.getresponse().read())["with"][0]["content"] != number:
                wrong.append(number)
        connection.close()

    users = [threading.Thread(target=use, args=(start,)) for start in range(0, 2_000, 500)]
    for user in users:
        user.start()
    for user in users:
        user.join(60)
    assert wrong == []
    assert len(Caller(shared).get("/get/stats")["with"]["active_things"]) == 100


def test_latest_of_a_cold_thing_reads_one_dweet(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, services = gateway_and_services()
    with gateway:
        call, counts = Caller(gateway), []
        journals = services.store.journals
        read = journals.last

        def counted(name: str, count: int) -> asyncio.Future[list[Entry]]:
            counts.append(count)
            return read(name, count)

        def contents(target: str) -> list[int]:
            return [dweet["content"] for dweet in call.get(target)["with"]]

        monkeypatch.setattr(journals, "last", counted)
        call.post("cold", 0)
        for number in range(1, 4):
            call.post("cold", number)
            assert contents("/get/latest/dweet/for/cold") == [number]
        assert counts == [1]
        for number in range(4, 6):
            call.post("cold", number)
            assert contents("/get/dweets/for/cold") == list(range(number, -1, -1))
            assert contents("/get/latest/dweet/for/cold") == [number]
        assert counts == [1, 500]


def test_unused_things_leave_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dweets, "Things", partial(Things, cache_bytes=16_000))
    gateway, services = gateway_and_services()
    with gateway:
        call = Caller(gateway)
        with call.stream("/listen/for/dweets/from/heard") as stream:
            for number in range(100):
                call.get(f"/get/latest/dweet/for/nobody-{number}")
            cached = [number for number in range(100) if services.dweets.things.cached(f"nobody-{number}", 1)]
            assert cached == list(range(100 - len(cached), 100))
            assert 5 <= len(cached) <= 11
            call.post("heard", 1)
            assert b'\\"content\\":1' in stream.chunk()
        call.post("nobody-5", "back")
        assert call.get("/get/latest/dweet/for/nobody-5")["with"][0]["content"] == "back"
