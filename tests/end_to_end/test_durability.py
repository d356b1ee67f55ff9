"""A gateway killed during posts has everything it acknowledged, once and in order; many callers at once."""

from __future__ import annotations

import json
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Caller, RawStream, raw_call
from tests.gateway_parts import gateway_and_services
from tests.gateway_process import GatewayProcess, Killer
from tests.mail_server import eventually
from tests.soak.callers import Poster
from toolkit_gateway.dweets import dweets
from toolkit_gateway.dweets.thing_cache import Things

POSTS, CONNECTIONS = 3_000, 8


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
        posters = [Poster(number, POSTS // CONNECTIONS) for number in range(CONNECTIONS)]
        threads = [threading.Thread(target=one.work, args=(process.port, killer.answered)) for one in posters]
        eventually(lambda: bool(listening))
        for thread in threads:
            thread.start()
        assert killer.is_done.wait(60)
        for thread in [*threads, listener]:
            thread.join(60)
    acknowledged = {(poster.number, number) for poster in posters for number in poster.acknowledged}
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
        assert numbers == list(range(1, len(numbers) + 1)), "in the order of the caller"
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
