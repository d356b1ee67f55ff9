"""The lane for hot routes and uvicorn's own way answer the same bytes."""

from __future__ import annotations

import pytest

from tests.conftest import raw_exchange
from toolkit.gateway import Gateway, lane

BODY = b'{"celsius": 21.50, "room": "k\xc3\xbcche"}'
DEEP = b"[" * 2_000

#: Method, target and body: what succeeds, what is refused, what is unknown.
REQUESTS = [
    ("POST", "/dweet/for/kitchen", BODY),
    ("POST", "/dweet/for/kitchen?callback=f", BODY),
    ("POST", "/dweet/for/kitchen", b"{broken"),
    ("POST", "/dweet/for/kitchen", DEEP),
    ("POST", "/dweet/for/a%00b", BODY),
    ("POST", "/dweet/for/" + "x" * 257, BODY),
    ("GET", "/get/latest/dweet/for/hall", b""),
    ("GET", "/get/latest/dweet/for/hall?callback=show", b""),
    ("GET", "/get/latest/dweet/for/hall?callback=1", b""),
    ("GET", "/get/dweets/for/hall", b""),
    ("GET", "/get/dweets/for/nothing", b""),
]


def exchanged(method: str, target: str, body: bytes, *, chunked: bool) -> list[bytes]:
    """Return the lines of the head and the body that a fresh demo gateway answers; a chunked body avoids the lane."""
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(body)
    sent = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n" if chunked else body
    head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n".encode()
    with Gateway.demo() as gateway:
        raw_exchange(gateway.base_url, _post("/dweet/for/hall"))
        answer = raw_exchange(gateway.base_url, head + framing + b"\r\n\r\n" + sent)
    return [line for line in answer.split(b"\r\n") if not line.startswith(b"date:")]


def _post(target: str) -> bytes:
    head = f"POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(BODY)}\r\n\r\n"
    return head.encode() + BODY


@pytest.mark.parametrize(("method", "target", "body"), REQUESTS)
def test_both_ways_answer_the_same_bytes(
    method: str, target: str, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = []
    sent = lane.LaneProtocol.send
    monkeypatch.setattr(lane.LaneProtocol, "send", lambda *given: (taken.append(given), sent(*given)))
    in_the_lane = exchanged(method, target, body, chunked=False)
    assert len(taken) == 2, "the request did not take the lane"
    taken.clear()
    by_uvicorn = exchanged(method, target, body, chunked=True)
    assert len(taken) == 1, "the chunked request took the lane"
    assert sorted(in_the_lane[1:-2]) == sorted(by_uvicorn[1:-2])
    assert in_the_lane[0] == by_uvicorn[0]
    assert in_the_lane[-2:] == by_uvicorn[-2:]
