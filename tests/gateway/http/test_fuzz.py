"""Random bytes: every response is valid HTTP, no failure is logged, and no memory is kept."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import random
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import psutil
import pytest

from tests.conftest import raw_call
from tests.gateway.http.request_mutations import KEY, mutated
from tests.redis_servers import wait_until
from tests.reward_caller import settings
from toolkit_gateway import Gateway
from toolkit_gateway.runtime import Timings

PIPELINE = 16
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
#: Statuses that say what was wrong with a request, and none that says that the gateway failed.
EXPECTED = {
    *(100, 200, 204, 302, 304, 503, 505),
    *(400, 401, 403, 404, 405, 406, 408, 409, 410, 413, 415, 421, 422, 429, 431),
}
MB = 1024 * 1024


@pytest.fixture
def running() -> Iterator[Gateway]:
    config = {"gateway": {"demo": True, "trusted_proxies": ["127.0.0.1"]}, "rewards": settings()}
    timings = Timings(key_interval=1e-6)  # many wrong keys come here
    with Gateway(config=config, locks={"l": KEY, "other": KEY}, timings=timings) as gateway:
        assert raw_call(gateway.base_url, "GET", f"/lock/locked?lock=l&key={KEY}").status == 200
        yield gateway


def exchange(gateway: Gateway, data: bytes) -> bytes:
    """Send bytes while reading what comes, and return all that came until the gateway closed."""
    address = urlsplit(gateway.base_url)
    received = b""
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                received += piece
        except (ConnectionResetError, BrokenPipeError):
            pass  # it was closed with some of the bytes unread
    return received


def fuzz(gateway: Gateway, seed: int, requests: int) -> Counter[int]:
    found: Counter[int] = Counter()
    counting = threading.Lock()

    def one(number: int) -> None:
        draw = random.Random(f"{seed}-{number}")
        data = b"".join(mutated(draw) for _ in range(PIPELINE))
        statuses = Counter(int(status) for status in STATUS.findall(exchange(gateway, data)))
        wrong = statuses.keys() - EXPECTED
        assert not wrong, f"{wrong} in pipeline {number} of seed {seed}"
        with counting:
            found.update(statuses)

    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(one, range(-(-requests // PIPELINE))):
            pass  # what a pipeline raised is raised here
    return found


def held() -> tuple[int, int, int]:
    gc.collect()
    process = psutil.Process(os.getpid())
    # The files of the store grow in number with what is kept.
    return process.memory_info().rss, process.num_threads(), process.num_fds() - len(process.open_files())


def check(gateway: Gateway, caplog: pytest.LogCaptureFixture, seed: int, requests: int, growth: int) -> Counter[int]:
    with caplog.at_level(logging.ERROR):
        fuzz(gateway, seed + 1, 1_000)  # what is made once is there: worker processes, caches
        memory, threads, descriptors = held()
        found = fuzz(gateway, seed, requests)
    assert [record.getMessage() for record in caplog.records] == []
    wait_until(lambda: held()[2] <= descriptors + 2, "descriptors are left open")
    assert held()[1] <= threads + 4
    assert held()[0] - memory < growth
    assert b'"this":"succeeded"' in raw_call(gateway.base_url, "POST", "/dweet/for/after", b'{"ok":true}').body
    return found


def test_mutated_requests_get_http_responses(running: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    found = check(running, caplog, 20_261_122, 1_000, 100 * MB)
    assert {200, 204, 400, 401, 404, 405, 421} <= found.keys(), "they reach the handlers"
    assert found.total() > 500, "a spoilt request ends its connection, and so few of them are"


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_half_a_million_mutated_requests_get_responses(running: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    """Half a million are answered: what comes behind the end of a connection does not count."""
    answered: Counter[int] = Counter()
    for seed in itertools.count(1):
        answered += check(running, caplog, seed * 1_000, 100_000, 300 * MB)
        if answered.total() >= 500_000:
            break
