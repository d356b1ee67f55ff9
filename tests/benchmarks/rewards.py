"""Mobile rewards: moments a second through HTTP with durable decisions, and the seconds of a what-if.

Run it by hand: ``python -m tests.benchmarks.rewards [moments] [events]``. The gateway keeps everything in a
temporary folder (RocksDB, every batch synced); the 16 connections live in a process of their own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
import uuid
from datetime import UTC, datetime

from tests.conftest import operator_of
from toolkit import Gateway

CONNECTIONS = 16
DEVICES_PER_CONNECTION = 50
SETTINGS = {
    "partners": [{"gatewaykey": "key", "company_token": "acme", "apps": ["app"]}],
    "rules": {"seed": 7, "rewards": [{"id": "drink", "title": "A cold drink", "stock": 1_000_000}]},
}
_BODY = {"app_key": "app", "protocol": "http", "sdk_version": "1.0"}


async def _connection(port: int, moments: int, ready: asyncio.Barrier) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    devices = [str(uuid.uuid4()) for _ in range(DEVICES_PER_CONNECTION)]

    async def post(body: dict[str, object]) -> None:
        data = json.dumps({**_BODY, **body}).encode("utf-8")
        head = "POST /2.0/web/moment/?r=1&gatewaykey=key HTTP/1.1\r\nHost: 127.0.0.1\r\n"
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


async def _load(port: int, moments: int) -> float:
    ready = asyncio.Barrier(CONNECTIONS + 1)
    tasks = [asyncio.ensure_future(_connection(port, moments // CONNECTIONS, ready)) for _ in range(CONNECTIONS)]
    await ready.wait()
    started = time.perf_counter()
    await asyncio.gather(*tasks)
    return moments // CONNECTIONS * CONNECTIONS / (time.perf_counter() - started)


def moments_a_second(moments: int) -> tuple[float, int]:
    """Return moments a second through HTTP, and how many decisions were on disk afterwards."""
    with tempfile.TemporaryDirectory() as folder, Gateway(folder, config={"rewards": SETTINGS}) as gateway:
        port = gateway.base_url.rpartition(":")[2]
        command = [sys.executable, "-m", "tests.benchmarks.rewards", "--load", port, str(moments)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
        return float(done.stdout), len(operator_of(gateway).decisions())


def simulate_seconds(events: int) -> float:
    """Return the seconds that a what-if of so many moments takes."""
    from toolkit.rewards.analysis.simulation import made_up_moments, simulate

    moments = made_up_moments(devices=1 + events // 100, days=14, seed=1, count=events)
    started = time.perf_counter()
    simulate(SETTINGS["rules"], moments)
    return time.perf_counter() - started


def main(arguments: list[str]) -> None:
    """Print both numbers."""
    if arguments[:1] == ["--load"]:
        print(asyncio.run(_load(int(arguments[1]), int(arguments[2]))))
        return
    moments, events = [int(text) for text in [*arguments, *["20000", "100000"][len(arguments) :]]]
    rate, kept = moments_a_second(moments)
    print(f"moments through HTTP, {CONNECTIONS} connections, durable: {rate:,.0f} a second ({kept:,} decisions kept)")
    print(f"simulate {events:,} moments: {simulate_seconds(events):.2f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
