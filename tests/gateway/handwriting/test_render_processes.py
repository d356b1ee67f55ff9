"""Renders run in other processes: streams continue, their number is bounded, and nothing is left behind."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, urlsplit

import psutil

from tests.conftest import gateway_threads
from tests.handwriting_service import MOLLY, Service, errors_of
from tests.mail_server import eventually
from toolkit_gateway import Gateway

TEXT = ("The quick brown fox jumps over the lazy dog, and then it sleeps. " * 140)[:9000]


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


def ended(pids: set[int]) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_rendering_process_starts_crashes_is_replaced_and_ends() -> None:
    before, threads = children(), gateway_threads()
    with Gateway(config={"handwriting": {"renderers": 2}}) as gateway:
        service = Service(gateway.base_url)
        service.get("/handwritings")
        assert not children() - before, "no process before the first text"
        assert [service.render().status for _ in range(3)] == [200] * 3
        (worker,) = children() - before
        os.kill(worker, signal.SIGINT)  # "interrupt kernel" goes to the whole group
        assert service.render().status == 200
        process = psutil.Process(worker)
        idle = process.cpu_times().user
        with ThreadPoolExecutor(1) as pool:
            reply = pool.submit(service.render, "pdf", height="auto", text=TEXT)
            eventually(lambda: process.cpu_times().user > idle + 0.02)
            os.kill(worker, signal.SIGSEGV)
            failed = reply.result()
        assert (failed.status, errors_of(failed)) == (500, [{"error": "the gateway failed at this rendering"}])
        with ThreadPoolExecutor(6) as pool:  # other renderers take its place
            replies = list(pool.map(lambda n: service.render(text="Hello " * 50, random_seed=str(n + 1)), range(8)))
        assert {reply.status for reply in replies} == {200}
        assert len({reply.body for reply in replies}) == 8
        workers = children() - before
        assert len(workers) <= 2, "renders at once are bounded"
    assert ended(workers)
    assert gateway_threads() <= threads


def test_renderers_end_with_a_gateway_that_is_killed() -> None:
    script = (
        "import toolkit, os, sys, pathlib; g = toolkit.Gateway(); tk = toolkit.connect(g);"
        "tk.handwriting.png('Hello', 'Molly');"
        "print(' '.join(p for t in pathlib.Path('/proc/self/task').iterdir() "
        "for p in (t / 'children').read_text().split()), flush=True);"
        "sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        workers = {int(pid) for pid in process.stdout.readline().split()}
        assert len(workers) == 1
        process.kill()
    gone = [os.pidfd_open(pid) for pid in workers if Path(f"/proc/{pid}").exists()]
    for descriptor in gone:
        signalled = select.select([descriptor], [], [], 60)[0]
        os.close(descriptor)
        assert signalled, "the renderer outlived its gateway"


def test_stopping_gateway_cancels_running_renders() -> None:
    before = children()
    gateway = Gateway(config={"handwriting": {"renderers": 1}})
    address = urlsplit(gateway.base_url)
    target = f"/render/pdf?apikey=k&handwriting_id={MOLLY}&height=auto&text={quote(TEXT)}"
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        gateway.close()
        with suppress(ConnectionResetError):
            connection.recv(65536)  # an answer or the end, but no silence
    assert ended(children() - before)
