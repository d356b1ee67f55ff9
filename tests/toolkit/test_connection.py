"""`connect`: URLs are checked at once, clients exist without their keys, and `close` ends every call."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pandas as pd
import pytest

import toolkit
from tests.conftest import ROOT
from toolkit.errors import ConnectionClosed, InvalidArgument, ToolkitError, Unreachable
from toolkit_gateway import Gateway

DEVICE = "6c1f2a0e-5b9d-4c77-8a31-0d2e9b4f6a55"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with Gateway() as running:
        yield running


def test_unknown_host_name_is_reported() -> None:
    with toolkit.connect("http://gateway.invalid") as tk, pytest.raises(Unreachable, match="no address was found for"):
        tk.dweets.things()


def test_server_without_tls_is_reported(gateway: Gateway) -> None:
    secure = gateway.base_url.replace("http:", "https:")
    with toolkit.connect(secure) as tk, pytest.raises(Unreachable, match="does not answer as https should"):
        tk.dweets.things()


def test_server_of_another_protocol_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"220 mail.example ESMTP\r\n")
                connection.recv(65536)

        greeting = threading.Thread(target=greet)
        greeting.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with toolkit.connect(url) as tk, pytest.raises(Unreachable, match="or does not speak HTTP"):
            tk.dweets.things()
        greeting.join(60)


def test_connection_cannot_be_pickled_and_says_so(gateway: Gateway) -> None:
    with toolkit.connect(gateway) as tk, tk.dweets.listen("door") as listening:
        playing = tk.dweets.replay("door", pd.DataFrame(index=pd.DatetimeIndex(["2026-01-01"])))
        playing.wait()
        for local in (tk, tk.dweets, gateway, listening, playing):
            with pytest.raises(
                TypeError, match=r"neither copied nor pickled: call toolkit.connect\(URL\) in each process"
            ):
                pickle.dumps(local)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_process_opens_its_own_connections() -> None:
    callers = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            callers.append(self.client_address)
            dweet = b'{"thing":"kitchen","created":"2026-01-01T00:00:00.000Z","content":{"n":1}}'
            body = b'{"this":"succeeded","by":"getting","the":"dweets","with":[%b]}' % dweet
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    program = """
import os, sys, toolkit
tk = toolkit.connect(sys.argv[1])
tk.dweets.latest("kitchen")
if os.fork() == 0:
    tk.dweets.latest("kitchen")
    os._exit(0)
os.wait()
tk.dweets.latest("kitchen")
"""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        subprocess.run([sys.executable, "-c", program, url], cwd=ROOT, timeout=60, check=True)
        server.shutdown()
    parent, child, parent_again = callers
    assert parent == parent_again != child


def test_connect_refuses_an_invalid_url_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    urls = ["ftp://127.0.0.1", "127.0.0.1:8787", "http://", "http://h:x", "http://[::1", "http://u:Zx9@h", "ftp://Zx9"]
    for url in (*urls, "http://h?key=Zx9", "http://h\n", " http://h", "http://h/a b", "http://h\0", "http://h\ud800"):
        with pytest.raises(InvalidArgument, match="a base URL is http://") as refused:
            toolkit.connect(url)
        with pytest.raises(InvalidArgument, match="a base URL is http://"):
            toolkit.connect("http://127.0.0.1", base_urls={"rewards": url})
        assert "Zx9" not in str(refused.value)
    monkeypatch.setenv("TOOLKIT_URL", "ftp://127.0.0.1")
    with pytest.raises(InvalidArgument, match="a base URL is http://"):
        toolkit.connect()


def test_connect_refuses_other_objects() -> None:
    for gateway in [8787, {"url": "http://h"}, Gateway]:
        with pytest.raises(InvalidArgument, match="gateway is a Gateway or a str or None, not "):
            toolkit.connect(gateway)


CALLS: dict[str, Callable[[toolkit.Connection], object]] = {
    "dweets": lambda tk: tk.dweets.post("kitchen", {"celsius": 21.5}),
    "listen": lambda tk: tk.dweets.listen("kitchen").close(),
    "replay": lambda tk: tk.dweets.replay(
        "kitchen", pd.DataFrame({"n": [1]}, index=pd.to_datetime(["2026-01-01"]))
    ).wait(),
    "handwriting": lambda tk: tk.handwriting.available(),
    "rewards": lambda tk: tk.rewards.start_session(DEVICE),
    "identity": lambda tk: tk.identity.echo("hello"),
}


@pytest.mark.parametrize("used_before", [True, False])
def test_a_call_after_close_raises_connection_closed(used_before: bool, demo: Gateway) -> None:
    for call in CALLS.values():
        tk = toolkit.connect(demo)
        if used_before:
            call(tk)
        tk.close()
        with pytest.raises(ConnectionClosed, match=r"is closed: connect again with toolkit\.connect"):
            call(tk)


def test_close_ends_open_streams(gateway: Gateway) -> None:
    tk = toolkit.connect(gateway)
    listener = tk.dweets.listen("roof")
    tk.close()
    tk.close()
    with pytest.raises(ToolkitError, match="is closed"):
        next(listener)
