"""One gateway for all tests of a file that only need different things, and streams read by hand."""

from __future__ import annotations

import itertools
import json
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.conftest import RawReply, operator_of, raw_call
from toolkit_gateway import Gateway

_NUMBERS = itertools.count(1)

LOCK, MASTER_KEY, OTHER_LOCK, OTHER_KEY = "garage-lock", "master-of-the-garage", "attic-lock", "master-of-the-attic"


@pytest.fixture(scope="module")
def shared() -> Iterator[Gateway]:
    """A gateway in memory for all tests of one file."""
    with Gateway() as running:
        yield running


@pytest.fixture
def thing() -> str:
    """A name that no other test uses."""
    return f"thing-{next(_NUMBERS)}"


class Caller:
    """Calls typed by hand to one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.base_url = gateway.base_url

    def __call__(self, method: str, target: str, body: bytes = b"", headers: str = "") -> RawReply:
        return raw_call(self.base_url, method, target, body, headers)

    def get(self, target: str) -> Any:
        """GET, and the JSON of the answer."""
        return json.loads(self("GET", target).body)

    def post(self, thing: str, content: Any, query: str = "") -> Any:
        """POST a dweet, and the JSON of the answer."""
        return json.loads(self("POST", f"/dweet/for/{thing}{query}", json.dumps(content).encode()).body)

    def lock(self) -> tuple[str, str, str]:
        """Issue a lock: its name, master key and read key."""
        issued = operator_of(self.gateway).issue_lock()
        return issued.lock, issued.master_key.reveal(), issued.read_key.reveal()

    def locked(self, thing: str) -> tuple[str, str, str]:
        """Lock a thing with a new lock."""
        lock, master, read = self.lock()
        assert self.get(f"/lock/{thing}?lock={lock}&key={master}")["this"] == "succeeded"
        return lock, master, read

    def stream(self, target: str, headers: str = "") -> RawStream:
        """Open a stream and read its head."""
        return RawStream(self.base_url, target, headers)


@pytest.fixture
def call(shared: Gateway) -> Caller:
    """Calls typed by hand to the shared gateway."""
    return Caller(shared)


class RawStream:
    """An open stream: the HTTP chunks as they come over the socket."""

    def __init__(self, base_url: str, target: str, headers: str = "") -> None:
        address = urlsplit(base_url)
        self.socket = socket.create_connection((address.hostname, address.port), timeout=60)
        self.socket.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
        self._received = b""
        self.head = self._until(b"\r\n\r\n").decode("latin-1")

    def chunk(self) -> bytes:
        """Return the next HTTP chunk, empty at the end."""
        length = int(self._until(b"\r\n"), 16)
        while len(self._received) < length + 2:
            self._more()
        chunk, end, self._received = (
            self._received[:length],
            self._received[length : length + 2],
            self._received[length + 2 :],
        )
        assert end == b"\r\n"
        return chunk

    def chunks_until_cut_off(self) -> Iterator[bytes]:
        """Give all chunks of a stream that ends without its last one."""
        with pytest.raises(AssertionError, match="the connection ended"):  # noqa: PT012
            while True:
                yield self.chunk()

    def json_body(self) -> Any:
        """Return the JSON of an answer that is no stream, of known length."""
        (length,) = [line.partition(": ")[2] for line in self.head.split("\r\n") if line.startswith("content-length")]
        while len(self._received) < int(length):
            self._more()
        return json.loads(self._received)

    def _until(self, end: bytes) -> bytes:
        while end not in self._received:
            self._more()
        found, _, self._received = self._received.partition(end)
        return found

    def _more(self) -> None:
        piece = self.socket.recv(65536)
        assert piece, f"the connection ended after {self._received!r}"
        self._received += piece

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> RawStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
