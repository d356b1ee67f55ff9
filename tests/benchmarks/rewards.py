"""Mobile rewards: moments a second through HTTP with durable decisions.

Run it by hand: ``python -m tests.benchmarks.rewards [moments]``. The gateway keeps everything in a temporary
folder (RocksDB, every batch synced), then on a Redis (``appendfsync always``) of its own; the 64 connections live in a
process of their own. The CPU time is that of the gateway's process, and steadier than the rate.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from datetime import UTC, datetime

import psutil

from tests.benchmarks.load import cpu_seconds
from tests.conftest import operator_of
from tests.redis_servers import RedisServer
from toolkit import Gateway

CONNECTIONS = 64
DEVICES_PER_CONNECTION = 20
SETTINGS = {
    "partners": [{"gatewaykey": "partner-key-of-acme", "company_token": "acme", "apps": ["app"]}],
    "rules": {"seed": 7, "rewards": [{"id": "drink", "title": "A cold drink", "stock": 1_000_000}]},
}
_BODY = {"app_key": "app", "protocol": "http", "sdk_version": "1.0"}


async def _connection(port: int, moments: int, ready: asyncio.Barrier) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    devices = [str(uuid.uuid4()) for _ in range(DEVICES_PER_CONNECTION)]

    async def post(body: dict[str, object]) -> None:
        data = json.dumps({**_BODY, **body}).encode("utf-8")
        head = "POST /2.0/web/moment/?r=1&gatewaykey=partner-key-of-acme HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
        answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer.decode("latin-1"))
        length = answer.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        await asyncio.wait_for(reader.readexactly(int(length)), 30)

    for device in devices:
        start = datetime.now(UTC).isoformat()
        await post({"device_id": device, "events": [{"id": "session_start", "start": start}]})
    await ready.wait()
    for number in range(moments):
        device = devices[number % DEVICES_PER_CONNECTION]
        await post({"device_id": device, "moment_id": f"moment-{number // DEVICES_PER_CONNECTION % 10}"})
    writer.close()


async def _load(port: int, moments: int, pid: int) -> tuple[float, float]:
    """Return moments a second, and the CPU seconds of the gateway's process for each."""
    ready = asyncio.Barrier(CONNECTIONS + 1)
    tasks = [asyncio.ensure_future(_connection(port, moments // CONNECTIONS, ready)) for _ in range(CONNECTIONS)]
    await ready.wait()
    gateway = [psutil.Process(pid)]
    started, cpu_before = time.perf_counter(), cpu_seconds(gateway)
    await asyncio.gather(*tasks)
    sent = moments // CONNECTIONS * CONNECTIONS
    return sent / (time.perf_counter() - started), (cpu_seconds(gateway) - cpu_before) / sent


def print_moments(title: str, gateway: Gateway, moments: int) -> None:
    """Print moments a second through HTTP, and the CPU time of the gateway for each."""
    port = gateway.base_url.rpartition(":")[2]
    command = [sys.executable, "-m", "tests.benchmarks.rewards", "--load", port, str(moments), str(os.getpid())]
    with gateway:
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
        rate, cpu = map(float, done.stdout.split())
        kept = len(operator_of(gateway).decisions())
    print(f"{title}: {rate:,.0f} moments a second, {1e6 * cpu:,.0f} us of CPU each ({kept:,} decisions kept)")


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--load"]:
        print(*asyncio.run(_load(*map(int, arguments[1:]))))
        return
    moments = int(arguments[0]) if arguments else 20_000
    with tempfile.TemporaryDirectory() as folder:
        print_moments("on a folder", Gateway(folder, config={"rewards": SETTINGS}), moments)
    with RedisServer(appendonly="yes", appendfsync="always") as redis:
        print_moments("on Redis", Gateway(store=redis.url, config={"rewards": SETTINGS}), moments)


if __name__ == "__main__":
    main(sys.argv[1:])
