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


@pytest.mark.parametrize("body", BAD_JSON)
def test_invalid_json_is_refused(running: Gateway, body: bytes) -> None:
    reply = raw_call(running.base_url, "POST", "/dweet/for/bad", body)
    assert (reply.status, reply.body) == (200, NOT_JSON)
    assert b'"with":404' in raw_call(running.base_url, "GET", "/get/latest/dweet/for/bad").body


def test_json_of_100000_levels_is_refused(running: Gateway) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert raw_call(running.base_url, "POST", "/dweet/for/bad", deep).body == TOO_LARGE
    batch = raw_call(running.base_url, "POST", "/dweets/for/bad", deep).body
    assert json.loads(batch)["because"] == "line 1: a dweet holds at most 65536 bytes"


@pytest.mark.parametrize("size", [65_536, 65_537, 262_144, 262_145, 1_000_000])
def test_largest_dweet_is_accepted_and_larger_refused(running: Gateway, size: int) -> None:
    content = b'"%b"' % (b"x" * (size - 2))
    reply = raw_call(running.base_url, "POST", f"/dweet/for/size-{size}", content)
    assert reply.status == 200
    if size <= 65_536:
        assert content in reply.body
    else:
        assert reply.body == TOO_LARGE
    spaces = raw_call(running.base_url, "POST", "/dweet/for/spaces", b" " * 1000 + content)
    assert (spaces.body == TOO_LARGE) == (size > 65_536), "the white space around it does not count"


@pytest.mark.parametrize("target", ["/dweet/for/bad", "/dweet", "/dweet/quietly/for/bad"])
@pytest.mark.parametrize("chunked", [False, True])
def test_body_of_100_megabytes_is_refused(running: Gateway, target: str, chunked: bool) -> None:
    """A client that sends all before it reads still sees why it was refused."""
    megabyte = b"x" * 1_000_000
    with connect(running, timeout=60) as connection:
        length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {100 * len(megabyte)}"
        connection.sendall(f"POST {target} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n".encode())
        for _ in range(100):
            connection.sendall(b"%x\r\n%b\r\n" % (len(megabyte), megabyte) if chunked else megabyte)
        connection.sendall(b"0\r\n\r\n" if chunked else b"")
        head, body = read_reply(connection)
        assert body == TOO_LARGE
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert b"connection: close" in head


def test_batch_of_100_megabytes_is_refused(running: Gateway) -> None:
    with connect(running, timeout=60) as connection:
        connection.sendall(b"POST /dweets/for/bad HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n")
        _, body = read_reply(connection)
        assert json.loads(body) == {"this": "failed", "with": 413, "because": "the body is larger than 8388608 bytes"}


def test_unexpected_body_is_ignored(running: Gateway) -> None:
    raw_call(running.base_url, "POST", "/dweet/for/known", b"1")
    for size in (1, 70_000, 1_000_000):
        reply = raw_call(running.base_url, "GET", "/get/latest/dweet/for/known", b"x" * size)
        assert b'"this":"succeeded"' in reply.body
        assert raw_call(running.base_url, "POST", "/nowhere", b"x" * size).status == 404
        assert raw_call(running.base_url, "DELETE", "/dweet/for/known", b"x" * size).status == 405


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"hello world\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET /dweet/for/x y HTTP/1.1\r\n\r\n",
        b"G\xc3\x89T / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nNo colon\r\n\r\n",
        b"GET / HTTP/1.1\r\n: empty\r\n\r\n",
        b"GET / HTTP/1.1\r\nA: b\x00c\r\n\r\n",
        b"POST /dweet HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST /dweet HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /dweet HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n1",
        b"POST /dweet HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /dweet HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /dweet HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST /dweet HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET http:// HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT dweet.io:443 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"* / HTTP/1.1\r\n\r\n",
    ],
)
def test_bytes_that_are_not_http_get_400(running: Gateway, garbage: bytes) -> None:
    answer = raw_exchange(running.base_url, garbage)
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 404 ")), answer
    assert b"Traceback" not in answer


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/dweet/for/k\u00fche", 400),
        ("/dweet/for/%", 200),
        ("/dweet/for/%zz", 200),
        ("/dweet/for/a%2", 200),
        ("//dweet/for/a", 404),
        ("/dweet/for/a//", 404),
        ("/dweet//for/a", 404),
        ("/dweet/for/../../etc", 404),
        ("/dweet/for/a;b", 200),
        ("/dweet/for/a?" + "&" * 1000, 200),
        ("/dweet/for/a?%FF=%FF", 200),
        ("/dweet/for/a?" + "a" * 60_000 + "=1", 200),
        ("/dweet/for/a?" + "a" * 70_000 + "=1", 200),  # longer than httptools counts, too large for a dweet
    ],
)
def test_unusual_targets_are_answered(running: Gateway, target: str, status: int) -> None:
    assert raw_call(running.base_url, "GET", target).status == status


def test_query_that_is_not_utf8_is_refused(running: Gateway) -> None:
    reply = raw_call(running.base_url, "GET", "/dweet/for/a?%FF=1")
    assert json.loads(reply.body) == {"this": "failed", "with": 400, "because": "names and values must be UTF-8"}


def _send_a_hundred_megabytes(connection: socket.socket, piece: bytes) -> None:
    for _ in range(10_000):
        connection.sendall(piece)


def test_endless_request_head_is_refused(running: Gateway) -> None:
    for start, piece in (
        (b"GET / HTTP/1.1\r\nA: ", b"x" * 10_000),
        (b"GET /", b"x" * 10_000),
        (b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 2000),
    ):
        with connect(running) as connection:
            connection.sendall(start)
            with pytest.raises((ConnectionResetError, BrokenPipeError)):
                _send_a_hundred_megabytes(connection, piece)


@pytest.mark.parametrize(
    ("method", "target", "size", "status"),
    [
        ("GET", "/get/stats?a=", 30_000, 200),
        ("GET", "/get/stats?a=", 40_000, 431),
        ("POST", "/dweet/for/head?a=", 40_000, 431),
        ("GET", "/dweet/for/head?a=", 60_000, 200),
        ("GET", "/dweet/quietly/for/head?a=", 60_000, 204),
        ("GET", "/dweet?a=", 250_000, 200),
        ("GET", "http://localhost/dweet/for/head?a=", 270_000, 431),
        ("GET", "/alert/a@b.example/when/head/", 250_000, 200),
        ("GET", "/render/png?text=", 250_000, 401),
    ],
)
def test_routes_with_long_queries_take_larger_heads(
    running: Gateway, method: str, target: str, size: int, status: int
) -> None:
    assert raw_call(running.base_url, method, target + "x" * size).status == status


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


@pytest.mark.parametrize(
    "sent",
    [
        b"GET /get/stats HT",
        b"POST /dweet/for/slow HTTP/1.1\r\nHost: localhost\r\n",
        b"POST /dweet/for/slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
        b'POST /dweet/for/slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"a"',
        b"POST /dweet HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
        b'POST /dweet HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"a"',
        b'POST /dweet HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"a"',
        b"POST /dweet/for/slow HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n",
    ],
)
def test_unfinished_request_is_answered_and_closed(
    running: Gateway, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "request_seconds", 0.15)
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


def test_many_bad_requests_among_good_ones(running: Gateway) -> None:
    unexpected: list[bytes] = []
    bad_targets = ("/lock/a?lock=%FF&key=k", "/remove/lock/%ED%A0%80?key=k", "/listen/for/dweets/from/a?since=%FF")

    def good(worker: int) -> None:
        answers = [raw_call(running.base_url, "POST", f"/dweet/for/good-{worker}", b"%d" % n).body for n in range(50)]
        unexpected.extend(answer for answer in answers if b'"this":"succeeded"' not in answer)

    def bad(target: str) -> None:
        answers = [raw_call(running.base_url, "GET", target).body for _ in range(50)]
        unexpected.extend(answer for answer in answers if json.loads(answer)["with"] not in (403, 404, 429))

    workers = [threading.Thread(target=good, args=(n,)) for n in range(3)]
    workers += [threading.Thread(target=bad, args=(target,)) for target in bad_targets]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert unexpected == []
    for number in range(3):
        kept = json.loads(raw_call(running.base_url, "GET", f"/get/dweets/for/good-{number}").body)["with"]
        assert [dweet["content"] for dweet in kept] == list(range(49, -1, -1))
