"""Live streams byte for byte: chunks, server-sent events, resuming, and slow listeners."""

from __future__ import annotations

import json
import re
import threading
from typing import Any

import psutil
import pytest

from tests.conftest import Caller, RawStream
from tests.mail_server import eventually
from toolkit_gateway import Gateway
from toolkit_gateway.http.limits import LIMITS
from toolkit_gateway.runtime import Timings


def dweet_in(chunk: bytes) -> Any:
    """Return the dweet of one frame; the frame is taken apart as an old client does."""
    length, text, end = chunk.split(b"\r\n")
    assert chunk.isascii()
    assert end == b""
    assert re.fullmatch(rb"0[0-9a-f]{3,}", length), "at least four digits, a zero first"
    assert int(length, 16) == len(text)
    record = json.loads(json.loads(text))
    assert list(record) == ["thing", "created", "content"]
    return record["content"]


def test_one_frame_byte_for_byte(demo: Gateway) -> None:
    call = Caller(demo)
    with call.stream("/listen/for/dweets/from/kitchen") as stream:
        head = stream.head.split("\r\n")
        assert head[0] == "HTTP/1.1 200 OK"
        assert "content-type: application/json" in head
        assert "transfer-encoding: chunked" in head
        assert "access-control-allow-origin: *" in head
        call.post("kitchen", {"ü": 1})
        text = (
            r'"{\"thing\":\"kitchen\",\"created\":\"2026-01-01T09:00:01.000Z\",'
            r'\"content\":{\"\\u00fc\": 1}}"'
        )
        assert stream.chunk() == b"%04x\r\n%b\r\n" % (len(text), text.encode())


def test_frames_of_all_sizes_are_read(call: Caller, thing: str) -> None:
    with call.stream(f"/listen/for/dweets/from/{thing}") as stream:
        for size in (1, 10, 100, 150, 160, 170, 180, 200, 255, 256, 1000, 1900, 3900, 4000, 4096, 8000, 60_000):
            for content in ("x" * size, "ü" * (size // 6), '"\\' * (size // 4), size):
                call.post(thing, content)
                assert dweet_in(stream.chunk()) == content


def test_each_dweet_is_one_chunk_and_all_listeners_get_it(call: Caller, thing: str) -> None:
    streams = [call.stream(f"/listen/for/dweets/from/{thing}") for _ in range(5)]
    call.post(f"{thing}x", "elsewhere")
    for number in range(20):
        call.post(thing, number)
    call("POST", f"/dweets/for/{thing}", b"\n".join(b"%d" % number for number in range(20, 150)))
    for stream in streams:
        with stream:
            assert [dweet_in(stream.chunk()) for _ in range(150)] == list(range(150))


def test_stream_resumes_by_number_transaction_or_time(demo: Gateway) -> None:
    call = Caller(demo)
    receipts = [call.post("kitchen", number)["with"] for number in range(700)]

    def first_after(since: str) -> Any:
        with call.stream(f"/listen/for/dweets/from/kitchen?since={since}") as stream:
            found = [dweet_in(stream.chunk()) for _ in range(3)]
            assert found == [found[0], found[0] + 1, found[0] + 2]
            return found[0]

    assert first_after("0") == 0, "older than the ring of 500"
    assert first_after("100") == 100
    assert first_after("650") == 650
    assert first_after(receipts[10]["transaction"]) == 11
    assert first_after(receipts[10]["created"]) == 11
    assert first_after(receipts[600]["transaction"]) == 601
    for time in ("2025-12-31T23:59:59.999Z", "2026-01-01T08:00:00Z", "2026-01-01T08:30:00-00:30", "2026-01-01"):
        assert first_after(time) == 0


def test_since_now_or_later_gives_new_dweets_only(call: Caller, thing: str) -> None:
    call.post(thing, "old")
    for since in ("700", "123456789", "999999999999999999", "2030-01-01T00:00:00.000Z"):
        with call.stream(f"/listen/for/dweets/from/{thing}?since={since}") as stream:
            call.post(thing, "new")
            assert dweet_in(stream.chunk()) == "new"


def test_unknown_since_value_is_refused(call: Caller, thing: str) -> None:
    call.post(thing, 1)
    unknown = "00000000-0000-4000-8000-000000000000"
    for since in ("never", "-1", "1.5", "%FF", "%00", unknown, "9" * 19, "2026-13-01T00:00:00.000Z"):
        reply = call("GET", f"/listen/for/dweets/from/{thing}?since={since}")
        assert (reply.status, json.loads(reply.body)["with"]) == (200, 404), since


def test_resuming_during_posts_neither_misses_nor_repeats(call: Caller, thing: str) -> None:
    def post() -> None:
        for start in range(0, 1500, 10):
            body = b"\n".join(b"%d" % n for n in range(start, start + 10))
            assert call("POST", f"/dweets/for/{thing}", body).status == 200

    poster = threading.Thread(target=post)
    poster.start()
    seen: list[int] = []
    while len(seen) < 1500:  # a listener that is cut off again and again, and comes back with `since`
        with call.stream(f"/listen/for/dweets/from/{thing}?since={len(seen)}") as stream:
            for _ in range(min(157, 1500 - len(seen))):
                seen.append(dweet_in(stream.chunk()))
    poster.join(60)
    assert seen == list(range(1500))


def test_dweets_as_server_sent_events(demo: Gateway) -> None:
    call = Caller(demo)
    call.post("kitchen", "before")
    with call.stream("/listen/for/dweets/from/kitchen", "Accept: text/event-stream\r\n") as stream:
        assert "content-type: text/event-stream" in stream.head.split("\r\n")
        assert stream.chunk() == b"id: 1\n\n"
        call("POST", "/dweet/for/kitchen", b'{"a":\r\n 1}')
        assert stream.chunk() == (
            b'id: 2\ndata: {"thing":"kitchen","created":"2026-01-01T09:00:02.000Z","content":{"a":\ndata:  1}}\n\n'
        )
    again = "Accept: text/event-stream\r\nLast-Event-ID: 1\r\n"
    with call.stream("/listen/for/dweets/from/kitchen", again) as stream:
        assert stream.chunk() == b"id: 1\n\n"
        assert stream.chunk().startswith(b"id: 2\ndata: ")
    with call.stream("/listen/for/dweets/from/kitchen?since=0", again) as stream:
        assert stream.chunk() == b"id: 0\n\n", "what the URL says counts"


def test_idle_event_stream_sends_keep_alives(call: Caller, thing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "heartbeat_seconds", 0.05)
    with call.stream(f"/listen/for/dweets/from/{thing}", "Accept: text/event-stream\r\n") as stream:
        assert stream.chunk() == b"id: 0\n\n"
        assert [stream.chunk() for _ in range(2)] == [b":\n\n"] * 2


def test_idle_frame_stream_sends_nothing(call: Caller, thing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "heartbeat_seconds", 0.01)
    with call.stream(f"/listen/for/dweets/from/{thing}") as stream:
        for number in range(3):
            threading.Event().wait(0.03)
            call.post(thing, number)
            assert dweet_in(stream.chunk()) == number, "old clients get no blank line and no heartbeat"


def is_held(stream: RawStream) -> bool:
    """Whether the gateway, which lives in this process, still has its end of the connection."""
    ours = stream.socket.getsockname()
    return any(connection.raddr == ours for connection in psutil.Process().net_connections("tcp"))


def posted_unread(call: Caller) -> RawStream:
    """Return a listener that has read nothing of 20 MB, which is more than any socket buffer holds."""
    stream = call.stream("/listen/for/dweets/from/kitchen")
    body = b"\n".join(b'"%b"' % (b"x" * 50_000) for _ in range(20))
    for _ in range(20):
        assert json.loads(call("POST", "/dweets/for/kitchen", body).body)["this"] == "succeeded"
    return stream


def test_queued_dweets_are_sent_before_the_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "stream_bytes", 64_000_000)
    monkeypatch.setattr(LIMITS, "end_seconds", 60.0)
    monkeypatch.setattr(LIMITS, "grace_seconds", 60)
    gateway = Gateway(timings=Timings(stop=60.0))
    with posted_unread(Caller(gateway)) as late:
        stopping = threading.Thread(target=gateway.close)
        stopping.start()
        assert [len(dweet_in(late.chunk())) for _ in range(400)] == [50_000] * 400
        assert late.chunk() == b"", "it ended properly"
        stopping.join(60)


def test_stalled_listener_does_not_delay_the_stop(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "stream_bytes", 64_000_000)
    monkeypatch.setattr(LIMITS, "end_seconds", 0.1)
    monkeypatch.setattr(LIMITS, "grace_seconds", 3600)
    with posted_unread(Caller(gateway)) as stalled:
        gateway.close()  # raises CannotStop where it waits for all that is queued
        assert 0 < len(list(stalled.chunks_until_cut_off())) < 400


def test_stalled_listener_is_cut_off_and_can_resume(call: Caller, thing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "stream_bytes", 2_000_000)
    stalled, lively = (call.stream(f"/listen/for/dweets/from/{thing}") for _ in range(2))
    body = b"\n".join(b'"%b"' % (b"x" * 50_000) for _ in range(20))
    call.post(thing, "first")
    for listener in (stalled, lively):  # from here on they are told what is new: what is replayed waits for its reader
        assert dweet_in(listener.chunk()) == "first"
    heard: list[int] = []
    reader = threading.Thread(target=lambda: heard.extend(len(dweet_in(lively.chunk())) for _ in range(400)))
    reader.start()
    for turn in range(20):  # 20 MB: more than any socket buffer holds
        # One that reads, but late on a busy machine, is not to be cut off.
        eventually(lambda: len(heard) >= 20 * turn)  # noqa: B023
        answer = json.loads(call("POST", f"/dweets/for/{thing}", body).body)
        assert answer["this"] == "succeeded"
    reader.join(60)
    assert heard == [50_000] * 400
    eventually(lambda: not is_held(stalled))
    with stalled:
        received = 1 + len([dweet_in(chunk) for chunk in stalled.chunks_until_cut_off()])
    assert received < 401
    with lively, call.stream(f"/listen/for/dweets/from/{thing}?since={received}") as resumed:
        assert len([dweet_in(resumed.chunk()) for _ in range(401 - received)]) == 401 - received
