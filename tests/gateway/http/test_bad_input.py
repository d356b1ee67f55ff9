"""Any input gets the right response at once, without a stack trace, and the gateway keeps serving."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.conftest import raw_call, raw_exchange
from toolkit_gateway import Gateway
from toolkit_gateway.http.limits import LIMITS
from toolkit_gateway.runtime import Timings

NOT_JSON = b'{"this":"failed","with":400,"because":"the body is not valid JSON"}'
TOO_LARGE = b'{"this":"failed","with":413,"because":"a dweet holds at most 65536 bytes"}'


@pytest.fixture(scope="module")
def running() -> Iterator[Gateway]:
    with Gateway(timings=Timings(key_interval=1e-6)) as gateway:
        yield gateway


@pytest.fixture(autouse=True)
def still_answering(
    running: Gateway, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[None]:
    """After every test: the gateway answers, and nobody has printed or logged an error."""
    with caplog.at_level(logging.WARNING):
        yield
        assert b'"this":"succeeded"' in raw_call(running.base_url, "POST", "/dweet/for/after", b'{"ok":true}').body
    assert [record.getMessage() for record in caplog.records] == []
    assert capfd.readouterr() == ("", "")


def connect(gateway: Gateway, timeout: float = 60.0) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(gateway.base_url.rpartition(":")[2])), timeout=timeout)


def read_reply(connection: socket.socket) -> tuple[bytes, bytes]:
    received = b""
    while b"\r\n\r\n" not in received:
        received += connection.recv(65536)
    head, _, body = received.partition(b"\r\n\r\n")
    (length,) = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length")]
    while len(body) < length:
        body += connection.recv(65536)
    return head, body


BAD_JSON = [
    # nothing, or not a whole value
    *(b"", b" ", b"{", b"}", b'{"a":}', b"tru", b"\x1f\x8b\x08\x00"),
    # Python and JavaScript, but not JSON
    *(b"{'a':1}", b'{"a":1,}', b"[1,]", b"undefined", b"/**/1", b"// x\n1", b"\xc2\xa01"),
    # more than one value
    *(b'{"a":1}{"b":2}', b"1 2"),
    # numbers that JSON cannot write
    *(b"NaN", b'{"a":NaN}', b"Infinity", b"-Infinity", b"1e400", b'{"a":-1e400}', b"1" * 5_000),
    *(b"01", b"+1", b"1.", b".5"),
    # texts with control characters, wrong escapes, lone surrogates, or bytes that are not UTF-8
    *(b'"\n"', b'"\x00"', b'"\\x41"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\xed\xa0\x80"', b'"\xff"', b'"\xc0\x80"'),
    *(b"\xef\xbb\xbf1", '{"a":1}'.encode("utf-16")),
    # nested too deeply
    *(b"[" * 1_025 + b"]" * 1_025, b"[" * 30_000, b'{"a":' * 5_000),
]


def test_invalid_json_is_refused(running: Gateway) -> None:
    for body in BAD_JSON:
        reply = raw_call(running.base_url, "POST", "/dweet/for/bad", body)
        assert (reply.status, reply.body) == (200, NOT_JSON), body[:100]
    assert b'"with":404' in raw_call(running.base_url, "GET", "/get/latest/dweet/for/bad").body


def test_json_of_100000_levels_is_refused(running: Gateway) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert raw_call(running.base_url, "POST", "/dweet/for/bad", deep).body == TOO_LARGE
    batch = raw_call(running.base_url, "POST", "/dweets/for/bad", deep).body
    assert json.loads(batch)["because"] == "line 1: a dweet holds at most 65536 bytes"


def test_largest_dweet_is_accepted_and_larger_refused(running: Gateway) -> None:
    for size in (65_536, 65_537, 262_145, 1_000_000):
        content = b'"%b"' % (b"x" * (size - 2))
        reply = raw_call(running.base_url, "POST", "/dweet/for/size", content)
        assert content in reply.body if size <= 65_536 else reply.body == TOO_LARGE
        spaces = raw_call(running.base_url, "POST", "/dweet/for/spaces", b" " * 1000 + content)
        assert (spaces.body == TOO_LARGE) == (size > 65_536), "the white space around it does not count"


@pytest.mark.parametrize("chunked", [False, True])
def test_body_of_100_megabytes_is_refused(running: Gateway, chunked: bool) -> None:
    """A client that sends all before it reads still sees why it was refused."""
    batch = {"this": "failed", "with": 413, "because": "the body is larger than 8388608 bytes"}
    targets = {"/dweet/for/bad": json.loads(TOO_LARGE), "/dweets/for/bad": batch}
    megabyte = b"x" * 1_000_000
    for target, refusal in targets.items():
        with connect(running) as connection:
            length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {100 * len(megabyte)}"
            connection.sendall(f"POST {target} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n".encode())
            for _ in range(100):
                connection.sendall(b"%x\r\n%b\r\n" % (len(megabyte), megabyte) if chunked else megabyte)
            connection.sendall(b"0\r\n\r\n" if chunked else b"")
            head, body = read_reply(connection)
            assert json.loads(body) == refusal
            assert head.startswith(b"HTTP/1.1 200 OK")
            assert b"connection: close" in head


def test_unexpected_body_is_ignored(running: Gateway) -> None:
    raw_call(running.base_url, "POST", "/dweet/for/known", b"1")
    for size in (1, 70_000, 1_000_000):
        reply = raw_call(running.base_url, "GET", "/get/latest/dweet/for/known", b"x" * size)
        assert b'"this":"succeeded"' in reply.body
        assert raw_call(running.base_url, "POST", "/nowhere", b"x" * size).status == 404
        assert raw_call(running.base_url, "DELETE", "/dweet/for/known", b"x" * size).status == 405


def test_unusual_targets_are_answered(running: Gateway) -> None:
    for target, status in {
        "/dweet/for/k\u00fche": 400,
        "/dweet/for/%": 200,
        "/dweet/for/%zz": 200,
        "/dweet/for/a%2": 200,
        "//dweet/for/a": 404,
        "/dweet/for/a//": 404,
        "/dweet//for/a": 404,
        "/dweet/for/../../etc": 404,
        "/dweet/for/a;b": 200,
        "/dweet/for/a?" + "&" * 1000: 200,
        "/dweet/for/a?" + "a" * 70_000 + "=1": 200,  # longer than httptools counts, too large for a dweet
    }.items():
        assert raw_call(running.base_url, "GET", target).status == status, target[:100]
    reply = raw_call(running.base_url, "GET", "/dweet/for/a?%FF=1")
    assert json.loads(reply.body) == {"this": "failed", "with": 400, "because": "names and values must be UTF-8"}


def test_routes_with_long_queries_take_larger_heads(running: Gateway) -> None:
    for method, target, size, status in (
        ("GET", "/get/stats?a=", 30_000, 200),
        ("GET", "/get/stats?a=", 40_000, 431),
        ("POST", "/dweet/for/head?a=", 40_000, 431),
        ("GET", "/dweet/for/head?a=", 60_000, 200),
        ("GET", "/dweet/quietly/for/head?a=", 60_000, 204),
        ("GET", "/dweet?a=", 250_000, 200),
        ("GET", "http://localhost/dweet/for/head?a=", 270_000, 431),
        ("GET", "/alert/a@b.example/when/head/", 250_000, 200),
        ("GET", "/render/png?text=", 250_000, 401),
    ):
        assert raw_call(running.base_url, method, target + "x" * size).status == status, target


def test_large_unexpected_body_is_refused_with_its_limit(running: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "dropped_bytes", 1_000)
    request = b"GET /dweets/for/kitchen HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n" + bytes(1_001)
    body = raw_exchange(running.base_url, request).partition(b"\r\n\r\n")[2]
    assert json.loads(body)["because"] == "the body is larger than 1000 bytes"


def test_too_large_request_head_gets_its_response(running: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "head_bytes", 1_000)
    with connect(running) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nA: " + b"x" * 1_001)
        head, body = read_reply(connection)
        assert head.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
        assert body == b"the head of the request is too large"
        assert connection.recv(1) == b""


def test_unfinished_request_is_answered_and_closed(running: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "request_seconds", 0.15)
    post = b"POST /dweet/for/slow HTTP/1.1\r\nHost: localhost\r\n"
    for sent in (
        b"GET /get/stats HT",
        post,
        post + b"Content-Length: 9\r\n\r\n",
        post + b'Content-Length: 9\r\n\r\n{"a"',
        post + b'Transfer-Encoding: chunked\r\n\r\n4\r\n{"a"',
        post + b"Content-Length: 9\r\nExpect: 100-continue\r\n\r\n",
    ):
        with connect(running) as connection:
            connection.sendall(sent)
            received = b""
            while piece := connection.recv(65536):
                received += piece
        assert b"408" in received, received
        assert b"did not arrive" in received
        assert b"connection: close" in received


def test_slow_sender_within_the_time_limit_is_answered(running: Gateway) -> None:
    request = b'POST /dweet/for/drip HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7\r\n\r\n{"a":1}'
    with connect(running) as connection:
        for place in range(len(request)):
            connection.sendall(request[place : place + 1])
            threading.Event().wait(0.001)
        assert b'"content":{"a":1}' in read_reply(connection)[1]


def test_a_slow_sender_gains_no_time_by_dripping(running: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "request_seconds", 0.2)
    with connect(running) as connection:
        connection.sendall(b"GET /get/stats HTTP/1.1\r\n")
        sent = 0
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while sent < 500:  # ten seconds, if nobody ends it
                connection.sendall(b"a: b\r\n")
                threading.Event().wait(0.02)
                sent += 1
    assert sent < 250


def test_aborted_requests_do_not_affect_others(running: Gateway) -> None:
    for sent in (
        b"",
        b"P",
        b"POST /dweet/for/gone HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n",
        b"GET /listen/for/dweets/from/x HTTP/1.1\r\nHost: localhost\r\n\r\n",
    ):
        for _ in range(20):
            with connect(running) as connection:
                connection.sendall(sent)
    assert b'"with":404' in raw_call(running.base_url, "GET", "/get/latest/dweet/for/gone").body


def test_pipelined_requests_are_answered_in_order(running: Gateway) -> None:
    requests = b""
    for number in range(50):
        body = b'{"n":%d}' % number
        requests += b"POST /dweet/for/pipe HTTP/1.1\r\nHost: [::1]\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
        requests += b"GET /get/latest/dweet/for/nobody HTTP/1.1\r\nHost: localhost\r\n\r\n"
        requests += b"GET /get/stats HTTP/1.1\r\nHost: localhost\r\n\r\n"
    requests += b"GET /get/latest/dweet/for/pipe HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    answer = raw_exchange(running.base_url, requests)
    bodies = [part.partition(b"\r\n\r\n")[2] for part in answer.split(b"HTTP/1.1 200 OK\r\n")[1:]]
    assert len(bodies) == 151
    for number in range(50):
        post, nobody, stats = bodies[number * 3 : number * 3 + 3]
        assert b'"content":{"n":%d}' % number in post
        assert b'"with":404' in nobody
        assert b"active_things" in stats
    assert b'"content":{"n":49}' in bodies[150]


def test_unread_responses_do_not_pile_up(running: Gateway) -> None:
    """A caller may send requests without end and never read: the gateway stops reading from it."""
    big = b'"%b"' % (b"x" * 60_000)
    for _ in range(20):
        raw_call(running.base_url, "POST", "/dweet/for/big", big)
    request = b"GET /get/dweets/for/big HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100
    with connect(running, timeout=1.0) as connection:
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 50_000_000:  # a million requests, each for an answer of 1.2 MB
                connection.sendall(request)
                sent += len(request)
    assert sent < 50_000_000


def test_expect_continue_gets_100(running: Gateway) -> None:
    with connect(running) as connection:
        head = b"POST /dweet/for/%b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n"
        connection.sendall(head % (b"patient", 7))
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b'{"a":1}')
        assert b'"content":{"a":1}' in read_reply(connection)[1]
    with connect(running) as connection:
        connection.sendall(head % (b"patient", 100_000_000))
        top, body = read_reply(connection)
        assert top.startswith(b"HTTP/1.1 200 OK"), "refused before a byte of it is sent"
        assert body == TOO_LARGE
