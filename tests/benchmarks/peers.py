"""The gateway and its peers as processes on 127.0.0.1.

Durable peers are webdis and a program on Starlette, on one Redis that syncs every write; nchan (nginx) is memory only.
"""

from __future__ import annotations

import argparse
import functools
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import psutil
import redis

from tests.conftest import ROOT
from tests.ports import free_port


class Peer(NamedTuple):
    """A running server, and how its operations are written as HTTP requests.

    ``post`` takes a thing and a content (JSON text); ``latest``, ``history`` and ``listen`` take a thing. ``fill``
    stores contents of a thing without being measured. None: the server has no such operation. ``processes`` are all
    that work for it.
    """

    name: str
    port: int
    post: Callable[[str, str], bytes]
    listen: Callable[[str], bytes]
    latest: Callable[[str], bytes] | None = None
    history: Callable[[str], bytes] | None = None
    fill: Callable[[str, Sequence[str]], None] | None = None
    processes: Sequence[psutil.Process] = ()


def get(path: str, **headers: str) -> bytes:
    """Return a GET request with these headers."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{lines}\r\n".encode()


def post(path: str, body: str, content_type: str) -> bytes:
    """Return a POST request with this body."""
    data = body.encode()
    lines = f"Host: 127.0.0.1\r\nContent-Type: {content_type}\r\nContent-Length: {len(data)}"
    return f"POST {path} HTTP/1.1\r\n{lines}\r\n\r\n".encode() + data


class Missing(Exception):
    """A program of the machine is not installed."""


def program(name: str, package: str) -> str:
    """Return the path of a program, or say which Debian package has it."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin")
    if path is None:
        raise Missing(f"{name} is missing: apt-get install {package}")
    return path


def with_children(pid: int) -> list[psutil.Process]:
    """Return a process and those that it has started."""
    return [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]


@contextmanager
def running(command: Sequence[str], port: int) -> Iterator[list[psutil.Process]]:
    """Run a server until the end of the block; wait until it accepts connections, and give its processes."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None:
                raise Missing(f"{command[0]} ended with {process.returncode}")
            time.sleep(0.05)
        yield with_children(process.pid)
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def gateway(folder: Path) -> Iterator[Peer]:
    """The gateway, durable in `folder`."""
    with gateway_with("gateway", "--data", str(folder)) as peer:
        yield peer


@contextmanager
def gateway_with(
    name: str, *options: str, checkout: Path = ROOT, others: Sequence[psutil.Process] = ()
) -> Iterator[Peer]:
    """The gateway of a checkout with these options of its command line; `others` are processes of its store."""
    command = [sys.executable, "-m", "toolkit", "gateway", "--port", "0", "--log-level", "error", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)}
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline()
        if not url:
            raise Missing(f"the gateway ended with {process.wait()}")
        port = int(url.rpartition(":")[2])
        yield Peer(
            name,
            port,
            post=lambda thing, content: post(f"/dweet/for/{thing}", content, "application/json"),
            listen=lambda thing: get(f"/listen/for/dweets/from/{thing}"),
            latest=lambda thing: get(f"/get/latest/dweet/for/{thing}"),
            history=lambda thing: get(f"/get/dweets/for/{thing}"),
            fill=functools.partial(_fill_gateway, port),
            processes=[*with_children(process.pid), *others],
        )
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


@contextmanager
def durable_redis(folder: Path) -> Iterator[tuple[int, list[psutil.Process]]]:
    """A Redis that syncs every write (``appendfsync always``); gives its port and its processes."""
    port = free_port()
    redis = [program("redis-server", "redis-server"), "--port", str(port), "--bind", "127.0.0.1"]
    redis += ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir", str(folder)]
    with running(redis, port) as processes:
        yield port, processes


@contextmanager
def webdis_on(redis_port: int, others: Sequence[psutil.Process], folder: Path) -> Iterator[Peer]:
    """Webdis over the Redis at this port, which has these processes."""
    port = free_port()
    settings = {
        "redis_host": "127.0.0.1",
        "redis_port": redis_port,
        "http_host": "127.0.0.1",
        "http_port": port,
        "threads": 2,
        "pool_size": 20,
        "daemonize": False,
        "verbosity": 0,
        "logfile": str(folder / "webdis.log"),
        "database": 0,
        "acl": [{"disabled": []}],
    }
    config = folder / "webdis.json"
    config.write_text(json.dumps(settings))
    with running([program("webdis", "webdis"), str(config)], port) as processes:
        # A list, not a stream: webdis cannot write a stream's nested reply as JSON. Not trimmed: one command a POST.
        form = "application/x-www-form-urlencoded"
        yield Peer(
            "webdis+redis",
            port,
            post=lambda thing, content: post("/", f"LPUSH/{thing}/{quote(content, safe='')}", form),
            listen=lambda thing: get(f"/SUBSCRIBE/{thing}"),
            latest=lambda thing: get(f"/LINDEX/{thing}/0"),
            history=lambda thing: get(f"/LRANGE/{thing}/0/499"),
            fill=functools.partial(_fill_redis, redis_port),
            processes=[*processes, *others],
        )


@contextmanager
def starlette_on(redis_port: int, others: Sequence[psutil.Process]) -> Iterator[Peer]:
    """The program `starlette_peer` over the Redis at this port; uv installs what it needs beside this environment."""
    port, packages = free_port(), ("starlette>=1,<2", "uvicorn[standard]>=0.30,<1", "redis[hiredis]>=8,<9", "orjson<4")
    command = [program("uv", "uv"), "run", "--no-project", *(f"--with={package}" for package in packages)]
    script = Path(__file__).with_name("starlette_peer.py")
    with running([*command, "python", str(script), str(port), str(redis_port)], port) as processes:
        yield Peer(
            "starlette+redis",
            port,
            post=lambda thing, content: post(f"/dweet/for/{thing}", content, "application/json"),
            listen=lambda thing: b"",
            latest=lambda thing: get(f"/get/latest/dweet/for/{thing}"),
            history=lambda thing: get(f"/get/dweets/for/{thing}"),
            fill=functools.partial(_fill_streams, redis_port),
            processes=[*processes, *others],
        )


def _fill_gateway(port: int, thing: str, contents: Sequence[str]) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    body = "\n".join(contents)
    connection.request("POST", f"/dweets/for/{thing}", body, {"Content-Type": "application/x-ndjson"})
    reply = connection.getresponse().read()
    connection.close()
    if b'"succeeded"' not in reply:
        raise RuntimeError(reply[:200])


def _fill_redis(port: int, thing: str, contents: Sequence[str]) -> None:
    with redis.Redis("127.0.0.1", port) as client:
        client.lpush(thing, *contents)


def _fill_streams(port: int, thing: str, contents: Sequence[str]) -> None:
    with redis.Redis("127.0.0.1", port) as client, client.pipeline(transaction=False) as pipeline:
        for content in contents:
            pipeline.xadd(f"dweets:{thing}", {"dweet": content})
        pipeline.execute()


@contextmanager
def nchan(folder: Path) -> Iterator[Peer]:
    """Nginx with nchan, everything in memory."""
    port = free_port()
    module = next(Path("/usr/lib/nginx/modules").glob("ngx_nchan_module.so"), None)
    if module is None:
        raise Missing("nchan is missing: apt-get install libnginx-mod-nchan")
    (folder / "nginx.conf").write_text(
        f"""
load_module {module};
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log crit;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  keepalive_requests 100000000; nchan_message_buffer_length 500; nchan_message_timeout 0;
  server {{
    listen 127.0.0.1:{port};
    location ~ /pub/(\\w+)$ {{ nchan_publisher; nchan_channel_id $1; }}
    location ~ /sub/(\\w+)$ {{ nchan_subscriber chunked eventsource; nchan_channel_id $1;
                               nchan_subscriber_first_message newest; }}
  }}
}}
"""
    )
    with running([program("nginx", "nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf")], port) as processes:
        yield Peer(
            "nchan",
            port,
            post=lambda thing, content: post(f"/pub/{thing}", content, "application/json"),
            listen=lambda thing: get(f"/sub/{thing}", Accept="text/event-stream"),
            processes=processes,
        )


@contextmanager
def all_peers(before: Path | None) -> Iterator[list[Peer]]:
    """The gateway, that of the checkout `before`, and each peer that is installed."""
    with ExitStack() as stack:
        peers: list[Peer] = []

        def start(make: Callable[..., AbstractContextManager[Any]], *arguments: Any, **options: Any) -> Any:
            try:
                return stack.enter_context(make(*arguments, **options))
            except Missing as missing:
                print(f"left out: {missing}")
                return None

        def folder() -> Path:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
            path.chmod(0o777)
            return path

        peers.append(start(gateway, folder()))
        if before is not None:
            peers.append(start(gateway_with, "before", "--data", str(folder()), checkout=before))
        if redis := start(durable_redis, folder()):
            port, processes = redis
            peers.append(start(webdis_on, port, processes, folder()))
            peers.append(start(starlette_on, port, processes))
            store = f"redis://127.0.0.1:{port}?timeout=30&prefix=bench:"
            peers.append(start(gateway_with, "gateway on redis", "--store", store, others=processes))
        peers.append(start(nchan, folder()))
        yield [peer for peer in peers if peer is not None]


def seconds_and_rounds(description: str | None) -> argparse.Namespace:
    """Read the options: how long each measurement takes, how many rounds are made, and another checkout."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0] if description else None)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="such as that of the commit before a change")
    return parser.parse_args()
