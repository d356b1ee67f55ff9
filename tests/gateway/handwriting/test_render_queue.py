"""The render queue: bounded, fair between keys, and no render for a caller that has left."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
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
    """A gateway with one renderer, which does nothing else while it writes the text "wait"."""

    def __init__(self, folder: Path, **settings: float) -> None:
        self._folder = folder
        self._open = ExitStack()
        self.gateway = Gateway(config={"handwriting": {"renderers": 1, **settings}})  # type: ignore[arg-type]
        self._open.enter_context(self.gateway)
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
        connection = self.ask("wait", key)
        eventually(lambda: "wait" in self.begun())
        return connection

    def close(self) -> None:
        self.open()
        self._open.close()


def head_of(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received and (more := connection.recv(65536)):
        received += more
    return received.partition(b"\r\n\r\n")[0]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Gate]]:
    monkeypatch.setenv("TEST_GATE", str(tmp_path))
    monkeypatch.setattr(worker_process, "INHERITED_VARIABLES", {*worker_process.INHERITED_VARIABLES, "TEST_GATE"})
    monkeypatch.setattr(
        "toolkit_gateway.handwriting.render_pool.WORKER_MODULE", "tests.gateway.handwriting.gated_worker"
    )
    made: list[Gate] = []

    def make(**settings: float) -> Gate:
        made.append(Gate(tmp_path, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_requests_of_another_key_get_their_turn(gate: Callable[..., Gate]) -> None:
    gated = gate()
    asked = [gated.ask_to_wait("greedy")]
    asked += [gated.ask(f"greedy {number}", "greedy") for number in range(8)]
    asked.append(gated.ask("modest", "modest"))
    gated.open()
    assert all(head_of(connection).startswith(b"HTTP/1.1 200") for connection in asked)
    assert gated.begun().index("modest") <= 2
    assert [text for text in gated.begun() if text.startswith("greedy")] == [f"greedy {n}" for n in range(8)]


def test_caller_that_left_the_queue_is_not_rendered(gate: Callable[..., Gate]) -> None:
    gated = gate()
    first = gated.ask_to_wait()
    leaving, staying = gated.ask("left"), gated.ask("stayed")
    leaving.close()
    gated.take_note()
    gated.open()
    assert head_of(first).startswith(b"HTTP/1.1 200")
    assert head_of(staying).startswith(b"HTTP/1.1 200")
    assert gated.begun() == ["wait", "stayed"]


def test_pipeline_of_a_caller_that_left_is_dropped(gate: Callable[..., Gate]) -> None:
    gated = gate()
    request = f"GET /render/png?apikey=k&handwriting_id={MOLLY}&text={{}} HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with gated.connect() as connection:
        connection.sendall("".join(request.format(text) for text in ("wait", "one", "two")).encode())
        eventually(lambda: gated.begun() == ["wait"])
    asked = [gated.ask("stayed"), gated.ask("too")]
    gated.open()
    assert all(head_of(connection).startswith(b"HTTP/1.1 200") for connection in asked)
    assert gated.begun() == ["wait", "stayed", "too"]


def test_a_long_rendering_ends_when_its_caller_leaves(gate: Callable[..., Gate]) -> None:
    gated = gate()
    gated.ask_to_wait().close()
    assert head_of(gated.ask("stayed")).startswith(b"HTTP/1.1 200")  # and the gate was never opened
    assert gated.begun() == ["wait", "stayed"]


def test_a_full_queue_answers_503_with_retry_after(gate: Callable[..., Gate]) -> None:
    gated = gate(waiting=2)
    asked = [gated.ask_to_wait(), gated.ask("one"), gated.ask("two")]
    service = Service(gated.gateway.base_url)
    refused = service.render(text="three")
    assert refused.status == 503
    assert int(refused.headers["retry-after"]) >= 1
    assert errors_of(refused) == [{"error": "too many texts wait to be rendered, try again later"}]
    with toolkit.connect(gated.gateway, credentials={"apikey": "k"}) as tk:
        with pytest.raises(Overloaded, match="too many texts wait") as caught:
            tk.handwriting.png("four", "Molly")
    assert (caught.value.status, caught.value.retryable) == (503, True)
    assert caught.value.retry_after == int(refused.headers["retry-after"])
    asked[1].close()
    gated.take_note()
    asked[1] = gated.ask("five")
    gated.open()
    assert all(head_of(connection).startswith(b"HTTP/1.1 200") for connection in asked)
    assert gated.begun() == ["wait", "two", "five"]


def test_one_key_cannot_fill_the_queue_for_others(gate: Callable[..., Gate]) -> None:
    gated = gate(waiting=3)
    asked = [gated.ask_to_wait("greedy"), *(gated.ask(f"greedy {n}", "greedy") for n in range(3))]
    modest = gated.ask("modest", "modest")
    assert head_of(asked.pop()).startswith(b"HTTP/1.1 503"), "the newest text of the longest queue makes room"
    gated.open()
    assert all(head_of(connection).startswith(b"HTTP/1.1 200") for connection in [*asked, modest])


def test_text_that_needs_too_much_work_is_refused() -> None:
    with Gateway(config={"handwriting": {"renderers": 1, "render_seconds": 0.5}}) as gateway:
        service = Service(gateway.base_url)
        refused = service.render("pdf", text=EMOJI, width="100in", height="100in")
        assert (refused.status, len(errors_of(refused))) == (400, 1)
        assert "use a smaller page, smaller letters or less text" in errors_of(refused)[0]["error"]
        assert service.render().status == 200
        with toolkit.connect(gateway) as tk, pytest.raises(InvalidParameters, match="takes too much work"):
            tk.handwriting.pdf(EMOJI, "Molly", width="100in", height="100in")


def test_a_renderer_that_hangs_is_killed(gate: Callable[..., Gate]) -> None:
    gated = gate(render_seconds=0.2)
    refused = Service(gated.gateway.base_url).render(text="wait")
    assert (refused.status, "retry-after" in refused.headers) == (503, True)
    assert errors_of(refused) == [{"error": "the gateway is too busy to render this text now, try again later"}]


def test_the_client_reads_a_503_without_retry_after() -> None:
    error = wire.error_of(503, {}, b"", request="GET /render/png")
    assert type(error) is ServiceFailure


# -- the turns alone ---------------------------------------------------------------------------------------------


async def taken(queue: FairQueue, key: str, order: list[str]) -> None:
    await queue.acquire(key)
    order.append(key)


async def test_a_turn_given_to_a_cancelled_task_goes_to_the_next() -> None:
    queue, order = FairQueue(1, 10), []  # type: ignore[var-annotated]
    await queue.acquire("z")
    first, second = (asyncio.ensure_future(taken(queue, key, order)) for key in "ab")
    await asyncio.sleep(0)
    queue.release()
    first.cancel()  # its turn has come, but it has not run since
    await asyncio.wait_for(second, 60)
    assert first.cancelled()
    assert order == ["b"]
