"""A head that was parsed before is not parsed again, and nobody can tell by the answers."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import accumulate, pairwise
from pathlib import Path

import httptools
import pytest

from tests.gateway.kept_folder import kept_entries
from toolkit.gateway import Gateway, known_heads
from toolkit.gateway.known_heads import KnownHeads
from toolkit.gateway.lane import LaneProtocol

BODY = b'{"celsius": 21.5}'
POST = b"POST /dweet/for/%b HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%b"
LATEST = b"GET /get/latest/dweet/for/hall HTTP/1.1\r\nHost: h\r\n\r\n"
KNOWN = POST % (b"hall", len(BODY), BODY)


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway() as gateway:
        yield gateway


@pytest.fixture
def caller(gateway: Gateway) -> Iterator[Caller]:
    with Caller(gateway) as caller:
        caller.ask(KNOWN)
        caller.ask(LATEST)
        yield caller


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bodies of the requests whose head was known."""
    taken: list[bytes] = []
    take = LaneProtocol._take
    monkeypatch.setattr(LaneProtocol, "_take", lambda *given: (taken.append(given[2]), take(*given)))
    return taken


class Caller:
    """One connection that is kept open."""

    def __init__(self, gateway: Gateway) -> None:
        host, _, port = gateway.base_url.removeprefix("http://").rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def ask(self, data: bytes) -> bytes:
        self.send(data)
        (body,) = self.answers(1)
        return body

    def answers(self, count: int) -> list[bytes]:
        """Return the bodies of the next answers."""
        data, bodies = b"", []
        while len(bodies) < count:
            head, end, rest = data.partition(b"\r\n\r\n")
            size = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]) if end else 0
            if end and len(rest) >= size:
                bodies.append(rest[:size])
                data = rest[size:]
                continue
            piece = self._socket.recv(1 << 16)
            if not piece:
                raise EOFError(data)
            data += piece
        assert data == b"", "more was answered than was asked"
        return bodies


def test_a_known_head_does_not_meet_the_parser(caller: Caller, known: list[bytes]) -> None:
    again = b'{"celsius": 22.5}'
    assert again in caller.ask(POST % (b"hall", len(again), again))
    assert again in caller.ask(LATEST)
    assert known == [again, b""]


def test_a_known_head_with_a_body_that_is_no_json_is_refused_as_ever(caller: Caller, known: list[bytes]) -> None:
    broken = b"{" * len(BODY)
    assert b'"failed","with":400' in caller.ask(POST % (b"hall", len(broken), broken))
    assert known == [broken]


@pytest.mark.parametrize("cut", [1, 4, 30, len(KNOWN) - len(BODY), len(KNOWN) - 1])
def test_pieces_of_a_request_are_put_together(caller: Caller, known: list[bytes], cut: int) -> None:
    def sent_apart(first: bytes, second: bytes) -> bytes:
        caller.send(first)
        return caller.ask(second)

    assert b"succeeded" in sent_apart(KNOWN[:cut], KNOWN[cut:])
    assert b"succeeded" in caller.ask(KNOWN)
    assert len(known) <= 2


def test_what_looks_like_a_request_inside_a_body_is_a_body(caller: Caller, known: list[bytes]) -> None:
    caller.send(b"POST /dweet/for/hall HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % (len(LATEST)))
    refused = caller.ask(LATEST)
    assert b"failed" in refused, "a body that is no JSON was taken for a request"
    assert known == []


def test_pipelined_requests_are_all_answered_in_order(caller: Caller) -> None:
    others = [POST % (b"room-%d" % number, len(BODY), BODY) for number in range(5)]
    for _ in range(2):
        caller.send(KNOWN + b"".join(others) + LATEST)
        answers = caller.answers(7)
        assert [b"room-%d" % number in answer for number, answer in enumerate(answers[1:6])] == [True] * 5
        assert b'"by":"getting"' in answers[6]


def test_two_requests_in_one_piece_are_not_remembered_as_one(caller: Caller, known: list[bytes]) -> None:
    # Lines that end without a carriage return: where the first head ends, only a parser can tell.
    both = LATEST.replace(b"\r\n", b"\n").replace(b"hall", b"attic") + LATEST
    assert caller.ask(both) == b"Invalid HTTP request received."
    assert known == []


def test_a_key_is_not_remembered(gateway: Gateway, known: list[bytes]) -> None:
    with Caller(gateway) as caller:
        asked = LATEST.replace(b" HTTP", b"?key=a-secret HTTP")
        assert caller.ask(asked) == caller.ask(asked)
    assert known == []


def test_a_caller_who_closes_is_not_remembered(gateway: Gateway, known: list[bytes]) -> None:
    closing = KNOWN.replace(b"Host: h", b"Host: h\r\nConnection: close")
    for _ in range(2):
        with Caller(gateway) as caller:
            assert b"succeeded" in caller.ask(closing)
            with pytest.raises(EOFError):
                caller.answers(1)
    assert known == []


def test_a_gateway_that_stops_answers_what_it_has_taken(tmp_path: Path) -> None:
    acknowledged: list[bytes] = []

    def post(gateway: Gateway, who: int) -> None:
        with Caller(gateway) as caller, suppress(EOFError, ConnectionError):
            for number in range(100_000):
                body = b'{"who": %d, "n": %05d}' % (who, 10_000 + number)
                answer = caller.ask(POST % (b"hall", len(body), body))
                assert body in answer
                acknowledged.append(body)

    with Gateway(tmp_path) as gateway, ThreadPoolExecutor(8) as pool:
        posting = [pool.submit(post, gateway, who) for who in range(8)]
        while len(acknowledged) < 500:
            assert not any(one.done() for one in posting)
        gateway.stop()
        for one in posting:
            one.result()
    kept = b"".join(entry.data for entry in kept_entries(tmp_path, "hall"))
    assert all(body in kept for body in acknowledged)


def test_heads_are_forgotten_before_they_fill_the_memory(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_heads, "_KNOWN_HEADS", 3)
    names = [b"thing-%d" % number for number in range(10)]
    for name in names + names[::-1]:
        assert name in caller.ask(POST % (name, len(BODY), BODY))


def test_the_end_of_a_head_is_where_the_parser_sees_it() -> None:
    # What `known_heads` relies on: a message is told to have begun with its first byte.
    begun: list[bool] = []

    class Listener:
        def on_message_begin(self) -> None:
            begun.append(True)

    httptools.HttpRequestParser(Listener()).feed_data(b"P")
    assert begun


@pytest.mark.parametrize("seed", range(6))
def test_any_pieces_of_any_requests_are_answered_as_by_the_parser_alone(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    requests = [
        chance.choice([KNOWN, LATEST, POST % (b"hall", 1, b"{"), POST % (b"hall", 3, b"1.5")]) for _ in range(60)
    ]
    sent = b"".join(requests)
    cuts = sorted({0, len(sent), *(chance.randrange(len(sent)) for _ in range(20)), *_ends(requests, chance)})

    def answered() -> list[bytes]:
        with Gateway.demo() as gateway, Caller(gateway) as caller:
            for start, end in pairwise(cuts):
                caller.send(sent[start:end])
            return caller.answers(len(requests))

    with_memory = answered()
    monkeypatch.setattr(KnownHeads, "find", lambda *given: None)
    assert answered() == with_memory


def _ends(requests: list[bytes], chance: random.Random) -> list[int]:
    """Where some of the requests end: the piece behind such a place begins with a whole head."""
    return [end for end in accumulate(map(len, requests)) if chance.random() < 0.7]
