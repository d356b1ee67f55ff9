"""The gateway in a notebook's process: start, stop, interrupts, and nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import http.client
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import toolkit
from tests.conftest import ROOT, gateway_threads, raw_call
from tests.mail_server import eventually
from toolkit.errors import CannotServe, CannotStop, Conflict, StoreUnavailable, Unreachable
from toolkit_gateway import Gateway
from toolkit_gateway.dweets.dweets import DweetService
from toolkit_gateway.http.limits import LIMITS
from toolkit_gateway.runtime import Timings


def open_files() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts file descriptors where Linux lists them")
def test_start_and_stop_leave_no_thread_file_or_socket(tmp_path: Path) -> None:
    def one_life(number: int) -> None:
        with Gateway(tmp_path if number % 2 else None) as gateway, toolkit.connect(gateway) as tk:
            tk.dweets.post("kitchen", {"n": number})
            with tk.dweets.listen("kitchen", since=0) as listener:
                assert next(listener).thing == "kitchen"
            raw_call(gateway.base_url, "GET", "/get/latest/dweet/for/kitchen")

    one_life(0)
    threads, files = gateway_threads(), open_files()
    for number in range(1, 6):
        one_life(number)
    assert gateway_threads() <= threads
    assert open_files() <= files


def test_stop_twice_is_allowed_and_repr_says_stopped() -> None:
    gateway = Gateway()
    assert "running" in repr(gateway)
    gateway.close()
    gateway.close()
    assert "stopped" in repr(gateway)
    with toolkit.connect(gateway) as tk:
        for call in (lambda: tk.dweets.latest("kitchen"), tk.operator.outbox, tk.operator.issue_lock):
            with pytest.raises(Unreachable):
                call()


def test_failed_start_is_a_clear_error_and_leaves_nothing(tmp_path: Path) -> None:
    before = gateway_threads()
    with Gateway(tmp_path, locks={"l": "the-key-of-the-lock"}):
        with pytest.raises(StoreUnavailable, match="is in use by a gateway of this process: stop that"):
            Gateway(tmp_path)
        assert len([thread for thread in gateway_threads() - before if thread.name == "gateway-store-reads"]) == 1
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotServe, match=rf"cannot listen on 127\.0\.0\.1:{port}: it is in use"):
            Gateway(tmp_path, port=port)
    with pytest.raises(Conflict, match="another master key"):
        Gateway(tmp_path, locks={"l": "another-key-of-the-lock"})
    for host in ("192.0.2.1", "no such host.invalid"):
        with pytest.raises(CannotServe, match="not this machine's address"):
            Gateway(host=host, exposed=True)
    assert gateway_threads() <= before
    with Gateway(tmp_path, locks={"l": "the-key-of-the-lock"}):
        pass


def test_a_relative_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with Gateway("kept", archive="years") as gateway, toolkit.connect(gateway) as tk:
        monkeypatch.chdir(tmp_path / "elsewhere")
        tk.dweets.post("kitchen", {"celsius": 21.5})
    archive = toolkit.Archive("../years")
    monkeypatch.chdir(tmp_path)
    assert len(archive.history("kitchen")) == 1
    with Gateway("kept") as gateway, toolkit.connect(gateway) as tk:
        assert "kept in /" in repr(gateway)
        assert len(tk.dweets.history("kitchen")) == 1


def test_stop_ends_streams_and_finishes_running_posts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "grace_seconds", 50)  # a busy machine is not cut off
    gateway = Gateway(timings=Timings(stop=60.0))
    port = int(gateway.base_url.rpartition(":")[2])
    streams = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(20)]
    for stream in streams:
        stream.sendall(b"GET /listen/for/dweets/from/kitchen HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert stream.recv(100).startswith(b"HTTP/1.1 200 OK\r\n")
    acknowledged: list[int] = []
    broken: list[int] = []
    ready = threading.Barrier(9)

    def post(worker: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            for number in range(10_000):
                connection.request("POST", f"/dweet/for/w{worker}", str(number))
                acknowledged.append(json.loads(connection.getresponse().read())["with"]["content"])
                if number == 20:
                    ready.wait(60)
        except (OSError, http.client.HTTPException):
            broken.append(worker)
        finally:
            connection.close()

    workers = [threading.Thread(target=post, args=(n,)) for n in range(8)]
    for worker in workers:
        worker.start()
    ready.wait(60)
    gateway.close()  # raises CannotStop where it hangs
    for worker in workers:
        worker.join(60)
    assert sorted(broken) == list(range(8)), "every poster was told, none hangs"
    for stream in streams:
        with stream:
            received = b""
            while piece := stream.recv(65536):
                received += piece
            assert received.endswith(b"0\r\n\r\n"), "the stream ended properly"


def test_slow_start_is_awaited_and_endless_stop_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    release, opens, closes = threading.Event(), DweetService.open, DweetService.close

    async def open_slowly(service: DweetService) -> None:
        await asyncio.sleep(1.5)  # longer than one of the pieces that the start waits in
        await opens(service)

    async def close_late(service: DweetService) -> None:
        await asyncio.to_thread(release.wait)
        await closes(service)

    monkeypatch.setattr(DweetService, "open", open_slowly)
    monkeypatch.setattr(DweetService, "close", close_late)
    before = gateway_threads()
    gateway = Gateway(timings=Timings(stop=0.05))
    assert raw_call(gateway.base_url, "GET", "/get/stats").status == 200
    with pytest.raises(CannotStop, match="did not end within"):
        gateway.close()
    release.set()
    eventually(lambda: gateway_threads() <= before)
    gateway.close()


def test_each_request_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolkit_gateway")
    with Gateway() as gateway:
        for method, target in [
            ("POST", "/dweet/for/kitchen?key=hidden"),
            ("GET", "/get/latest/dweet/for/kitchen?key=hidden"),
            ("GET", "/get/latest/dweet/for/a%20%3F?key=hidden"),
            ("HEAD", "/get/latest/dweet/for/kitchen?key=hidden"),
            ("GET", "/nothing?key=hidden"),
        ]:
            raw_call(gateway.base_url, method, target, b"1" if method == "POST" else b"")
    lines = [re.sub(r"[\d.]+ ms$", "_ ms", record.getMessage()) for record in caplog.records]
    assert lines == [
        "POST /dweet/for/kitchen 200 _ ms",
        "GET /get/latest/dweet/for/kitchen 200 _ ms",
        "GET /get/latest/dweet/for/a%20%3F 200 _ ms",
        "HEAD /get/latest/dweet/for/kitchen 200 _ ms",
        "GET /nothing 404 _ ms",
    ]


_KERNEL = """
import sys, time, urllib.request
from toolkit_gateway import Gateway
gateway = Gateway()
print(gateway.base_url, flush=True)
interrupts = 0
for line in sys.stdin:
    try:
        print("busy", flush=True)
        for _ in range(600):  # short waits: an interrupt just before a wait would not end it
            time.sleep(0.1)
    except KeyboardInterrupt:
        interrupts += 1
        body = urllib.request.urlopen(gateway.base_url + "/dweet/for/kitchen?a=1", timeout=60).read()
        print(interrupts, b'"succeeded"' in body, flush=True)
gateway.close()
"""


def test_gateway_survives_interrupts_of_a_kernel() -> None:
    kernel = subprocess.Popen(
        [sys.executable, "-c", _KERNEL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert kernel.stdin is not None
    assert kernel.stdout is not None
    try:
        assert kernel.stdout.readline().startswith("http://127.0.0.1:")
        for number in range(1, 4):
            kernel.stdin.write("run a cell\n")
            kernel.stdin.flush()
            assert kernel.stdout.readline() == "busy\n"
            kernel.send_signal(signal.SIGINT)
            assert kernel.stdout.readline() == f"{number} True\n"
    finally:
        rest, _ = kernel.communicate(timeout=60)
    assert (rest, kernel.returncode) == ("", 0)


def test_collected_gateway_archives_and_closes_its_folder(tmp_path: Path) -> None:
    program = (
        "import sys, toolkit\n"
        "from toolkit_gateway import Gateway\n"
        "gateway = Gateway(sys.argv[1], archive=sys.argv[2])\n"
        "with toolkit.connect(gateway) as tk:\n"
        "    tk.dweets.post('kitchen', {'n': 1})\n"
    )
    folder, archive = tmp_path / "data", tmp_path / "archive"
    command = [sys.executable, "-c", program, str(folder), str(archive)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert (ended.stderr, ended.returncode) == ("", 0)
    names = [path.name for path in folder.iterdir()]
    assert sorted(names) == ["checkpoint.json", "database", "gateway.lock", "operator.key"]
    assert len(list(archive.rglob("*.parquet"))) == 1


FORKING = """
import os, sys
from toolkit_gateway import Gateway
with Gateway():
    if (child := os.fork()) == 0:
        sys.exit()
    os.waitpid(child, 0)
    print(*os.listdir(os.environ["TMPDIR"]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_leaves_the_temporary_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", FORKING], env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("toolkit-gateway-")
    assert list(tmp_path.iterdir()) == [], "the gateway itself removes it"


def test_folder_is_released_when_a_service_fails_to_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: DweetService) -> None:
        raise StoreUnavailable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(DweetService, "close", fail)
        gateway = Gateway(tmp_path)
        with pytest.raises(StoreUnavailable, match="the disk is full"):
            gateway.close()
    Gateway(tmp_path).close()
