"""The render queue: bounded, fair between keys, and no render for a caller that has left."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

import toolkit
from tests.handwriting_service import MOLLY, Service, errors_of
from tests.mail_server import eventually
from toolkit.errors import InvalidParameters, Overloaded, ServiceFailure
from toolkit.handwriting import wire
from toolkit.system import worker_process
from toolkit_gateway import Gateway
from toolkit_gateway.fair_queue import FairQueue

EMOJI = "\N{GRINNING FACE}" * 9000


class Gate:
    """A gateway with one renderer, which does nothing else while it writes the text "wait". Three texts may wait."""

    def __init__(self, folder: Path, gateway: Gateway) -> None:
        self._folder = folder
        self._open = ExitStack()
        self.gateway = gateway
        self._witness = self.connect()

    def begun(self) -> list[str]:
        file = self._folder / "begun"
        return file.read_text("utf-8").split("\n")[:-1] if file.exists() else []

    def open(self) -> None:
        (self._folder / "open").touch()

    def connect(self) -> socket.socket:
        address = urlsplit(self.gateway.base_url)
        return self._open.enter_context(socket.create_connection((address.hostname, address.port), timeout=60))

    def ask(self, text: str, key: str = "k") -> socket.socket:
        """Ask for a text on a new connection, and return once the gateway has read that."""
        connection = self.connect()
        target = f"/render/png?apikey={key}&handwriting_id={MOLLY}&height=auto&text={quote(text)}"
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        self.take_note()
        return connection

    def take_note(self) -> None:
        """Let the gateway answer a request that is sent now: it has seen what came before."""
        for _ in range(2):
            self._witness.sendall(b"GET /handwritings?apikey=w&limit=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert self._witness.recv(65536).startswith(b"HTTP/1.1 200")

    def ask_to_wait(self, key: str = "k") -> socket.socket:
        before = self.begun().count("wait")
        connection = self.ask("wait", key)
        eventually(lambda: self.begun().count("wait") > before)
        return connection

    def close(self) -> None:
        """Let go of all connections, and shut the gate for the next test."""
        self.open()
        self._open.close()
        for name in ("open", "begun"):
            (self._folder / name).unlink(missing_ok=True)


def head_of(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received and (more := connection.recv(65536)):
        received += more
    return received.partition(b"\r\n\r\n")[0]


@contextmanager
def gated_gateway(folder: Path, **settings: float) -> Iterator[Gateway]:
    config: Any = {"handwriting": {"renderers": 1, **settings}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TEST_GATE", str(folder))
        patch.setattr(worker_process, "INHERITED_VARIABLES", {*worker_process.INHERITED_VARIABLES, "TEST_GATE"})
        patch.setattr(worker_process, "PROGRAM", "from {} import main; main()")  # this child writes a file
        worker = "tests.gateway.handwriting.gated_worker"
        patch.setattr("toolkit_gateway.handwriting.render_pool.WORKER_MODULE", worker)
        with Gateway(config=config) as gateway:
            yield gateway


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Gateway]]:
    folder = tmp_path_factory.mktemp("gate")
    with gated_gateway(folder, waiting=3) as gateway:
        yield folder, gateway


@pytest.fixture
def gate(gated: tuple[Path, Gateway]) -> Iterator[Gate]:
    gate = Gate(*gated)
    yield gate
    gate.close()


def test_a_key_neither_delays_nor_displaces_the_texts_of_others(gate: Gate) -> None:
    asked = [gate.ask_to_wait("greedy"), *(gate.ask(f"greedy {number}", "greedy") for number in range(3))]
    modest = gate.ask("modest", "modest")
    assert head_of(asked.pop()).startswith(b"HTTP/1.1 503"), "the newest text of the longest queue makes room"
    gate.open()
    assert all(head_of(connection).startswith(b"HTTP/1.1 200") for connection in [*asked, modest])
    assert gate.begun().index("modest") <= 2
    assert [text for text in gate.begun() if text.startswith("greedy")] == ["greedy 0", "greedy 1"]


def test_streams_continue_while_a_text_is_rendered(gate: Gate) -> None:
    waiting = gate.ask_to_wait()
    with toolkit.connect(gate.gateway) as tk, tk.dweets.listen("clock") as listener:
        for number in range(6):
            tk.dweets.post("clock", {"n": number})
            assert next(listener).content == {"n": number}
    gate.open()
    assert head_of(waiting).startswith(b"HTTP/1.1 200")


def test_callers_that_left_the_queue_are_not_rendered(gate: Gate) -> None:
    request = f"GET /render/png?apikey=k&handwriting_id={MOLLY}&text={{}} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with gate.connect() as connection:
        connection.sendall("".join(request.format(text) for text in ("wait", "one", "two")).encode())
        eventually(lambda: gate.begun() == ["wait"])
    # And "wait" ends as its caller leaves: the gate was not opened.
    assert head_of(gate.ask("stayed")).startswith(b"HTTP/1.1 200")
    asked = [gate.ask_to_wait("other"), gate.ask("left"), gate.ask("stayed too")]
    asked.pop(1).close()
    gate.take_note()
    gate.open()
    assert all(head_of(connection).startswith(b"HTTP/1.1 200") for connection in asked)
    assert gate.begun() == ["wait", "stayed", "wait", "stayed too"]


def test_a_full_queue_answers_503_with_retry_after(gate: Gate) -> None:
    asked = [gate.ask_to_wait(), gate.ask("one"), gate.ask("two"), gate.ask("three")]
    service = Service(gate.gateway.base_url)
    refused = service.render(text="four")
    assert refused.status == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert errors_of(refused) == [{"error": "too many texts wait to be rendered, try again later"}]
    with toolkit.connect(gate.gateway, credentials={"apikey": "k"}) as tk:
        with pytest.raises(Overloaded, match="too many texts wait") as caught:
            tk.handwriting.png("five", "Molly")
    assert (caught.value.status, caught.value.retryable) == (503, True)
    assert caught.value.retry_after == int(refused.headers["retry-after"])
    asked[1].close()
    gate.take_note()
    asked[1] = gate.ask("six")
    gate.open()
    assert all(head_of(connection).startswith(b"HTTP/1.1 200") for connection in asked)
    assert gate.begun() == ["wait", "two", "three", "six"]


def test_text_that_takes_too_long_is_refused(tmp_path: Path) -> None:
    with gated_gateway(tmp_path, render_seconds=0.3) as gateway:
        service = Service(gateway.base_url)
        refused = service.render("pdf", text=EMOJI, width="100in", height="100in")
        assert (refused.status, len(errors_of(refused))) == (400, 1)
        assert "use a smaller page, smaller letters or less text" in errors_of(refused)[0]["error"]
        with toolkit.connect(gateway) as tk, pytest.raises(InvalidParameters, match="takes too much work"):
            tk.handwriting.pdf(EMOJI, "Molly", width="100in", height="100in")
        hung = service.render(text="wait")
        assert (hung.status, "retry-after" in hung.headers) == (503, True)
        assert errors_of(hung) == [{"error": "the gateway is too busy to render this text now, try again later"}]


def test_the_client_reads_a_503_without_retry_after() -> None:
    error = wire.error_of(503, {}, b"", request="GET /render/png")
    assert type(error) is ServiceFailure


async def test_a_turn_given_to_a_cancelled_task_goes_to_the_next() -> None:
    queue = FairQueue(1, 10)
    await queue.acquire("z")
    first, second = (asyncio.ensure_future(queue.acquire(key)) for key in "ab")
    await asyncio.sleep(0)
    queue.release()
    first.cancel()  # its turn has come, but it has not run since
    await asyncio.wait_for(second, 60)
    assert first.cancelled()
