"""The gateway and its peers as processes on loopback: nchan (nginx, memory only), webdis over Redis (durable)."""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

CONTENT = json.dumps({"celsius": 21.5, "humidity": 40, "room": "kitchen", "ok": True}, separators=(",", ":"))
THING = "bench"


class Peer(NamedTuple):
    """One server: where it is, and how its operations are written."""

    name: str
    port: int
    post: tuple[str, str]  # path, body
    latest: str
    history: str
    listen: tuple[str, dict[str, str]]  # path, headers


class Missing(Exception):
    """A program of the machine is not installed."""


def program(name: str, package: str) -> str:
    """Return the path of a program, or say which Debian package has it."""
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin")
    if path is None:
        raise Missing(f"{name} is missing: apt-get install {package}")
    return path


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(command: Sequence[str], port: int) -> Iterator[None]:
    """Run a server until the end of the block; wait until it accepts connections."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None:
                raise Missing(f"{command[0]} ended with {process.returncode}")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def gateway(folder: Path) -> Iterator[Peer]:
    """The gateway, durable in `folder`."""
    with gateway_with("gateway", "--data", str(folder)) as peer:
        yield peer


@contextmanager
def gateway_with(name: str, *options: str) -> Iterator[Peer]:
    """The gateway with these options of its command line; it says when all of its processes accept calls."""
    command = [sys.executable, "-m", "toolkit", "gateway", "--port", "0", "--log-level", "error", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        url = process.stdout.readline()
        if not url:
            raise Missing(f"the gateway ended with {process.wait()}")
        port = int(url.rpartition(":")[2])
        yield Peer(
            name,
            port,
            (f"/dweet/for/{THING}", CONTENT),
            f"/get/latest/dweet/for/{THING}",
            f"/get/dweets/for/{THING}",
            (f"/listen/for/dweets/from/{THING}", {}),
        )
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


@contextmanager
def durable_redis(folder: Path) -> Iterator[int]:
    """A Redis that syncs every write (``appendfsync always``); gives its port."""
    port = free_port()
    redis = [program("redis-server", "redis-server"), "--port", str(port), "--bind", "127.0.0.1"]
    redis += ["--appendonly", "yes", "--appendfsync", "always", "--save", "", "--dir", str(folder)]
    with running(redis, port):
        yield port


@contextmanager
def webdis(folder: Path) -> Iterator[Peer]:
    """Webdis over a Redis that syncs every write (``appendfsync always``)."""
    with durable_redis(folder) as port, webdis_on(port, folder) as peer:
        yield peer


@contextmanager
def webdis_on(redis_port: int, folder: Path) -> Iterator[Peer]:
    """Webdis over the Redis at this port."""
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
    with running([program("webdis", "webdis"), str(config)], port):
        # A list, not a stream: webdis cannot write a stream's nested answer as JSON. Untrimmed, so one command a POST.
        append = f"LPUSH/{THING}/{quote(CONTENT, safe='')}"
        yield Peer(
            "webdis+redis",
            port,
            ("/", append),
            f"/LINDEX/{THING}/0",
            f"/LRANGE/{THING}/0/499",
            (f"/SUBSCRIBE/{THING}", {}),
        )


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
    with running([program("nginx", "nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf")], port):
        listen = (f"/sub/{THING}", {"Accept": "text/event-stream"})
        yield Peer("nchan", port, (f"/pub/{THING}", CONTENT), "", "", listen)


@contextmanager
def all_peers() -> Iterator[list[Peer]]:
    """The gateway first, then every peer that is installed; says which one is not."""
    with ExitStack() as stack:
        peers = []
        for start in (gateway, webdis, nchan):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
            folder.chmod(0o777)
            try:
                peers.append(stack.enter_context(start(folder)))
            except Missing as missing:
                print(f"without {start.__name__}: {missing}")
        yield peers


def seconds_and_rounds(description: str | None) -> argparse.Namespace:
    """Read what was typed: how long each measurement takes, and how often all are made."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0] if description else None)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()
