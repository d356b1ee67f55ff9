"""`toolkit gateway --workers N`: real processes on one port, real signals, and what is left of them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import psutil
import pytest

from tests.conftest import raw_call
from tests.mail_server import eventually
from tests.redis_servers import fresh_url
from tests.test_cli import end, outcome, posting_until_it_ends, run, started, url_of
from toolkit.gateway import Gateway
from toolkit.gateway.options import GatewayOptions
from toolkit.gateway.shared_port import NoSharedPort, SharedPort
from toolkit.gateway.workers import Workers

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="several workers on one port need Linux or macOS")

KEY = "correct-horse-battery"


@contextmanager
def workers(*arguments: str, store: str | None = None, count: int = 2) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run so many workers on a store; gives the supervisor and the address that they share."""
    options = ["gateway", f"--workers={count}", "--port=0", f"--store={store or fresh_url()}", *arguments]
    with started(*options) as process:
        yield process, url_of(process)


def workers_of(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children()


@contextmanager
def connections(url: str, count: int) -> Iterator[list[socket.socket]]:
    """Hold so many connections, each accepted: it has answered a call."""
    address = url.removeprefix("http://").split(":")
    with ExitStack() as stack:
        opened = [stack.enter_context(socket.create_connection((address[0], int(address[1])))) for _ in range(count)]
        for connection in opened:
            connection.sendall(b"POST /dweet/quietly/for/kitchen HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n1")
        for connection in opened:
            assert connection.recv(65536).startswith(b"HTTP/1.1 204")
        yield opened


def without_promise(log: str) -> list[str]:
    """Return the lines of a log without the one that says what this Redis promises; more than one has failed."""
    lines = log.splitlines()
    promises = [line for line in lines if "an acknowledged dweet is in its memory only" in line]
    assert len(promises) == 1, "one worker says it, not each"
    return [line for line in lines if line not in promises]


def are_gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=60)[1]


def test_several_workers_need_a_store_that_they_share() -> None:
    refused = run("gateway", "--workers=2", "--port=0", code=2)
    assert refused.stdout == ""
    assert "toolkit gateway --workers 2 --store redis://127.0.0.1:6379" in refused.stderr


def test_a_signal_ends_all_workers_and_what_was_acknowledged_is_kept() -> None:
    store = fresh_url()
    with workers(store=store) as (process, url):
        everybody = workers_of(process)
        assert len(everybody) == 2
        # A listener does not keep them from ending.
        with (
            urllib.request.urlopen(f"{url}/listen/for/dweets/from/kitchen", timeout=60),
            posting_until_it_ends(url) as acknowledged,
        ):
            said, log = end(process)
            assert said == ""
            assert without_promise(log) == []
        assert are_gone(everybody)
    with Gateway(store=store) as gateway:
        history = json.loads(raw_call(gateway.base_url, "GET", "/get/dweets/for/kitchen").body)["with"]
    kept = [dweet["content"]["n"] for dweet in reversed(history)]
    # The last 500, of which the very last one may have been taken without its answer coming through.
    answered = [number for number in kept if number <= acknowledged[-1]]
    assert answered == acknowledged[-len(answered) :]
    assert len(answered) >= min(len(acknowledged), 499)
    assert len(kept) <= len(answered) + 1


def test_connections_are_spread_and_a_worker_that_is_killed_is_started_again() -> None:
    with workers(f"--lock=door={KEY}") as (process, url):
        before = workers_of(process)
        with connections(url, 64):
            port = int(url.rpartition(":")[2])
            busy = [
                one.pid for one in before for held in one.net_connections() if held.laddr.port == port and held.raddr
            ]
            if sys.platform == "linux":
                assert len(set(busy)) == 2, "both have some"
            before[0].kill()
        eventually(lambda: len(set(workers_of(process)) - set(before)) == 1)
        # While it starts and afterwards, whoever asks is answered.
        for number in range(50):
            assert outcome(url, "GET", f"/dweet/for/kitchen?n={number}") == "succeeded"
        (new,) = set(workers_of(process)) - set(before)
        eventually(lambda: any(one.status == psutil.CONN_LISTEN for one in new.net_connections()))
        everybody = workers_of(process)
        assert not any(KEY in part for one in everybody for part in one.cmdline()), "keys are on no command line"
        # Ctrl-C goes to the whole group of a terminal, and so does its end.
        for one in everybody:
            one.send_signal(signal.SIGINT)
            one.send_signal(signal.SIGHUP)
        assert outcome(url, "GET", "/dweet/for/kitchen?n=1") == "succeeded"
        said, log = end(process, signal.SIGHUP)
        assert said == ""
        (line,) = without_promise(log)
        assert re.search(
            rf"WARNING worker \d \(process {before[0].pid}\) ended by signal 9; it is started again in", line
        )
        assert are_gone(everybody)


def test_the_port_is_taken_for_others_and_a_supervisor_that_is_killed_leaves_no_worker() -> None:
    with workers() as (process, url):
        everybody = workers_of(process)
        port = url.rpartition(":")[2]
        refused = run("gateway", "--workers=2", f"--store={fresh_url()}", f"--port={port}", code=1)
        assert refused.stdout == ""
        assert re.fullmatch(rf"Error: cannot listen on 127\.0\.0\.1:{port}: [^\n]+\n", refused.stderr)
        assert outcome(url, "GET", "/dweet/for/kitchen?n=1") == "succeeded"
        os.kill(process.pid, signal.SIGKILL)
        assert are_gone(everybody)


def test_where_connections_are_not_spread_all_accept_from_one_socket_that_they_inherit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on macOS: only the choice of the way is the other system's, the way itself is walked here."""
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(sys, "platform", "darwin")
        shared = SharedPort("127.0.0.1", 0)
    options = GatewayOptions(store=fresh_url(), locks={}, keep=500)
    workers = Workers(2, shared, options, "error")
    ended = threading.Event()
    try:
        workers.start(ended)
        before = psutil.Process().children()
        url = f"http://127.0.0.1:{shared.port}"
        with connections(url, 16):
            assert outcome(url, "GET", "/dweet/for/kitchen?n=1") == "succeeded"
        (victim, *_) = [one for one in before if "worker_process" in " ".join(one.cmdline())]
        victim.kill()
        for number in range(20):
            assert outcome(url, "GET", f"/dweet/for/kitchen?n={number}") == "succeeded"
    finally:
        workers.stop()
        shared.close()
    assert not [one for one in psutil.Process().children() if "worker_process" in " ".join(one.cmdline())]


def test_a_system_that_cannot_share_a_port_is_told_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(sys, "platform", "win32")
        with pytest.raises(NoSharedPort, match="a balancer in front of them"):
            SharedPort("127.0.0.1", 0)


def test_a_worker_that_cannot_start_says_why_once_and_nobody_stays() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = taken.getsockname()[1]
    refused = run("gateway", "--workers=2", "--port=0", f"--store=redis://:{KEY}@127.0.0.1:{nobody}", code=1)
    assert refused.stdout == ""
    assert re.fullmatch(r"Error: [^\n]*127\.0\.0\.1[^\n]+\n", refused.stderr)
    assert KEY not in refused.stderr
