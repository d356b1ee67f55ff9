"""The command line as a person, a script and an init system use it.

Real processes and real signals where they matter; elsewhere the same command in this process, since a new one loads
pandas first.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.metadata
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

import toolkit
from tests.commands import (
    TOOLKIT,
    call_lab,
    called,
    end,
    kernel_environment,
    outcome,
    run,
    started,
    started_lab,
    url_of,
)
from tests.conftest import ROOT, raw_call, raw_exchange
from tests.kept_folder import kept_contents
from toolkit_gateway import Gateway
from toolkit_gateway.dweets.lock_records import LockTable

KEY = "correct-horse-battery"
COMMANDS = ("doctor", "gateway", "history", "lab", "lock", "post", "tail", "write")
KEPT_FILES = ["checkpoint.json", "database", "gateway.lock", "operator.key"]


@contextmanager
def occupied(port: int = 0) -> Iterator[int]:
    """Hold a port, unless somebody else listens on it; wait while another test holds it without listening."""
    with socket.socket() as holder:
        while not is_open(port):
            try:
                holder.bind(("127.0.0.1", port))
                holder.listen()
            except OSError:
                time.sleep(0.1)
            else:
                port = holder.getsockname()[1]
        yield port


def is_open(port: int) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", port)) == 0


# -- the entrance -----------------------------------------------------------------------------------------


def test_the_help_names_every_command_and_explains_its_options() -> None:
    assert all(f"\n  {name} " in called("--help").stdout for name in COMMANDS)
    for command in COMMANDS:
        said = called(command, "--help").stdout
        assert not re.search(r"^  --[a-z-]+( [A-Z=]+)*$\n  -", said, re.MULTILINE), "an option without a word on it"


def test_version_is_that_of_the_distribution() -> None:
    assert run("--version").stdout == f"toolkit, version {importlib.metadata.version('gateway-toolkit')}\n"


# -- toolkit gateway --------------------------------------------------------------------------------------


def test_starts_import_only_what_they_need() -> None:
    program = "import sys, toolkit.cli\nprint(*sys.modules)\n"
    program += "from toolkit_gateway import Gateway\nGateway().close()\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    command, gateway = ({name.split(".")[0] for name in line.split()} for line in done.stdout.splitlines())
    heavy = {"pandas", "pyarrow", "matplotlib", "ipywidgets", "requests", "redis"}
    assert not heavy & gateway
    assert not (heavy | {"numpy", "httptools", "rocksdict", "jupyterlab", "asyncio"}) & command


def test_open_listener_does_not_block_the_stop() -> None:
    with started("gateway", "--port=0", "--log-level=info", f"--lock=door={KEY}") as process:
        url = url_of(process)
        raw_call(url, "GET", f"/lock/cellar?lock=door&key={KEY}")
        with urllib.request.urlopen(f"{url}/listen/for/dweets/from/kitchen", timeout=60) as stream:
            raw_call(url, "GET", "/dweet/for/kitchen?n=1")
            assert b"kitchen" in stream.readline() + stream.readline()
            _, log = end(process, signal.SIGINT)
    requests = [re.fullmatch(r"[-\d]+ [:,\d]+ INFO GET (\S+) 200 [\d.]+ ms", line) for line in log.splitlines()]
    paths = {request[1] for request in requests if request}
    assert paths == {"/lock/cellar", "/dweet/for/kitchen", "/listen/for/dweets/from/kitchen"}
    assert "key" not in log


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["--port={port}"], 1, r"cannot listen on 127\.0\.0\.1:{port}: [^\n]+"),
        (["--host=0.0.0.0", "--port={port}"], 1, r"cannot listen on 0\.0\.0\.0:{port}: [^\n]+"),
        (["--data={used}"], 1, r"the folder [^\n]+ is in use by a gateway of this process: [^\n]+"),
        (["--data={data}", "--lock=door=another-key-of-the-door"], 1, "the lock 'door' exists with another master key"),
        (["--allow-host", "http://a b/"], 2, r"gateway\.allow_hosts: this is not a host name: [^\n]+"),
        (["--trusted-proxy", "http://a b/"], 2, r"gateway\.trusted_proxies: this is not an address [^\n]+"),
    ],
)
def test_a_start_that_fails_says_why_in_one_line(arguments: list[str], code: int, error: str, tmp_path: Path) -> None:
    with Gateway(tmp_path / "data", locks={"door": KEY}):
        pass
    with Gateway(tmp_path / "used"), occupied() as port:
        places = {"port": port, "data": tmp_path / "data", "used": tmp_path / "used"}
        given = [argument.format(**places) for argument in arguments]
        refused = called("gateway", "--port=0", *given, code=code)
    assert refused.stdout == ""
    assert re.fullmatch(f"Error: {error.format(**places)}\n", refused.stderr)


def test_a_wrong_option_is_refused_and_shows_no_key() -> None:
    for arguments in [
        ["--lock", KEY],
        ["--lock", f"={KEY}"],
        ["--lock", "door="],
        ["--lock", f"door={KEY}", "--lock", "door=other"],
        ["--lock", f"door={KEY}", f"gate={KEY}"],
        ["--lok", f"door={KEY}"],
        [f"--lok=door={KEY}"],
        ["--smtp", f"http://user:{KEY}@mail.example"],
        ["--smtp", f"smtp://user:{KEY}@[::1"],
        ["--smtp", f"smtp://mail.example:{KEY}"],
        ["--port=65536"],
        ["--keep=499"],
        ["--rate=0"],
        ["--log-level=loud"],
    ]:
        refused = called("gateway", "--port=0", *arguments, code=2)
        assert "Error: " in refused.stderr
        assert KEY not in refused.stderr + refused.stdout


def test_unreadable_locks_are_one_line_of_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called("lock", "new", f"--data={tmp_path}")
    monkeypatch.setattr(LockTable, "apply", lambda *news: 1 / 0)
    refused = called("gateway", "--port=0", f"--data={tmp_path}", code=1)
    assert refused.stdout == ""
    why = "ZeroDivisionError at a value that is there"
    assert refused.stderr == f"Error: the records 'locked-things' cannot be read: {why}\n"


def test_retention_and_post_rate_are_options(tmp_path: Path) -> None:
    batch = b"\n".join(b'{"n": %d}' % n for n in range(100))
    with started("gateway", "--port=0", f"--data={tmp_path}", "--keep=500", "--rate=1000") as process:
        url = url_of(process)
        for _ in range(10):
            assert outcome(url, "POST", "/dweets/for/kitchen", batch) == "succeeded"
        assert 429 in [outcome(url, "POST", "/dweets/for/cellar", batch) for _ in range(30)]
        assert end(process, signal.SIGHUP) == ("", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == KEPT_FILES
    assert 500 <= len(kept_contents(tmp_path, "kitchen")) < 1000


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux hides a process from other processes of its user")
def test_other_programs_of_the_user_cannot_read_the_keys() -> None:
    def drop() -> None:
        for capability in range(64):  # without them, the superuser is a user like others
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP

    pipe, environment, shown = subprocess.PIPE, os.environ | {"TOOLKIT_LOCKS": f"gate={KEY}"}, []
    for command in ((sys.executable, "-c", "print('started', flush=True); input()"), (*TOOLKIT, "gateway", "--port=0")):
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, preexec_fn=drop) as process:
            assert process.stdout is not None
            process.stdout.readline()
            read = subprocess.run(["cat", f"/proc/{process.pid}/environ"], preexec_fn=drop, stdout=pipe, check=False)
            shown.append(KEY.encode() in read.stdout)
            process.terminate()
    assert shown == [True, False]


def test_exposed_gateway_serves_without_demo_keys() -> None:
    client = json.loads((ROOT / "data" / "demo_world.json").read_bytes())["credentials"]["identity"]["ApiClientId"]
    body = json.dumps({"RequestId": "1", "ApiClientId": client, "EchoMessage": "hello"}).encode()
    hosts = {"TOOLKIT_ALLOW_HOSTS": "a.example b.example", "TOOLKIT_LOCKS": f"gate=another-{KEY} door={KEY}"}
    with started("gateway", "--port=0", "--no-cors", **hosts) as process:
        url = url_of(process)
        for name, status in (("a.example", 200), ("b.example", 200), ("c.example", 421)):
            request = f"GET /get/stats HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n"
            answer = raw_exchange(url, request.encode())
            assert int(answer.split()[1]) == status
            assert b"access-control-allow-origin" not in answer
        answer = raw_call(url, "POST", "/account/2014/07/25/accountEcho", body, "Content-Type: application/json\r\n")
        assert b"hello" not in answer.body
        assert outcome(url, "GET", f"/lock/kitchen?lock=door&key={KEY}") == "succeeded"
        assert outcome(url, "GET", "/dweet/for/kitchen?n=1") == 403
        end(process)


# -- toolkit lab ------------------------------------------------------------------------------------------


@pytest.fixture
def terminal() -> Iterator[int]:
    """One side of a terminal: on one, Jupyter would ask at Ctrl-C whether one is sure."""
    sides = os.openpty()
    yield sides[1]
    for side in sides:
        os.close(side)


def test_lab_serves_and_leaves_nothing_behind(tmp_path: Path, terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with occupied(8787), started_lab(tmp_path, "--lab-port=0", stdin=terminal) as (process, gateway, lab, token):
        assert urlsplit(gateway).port != 8787, "the usual port is taken, so it took a free one"
        assert outcome(gateway, "GET", "/dweet/for/kitchen?n=1") == "succeeded"
        assert "version" in call_lab(lab, token, "/api")
        kernel = call_lab(lab, token, "/api/kernels", b'{"name": "python3"}')
        told = kernel_environment(process.pid)
        runtime = Path(told["JUPYTER_RUNTIME_DIR"])
        assert any(kernel["id"] in path.name for path in runtime.iterdir())
        assert told["TOOLKIT_URL"] == gateway
        for variable in (variable for variable in told if variable.startswith("TOOLKIT_")):
            monkeypatch.setenv(variable, told[variable])
        with toolkit.connect() as tk:  # as a notebook does
            assert tk.identity.echo("hello")["echo_message"].tolist() == ["hello"]
            assert len(tk.rewards.new_device_id("acme")) > 30
            assert tk.operator.issue_lock().lock == tk.operator.locks()["lock"].item()
        children = psutil.Process(process.pid).children(recursive=True)
        assert children
        said, _ = end(process, signal.SIGINT)
        assert said == "", "no question whether one is sure"
    assert not any(child.is_running() for child in children)
    assert not is_open(urlsplit(gateway).port)
    assert not is_open(urlsplit(lab).port)
    assert not runtime.exists()
    assert sorted(path.name for path in (tmp_path / "data of the gateway").iterdir()) == KEPT_FILES


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--data={tmp}/used"], r"the folder \S+ is in use by [^\n]+"),
        (["--port={port}"], r"cannot listen on [^\n]+"),
        (["--folder={tmp}/file/lab"], r"the folder \S+ cannot be written: [^\n]+"),
    ],
)
def test_a_lab_that_cannot_start_says_why_in_one_line(options: list[str], error: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with Gateway(tmp_path / "used"), occupied() as port:
        given = [option.format(tmp=tmp_path, port=port) for option in options]
        refused = called("lab", "--no-browser", f"--data={tmp_path}/data", f"--folder={tmp_path}/lab", *given, code=1)
    assert re.fullmatch(f"Error: {error}\n", refused.stderr)


# -- toolkit doctor ---------------------------------------------------------------------------------------


def test_doctor_names_present_and_missing_programs(tmp_path: Path) -> None:
    said = called("doctor", PATH=str(tmp_path), XDG_DATA_HOME=str(tmp_path)).stdout
    assert re.search(r"^  ok +JupyterLab +\d", said, re.MULTILINE)
    assert re.search(r"^  missing +Chromium +tests in the browser are skipped$", said, re.MULTILINE)
    assert str(tmp_path) in said
    assert list(tmp_path.iterdir()) == []


def test_doctor_tells_a_taken_port_from_a_closing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setattr(importlib.import_module("toolkit.cli.doctor"), "DEFAULT_PORT", port)
        assert re.search(rf"^  taken +port {port} +perhaps by a gateway", called("doctor").stdout, re.MULTILINE)
        caller = socket.create_connection(("127.0.0.1", port))
        for connection in (server.accept()[0], server.accept()[0]):  # the doctor's, and that of the caller
            connection.close()
    caller.close()  # after the server, whose end of the connection the system now keeps for a minute
    assert re.search(rf"^  ok +port {port} +free$", called("doctor").stdout, re.MULTILINE)


@pytest.mark.skipif(sys.platform != "linux", reason="moves the data folder by a variable of Linux")
def test_doctor_fails_without_a_writable_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = called("doctor", XDG_DATA_HOME=str(tmp_path / "file"), code=1).stdout
    assert re.search(r"^  missing +data folder +.* cannot be written: give --data another folder$", said, re.MULTILINE)
