"""Fixtures for all tests: gateways, a connection, raw HTTP calls and streams, and external programs."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from jupyter_client.connect import LocalPortCache
from xdist.scheduler import LoadFileScheduling

import toolkit
from tests.ports import free_port
from toolkit.operator.client import OperatorClient
from toolkit_gateway import Gateway

ROOT = Path(__file__).resolve().parents[1]
_NUMBERS = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run soak and fuzz at depth")
    parser.addoption("--soak-minutes", type=float, default=20, help="how long tests/soak takes; a life is a minute")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    is_ci = os.environ.get("CI") == "true"
    left_out = set() if config.getoption("--long") else {"long"} if is_ci else {"long", "wheel"}
    for item in items:
        if left_out.intersection(item.keywords):
            item.add_marker(pytest.mark.skip(reason="takes long; run with --long"))
    # JupyterLab's tests are the longest piece: begun last, they would go on when the other workers have ended.
    items.sort(key=lambda item: item.path.parent.name != "browser")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Three workers for folders; none where files or tests are named, whose start would cost more than it saves."""
    # One more than the processors of a small machine: much of the time is spent waiting for other processes.
    return 3 if all(Path(arg).is_dir() for arg in config.args) else 0


class _TwoBrowsers(LoadFileScheduling):
    """File by file, but the folder of the browser in two pieces: a Chromium for each file would take long.

    The files of pages by themselves are one, and those that share a JupyterLab the other.
    """

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        if not file.startswith("tests/browser/"):
            return file
        return "tests/browser/*_page.py" if file.endswith("_page.py") else "tests/browser"


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadFileScheduling:
    return _TwoBrowsers(config, log)


def pytest_configure(config: pytest.Config) -> None:
    # A script that starts the tests in the background makes them and all their children ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Kernels write no history, and none of the settings of the person who runs the tests is theirs.
    folder = tempfile.TemporaryDirectory(prefix="ipython-")
    os.environ["IPYTHONDIR"] = folder.name
    profile = Path(folder.name, "profile_default")
    # nbval kills its kernels, and what those have in temporary folders would stay.
    startup = profile / "startup" / "temporary_folder.py"
    startup.parent.mkdir(parents=True)
    startup.write_text(f"import tempfile\n\ntempfile.tempdir = {folder.name!r}\n", "utf-8")
    (profile / "ipython_kernel_config.py").write_text("get_config().HistoryManager.enabled = False\n", "utf-8")
    config.add_cleanup(folder.cleanup)
    # A kernel binds its ports a second after they were chosen: those of the system would be anybody's meanwhile.
    LocalPortCache.find_available_port = lambda cache, ip: free_port()  # type: ignore[method-assign]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in its own event loop."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


def required_program(*names: str) -> str:
    """Return the path of a program of the machine; without it skip on a laptop, fail in CI."""
    for name in names:
        if path := shutil.which(name):
            return path
    missing = f"{' or '.join(names)} is not installed"
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


class RawReply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


def raw_exchange(base_url: str, request: bytes, timeout: float = 60.0) -> bytes:
    """Send bytes typed by hand, return all bytes until the server closes."""
    address = urlsplit(base_url)
    with socket.create_connection((address.hostname, address.port), timeout=timeout) as connection:
        connection.sendall(request)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    return received


def raw_call(base_url: str, method: str, target: str, body: bytes = b"", headers: str = "") -> RawReply:
    length = f"Content-Length: {len(body)}\r\n" if body or method == "POST" else ""
    head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n{length}{headers}Connection: close\r\n\r\n"
    raw = raw_exchange(base_url, head.encode("utf-8") + body)
    top, _, payload = raw.partition(b"\r\n\r\n")
    status, *lines = top.decode("latin-1").split("\r\n")
    pairs = (line.partition(": ") for line in lines)
    return RawReply(int(status.split()[1]), {name.lower(): value for name, _, value in pairs}, payload)


def gateway_threads() -> set[threading.Thread]:
    """Return the threads that gateways started; the pool of an event loop that runs elsewhere is nobody's fault."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("gateway")}


def operator_of(gateway: Gateway) -> OperatorClient:
    return toolkit.connect(gateway).operator


class Caller:
    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.base_url = gateway.base_url

    def __call__(self, method: str, target: str, body: bytes = b"", headers: str = "") -> RawReply:
        return raw_call(self.base_url, method, target, body, headers)

    def get(self, target: str) -> Any:
        return json.loads(self("GET", target).body)

    def post(self, thing: str, content: Any, query: str = "") -> Any:
        return json.loads(self("POST", f"/dweet/for/{thing}{query}", json.dumps(content).encode()).body)

    def lock(self) -> tuple[str, str, str]:
        """Issue a lock: its name, master key and read key."""
        issued = operator_of(self.gateway).issue_lock()
        return issued.lock, issued.master_key.reveal(), issued.read_key.reveal()

    def locked(self, thing: str) -> tuple[str, str, str]:
        lock, master, read = self.lock()
        assert self.get(f"/lock/{thing}?lock={lock}&key={master}")["this"] == "succeeded"
        return lock, master, read

    def stream(self, target: str, headers: str = "") -> RawStream:
        return RawStream(self.base_url, target, headers)


class RawStream:
    """An open stream: the HTTP chunks as they come over the socket."""

    def __init__(self, base_url: str, target: str, headers: str = "") -> None:
        address = urlsplit(base_url)
        self.socket = socket.create_connection((address.hostname, address.port), timeout=60)
        self.socket.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
        self._received = b""
        self.head = self._until(b"\r\n\r\n").decode("latin-1")

    def chunk(self) -> bytes:
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


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with Gateway() as running:
        yield running


@pytest.fixture
def demo() -> Iterator[Gateway]:
    """A gateway with the demo world: stepped clock, seeded identifiers."""
    with Gateway.demo() as running:
        yield running


@pytest.fixture
def tk(gateway: Gateway) -> Iterator[toolkit.Connection]:
    with toolkit.connect(gateway) as connection:
        yield connection


@pytest.fixture(scope="module")
def shared() -> Iterator[Gateway]:
    """A gateway in memory for all tests of one file."""
    with Gateway() as running:
        yield running


@pytest.fixture
def thing() -> str:
    """A name that no other test uses."""
    return f"thing-{next(_NUMBERS)}"


@pytest.fixture
def call(shared: Gateway) -> Caller:
    return Caller(shared)
