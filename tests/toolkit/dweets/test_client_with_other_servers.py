"""The client against small servers with literal responses, also hostile ones."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from types import TracebackType

import pandas as pd
import pytest

import toolkit
from tests.mail_server import eventually
from toolkit.connection import Connection
from toolkit.dweets.client import listening
from toolkit.dweets.stream_format import RECONNECT_WAITS, EventReader, FrameReader
from toolkit.errors import (
    Conflict,
    KeyRejected,
    MalformedRequest,
    NotFound,
    RateLimited,
    ServiceFailure,
    ThingAlreadyLocked,
    ThingNotLocked,
    ToolkitError,
    UnexpectedReply,
    Unreachable,
)
from toolkit_gateway.dweets.replies import encode_event, encode_frame

RECORD = b'{"thing":"kitchen","created":"2026-01-01T09:00:00.000Z","content":{"celsius":21.5}}'
FRAME_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


class LiteralServer:
    """Answers each connection with the next of some bytes, then closes it; remembers what was asked."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.asked: list[bytes] = []
        self.times: list[float] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection:
                request = b""
                while b"\r\n\r\n" not in request and (piece := connection.recv(65536)):
                    request += piece
                self.asked.append(request)
                self.times.append(time.monotonic())
                connection.sendall(self.answers[min(len(self.asked), len(self.answers)) - 1])

    def __enter__(self) -> LiteralServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def answer(body: bytes, status: bytes = b"200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(body), body)


def succeeded(data: bytes) -> bytes:
    return answer(b'{"this":"succeeded","by":"getting","the":"dweets","with":%b}' % data)


def asking(server: LiteralServer, work: Callable[[Connection], object]) -> object:
    with toolkit.connect(server.url) as tk:
        return work(tk)


def test_request_byte_for_byte() -> None:
    receipt = RECORD[:-1] + b',"transaction":"t"}'
    with LiteralServer(succeeded(receipt)) as server:
        asking(server, lambda tk: tk.dweets.post("my fridge/ü", {"a": 1.5, "b": None}, key="k+/= ü"))
    head, _, body = server.asked[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /dweet/for/my%20fridge%2F%C3%BC?key=k%2B%2F%3D%20%C3%BC HTTP/1.1\r\n")
    assert b"\r\nContent-Type: application/json" in head
    assert body in (b'{"a":1.5,"b":null}', b"")


def test_a_literal_answer_becomes_a_frame() -> None:
    newest_first = b"[%b,%b]" % (RECORD.replace(b"09:00:00.000", b"09:00:01.5"), RECORD)
    with LiteralServer(succeeded(newest_first)) as server:
        frame = asking(server, lambda tk: tk.dweets.history("kitchen"))
    assert frame.index.tolist()[0].isoformat() == "2026-01-01T09:00:00+00:00"  # type: ignore[attr-defined]
    assert frame["celsius"].tolist() == [21.5, 21.5]  # type: ignore[index]


def test_a_failure_becomes_the_error_of_its_class() -> None:
    for code, because, kind in [
        (400, "no", MalformedRequest),
        (403, "this thing is locked and requires a key", KeyRejected),
        (404, "we couldn't find this", NotFound),
        (409, "this thing is already locked", ThingAlreadyLocked),
        (409, "this thing is not locked", ThingNotLocked),
        (409, "this lock is already in use", Conflict),
        (418, "teapot", MalformedRequest),
        (429, "Rate limit exceeded, try again in 1 second(s).", RateLimited),
        (500, "sorry", ServiceFailure),
        (503, "away", ServiceFailure),
        ("what", "no code", MalformedRequest),
    ]:
        shown = f'"{code}"' if isinstance(code, str) else str(code)
        with (
            LiteralServer(
                answer(b'{"this":"failed","with":%b,"because":"%b"}' % (shown.encode(), because.encode()))
            ) as server,
            pytest.raises(kind) as caught,
        ):
            asking(server, lambda tk: tk.dweets.unlock("kitchen", key="k"))
        assert type(caught.value) is kind
        assert str(caught.value) == f"{because} (dweets: GET /unlock/kitchen)"


WRONG_BODIES = [
    *(b"", b"<html>not found</html>", b"null", b"[]", b"1", b'"this"', b"{}", b"\xff"),
    *(b'{"this":"maybe"}', b'{"this":"succeeded"}'),
    *(b'{"this":"succeeded","with":%b}' % data for data in (b"1", b"null", b'"x"', b"{}", b"[1]", b"[{}]")),
    b'{"this":"succeeded","with":[{"thing":1,"created":2,"content":3}]}',
    b'{"this":"succeeded","with":[{"thing":"a","created":"yesterday","content":3}]}',
    b'{"this":"succeeded","with":[{"thing":"a","created":"2026-13-01T00:00:00.000Z","content":3}]}',
]


@pytest.mark.parametrize("body", WRONG_BODIES)
def test_response_outside_the_contract_is_an_error(body: bytes) -> None:
    with LiteralServer(answer(body)) as server, toolkit.connect(server.url) as tk:
        calls: list[Callable[[], object]] = [
            lambda: tk.dweets.history("kitchen"),
            lambda: tk.dweets.latest("kitchen"),
            lambda: tk.dweets.post("kitchen", 1),
            lambda: tk.dweets.post_frame("kitchen", pd.DataFrame({"a": [1]})),
            lambda: tk.dweets.get_alert("kitchen", key="k"),
            lambda: tk.dweets.things(),
        ]
        for call in calls:
            with pytest.raises(UnexpectedReply):
                call()


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"", Unreachable),
        (b"garbage\r\n\r\n", Unreachable),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{", Unreachable),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", ToolkitError),
        (answer(b"", b"302 Found\r\nLocation: http://127.0.0.1:9/elsewhere"), UnexpectedReply),
        (answer(b"<html>", b"502 Bad Gateway"), UnexpectedReply),
    ],
)
@pytest.mark.parametrize("call", ["latest", "listen"])
def test_broken_or_redirected_response_is_an_error(call: str, raw: bytes, kind: type[ToolkitError]) -> None:
    work: dict[str, Callable[[Connection], object]] = {
        "latest": lambda tk: tk.dweets.latest("kitchen"),
        "listen": lambda tk: tk.dweets.listen("kitchen", patience=0),
    }
    if call == "listen" and b"chunked" in raw:
        return
    with LiteralServer(raw) as server, pytest.raises(kind):
        asking(server, work[call])
    assert len(server.asked) == 1, "no redirect is followed"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def frame(text: bytes, form: bytes = b"%x") -> bytes:
    quoted = b'"' + text.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
    return form % len(quoted) + b"\r\n" + quoted + b"\r\n"


@pytest.mark.parametrize("cut", [1, 7, 100_000])
def test_frames_of_an_old_server_are_read(cut: int) -> None:
    for form in (b"%x", b"%04x", b"%X", b"0%x"):
        frames = b"\r\n" + frame(RECORD, form) + b"03\r\n0\r\n" + frame(RECORD.replace(b"21.5", b"22"), form)
        pieces = b"".join(chunk(frames[start : start + cut]) for start in range(0, len(frames), cut))
        with LiteralServer(FRAME_HEAD + pieces) as server, toolkit.connect(server.url) as tk:
            with tk.dweets.listen("kitchen") as listener:
                found = [next(listener), next(listener)]
        assert [(dweet.content, dweet.sequence) for dweet in found] == [
            ({"celsius": 21.5}, None),
            ({"celsius": 22}, None),
        ]


def test_malformed_stream_is_an_error() -> None:
    for data in (
        b"hello\r\n",
        b"-5\r\n",
        b"0x10\r\n",
        b"fffffffff\r\n",
        b"3\r\n{}}\r\n",
        b'4\r\n"{}"\r\n',
        b'8\r\n"\\ud800"\r\n',
        b'3\r\n"["\r\n',
    ):
        with LiteralServer(FRAME_HEAD + chunk(data)) as server, toolkit.connect(server.url) as tk:
            with tk.dweets.listen("kitchen") as listener, pytest.raises(UnexpectedReply, match="not in the form"):
                next(listener)


def test_a_web_page_is_no_stream() -> None:
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>Welcome</html>"
    with LiteralServer(page) as server, toolkit.connect(server.url) as tk:
        with pytest.raises(UnexpectedReply, match="is a web page, not a stream of dweets"):
            tk.dweets.collect("kitchen", n=1, seconds=60)
        with pytest.raises(UnexpectedReply, match="the response to GET /handwritings is not JSON"):
            tk.handwriting.available()


def test_reconnects_to_short_streams_are_delayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "_SHORT_STREAM_SECONDS", 3600.0)  # also on a busy machine these streams are short
    with LiteralServer(FRAME_HEAD + b"0\r\n\r\n") as server, toolkit.connect(server.url) as tk:
        with tk.dweets.listen("kitchen") as listener:

            def close_later() -> None:
                eventually(lambda: len(server.times) >= 5)
                listener.close()

            closing = threading.Thread(target=close_later)
            closing.start()
            assert list(listener) == []
            closing.join(60)
    pauses = [after - before for before, after in pairwise(server.times)]
    # Once it is asked again at once, then ever later; a busy machine makes a pause longer only.
    assert all(pause > 0.9 * least for pause, least in zip(pauses[1:], RECONNECT_WAITS, strict=False)), pauses


def test_cut_stream_resumes_after_the_last_complete_dweet() -> None:
    head = FRAME_HEAD.replace(b"application/json", b"text/event-stream")
    first = head + chunk(b"id: 6\n\n") + chunk(b"id: 7\ndata: " + RECORD + b"\n\n") + chunk(b"id: 8\ndata: {")
    second = head + chunk(b"id: 7\n\nid: 8\ndata: " + RECORD + b"\n\n")
    with LiteralServer(first, second) as server, toolkit.connect(server.url) as tk:
        with tk.dweets.listen("kitchen", since=6) as listener:
            assert [next(listener).sequence, next(listener).sequence] == [7, 8]
    assert [asked.split(b" ")[1] for asked in server.asked[:2]] == [
        b"/listen/for/dweets/from/kitchen?since=6",
        b"/listen/for/dweets/from/kitchen?since=7",
    ]


def feed_all(reader: EventReader | FrameReader, data: bytes, cut: int) -> Iterator[bytes]:
    for start in range(0, len(data), cut):
        for streamed in reader.feed(data[start : start + cut]):
            yield streamed.record


def test_both_readers_accept_pieces_of_any_size() -> None:
    for cut in [1, 2, 3, 5, 64, 10_000]:
        records = [b'{"content":"%b"}' % (b"x" * size) for size in (0, 10, 300)] + ['{"content":\n\n"ü€😀"}'.encode()]
        frames = b"".join(encode_frame(n, record) for n, record in enumerate(records))
        assert list(feed_all(FrameReader(), frames, cut)) == records
        events = b":\n\n".join(encode_event(n, record) for n, record in enumerate(records))
        assert list(feed_all(EventReader(), events, cut)) == records
