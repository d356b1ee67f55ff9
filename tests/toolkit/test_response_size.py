"""No response of a server fills the memory of its caller: neither a long one, nor one that unpacks to a long one."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Iterator

import pytest

import toolkit
from tests.literal_server import LiteralServer, Reply
from toolkit.dweets.stream_format import EventReader, FrameReader
from toolkit.errors import DataWarning, InvalidArgument, UnexpectedReply

MB = 1_000_000
LATEST = b'{"this":"succeeded","by":"getting","the":"dweets","with":[]}'


def bomb(size: int) -> bytes:
    """Return a gzip file that unpacks to at least so many zeros, about a thousandth of that, without its end."""
    packer = zlib.compressobj(9, wbits=31)
    head, zeros = (packer.compress(bytes(MB)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return head + zeros * (size // MB)  # after a full flush, equal input is equal output


@pytest.fixture(scope="module")
def server() -> Iterator[LiteralServer]:
    large = LATEST + b" " * (1000 - len(LATEST))
    replies: dict[str, Reply] = {
        "bomb": (200, {"Content-Encoding": "gzip"}, bomb(600 * MB)),
        "failed": (500, {"Content-Encoding": "gzip"}, bomb(600 * MB)),
        "endless": (200, {"Content-Length": str(10**15)}, bytes(70 * MB)),
        "small": (200, {}, large),
        "packed": (200, {"Content-Encoding": "gzip"}, gzip.compress(large)),
    }
    server = LiteralServer(lambda path, _: replies[path.rpartition("/")[2]])
    yield server
    server.stop()


@pytest.mark.parametrize("thing", ["bomb", "failed", "endless"])
def test_a_large_response_is_refused_without_holding_it(server: LiteralServer, thing: str) -> None:
    with toolkit.connect(server.base_url) as tk:
        tracemalloc.start()
        with pytest.raises(UnexpectedReply, match=r"larger than 67,108,864 bytes: ask for less, or call"):
            tk.dweets.latest(thing)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 300 * MB


@pytest.mark.parametrize("thing", ["small", "packed"])
@pytest.mark.parametrize("limit", [999, 1000])
def test_the_caller_chooses_the_limit(server: LiteralServer, thing: str, limit: int) -> None:
    with toolkit.connect(server.base_url, max_response_bytes=limit) as tk:
        if limit == 1000:
            with pytest.warns(DataWarning, match="the gateway has no dweet"):
                assert tk.dweets.latest(thing).empty
        else:
            with pytest.raises(UnexpectedReply, match="larger than 999 bytes"):
                tk.dweets.latest(thing)


def test_a_limit_below_one_byte_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="max_response_bytes must be at least 1, not 0"):
        toolkit.connect("http://127.0.0.1:1", max_response_bytes=0)


def test_a_dweet_of_a_stream_without_end_is_refused() -> None:
    for reader in [FrameReader(), EventReader()]:
        for _ in range(16):
            assert list(reader.feed(bytes(MB))) == []
        with pytest.raises(ValueError, match="too long"):
            list(reader.feed(bytes(MB)))
