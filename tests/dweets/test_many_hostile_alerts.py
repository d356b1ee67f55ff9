"""200 hostile alerts of one owner on a gateway under load: nobody else is slowed, and the process stays small."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import psutil
import pytest

from tests.conftest import raw_call
from tests.dweets.hostile_conditions import HOSTILE, SLOW
from tests.dweets.test_hostile_alerts import KEY, Running
from tests.mail_server import eventually
from tests.test_cli import end, started, url_of

HOSTILE_ALERTS = 200
CONDITIONS = [
    "while (true) {} return true",
    SLOW,
    "globalThis.kept = new Uint8Array(15e6).fill(1); return kept.length > 0",
    *(f"if (dweet > 3) {{ {source} }} return dweet" for source in HOSTILE.values()),
]


class Load:
    """Posts as fast as they are answered, from some threads, until it is stopped."""

    def __init__(self, url: str, threads: int, target: Callable[[int], tuple[str, bytes]]) -> None:
        self.answered = itertools.count()
        self._is_over = threading.Event()
        self._port, self._target, self._numbers = int(url.rpartition(":")[2]), target, itertools.count()
        self._threads = [threading.Thread(target=self._post) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _post(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        while not self._is_over.is_set():
            path, body = self._target(next(self._numbers))
            connection.request("POST", path, body)
            assert b"succeeded" in connection.getresponse().read()
            next(self.answered)
        connection.close()

    def rate(self, seconds: float) -> float:
        """Return posts a second: the median of five parts of this time."""
        rates = []
        for _ in range(5):
            before, began = next(self.answered), time.monotonic()
            time.sleep(seconds / 5)
            rates.append((next(self.answered) - before - 1) / (time.monotonic() - began))
        return median(rates)

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()


def memory(running: Running) -> int:
    """Return the bytes that the gateway and its children use."""
    total = 0
    for process in [running.process, *running.process.children(recursive=True)]:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:  # a condition was killed just now
            continue
    return total


@pytest.mark.long
@pytest.mark.timeout(600)
def test_200_hostile_alerts_of_one_owner(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"hostile-{number}" for number in range(HOSTILE_ALERTS)]
    locks = [f"--lock={name}-lock={KEY}" for name in [*names, "kitchen"]]
    with started("gateway", "--port=0", f"--data={tmp_path}", *locks) as process:
        running = Running(url_of(process), process.pid, tmp_path)
        for name in [*names, "kitchen"]:
            assert running.get(f"/lock/{name}?lock={name}-lock&key={KEY}")["this"] == "succeeded"
        kitchen = "/alert/cook@b.example/when/kitchen/String(dweet)"
        assert running.get(f"{kitchen}?key={KEY}")["this"] == "succeeded"
        sizes = []
        others = Load(running.url, 4, lambda number: (f"/dweet/for/public-{number % 10}", b'{"n":%d}' % number))
        attack = Load(
            running.url,
            1,
            lambda number: (
                f"/dweet/for/{names[number % HOSTILE_ALERTS]}?key={KEY}",
                b"%d" % (number // HOSTILE_ALERTS),
            ),
        )
        try:
            calm = others.rate(10)
            for number, name in enumerate(names):
                assert running.set(name, CONDITIONS[number % len(CONDITIONS)] + f" // {number}")["this"] == "succeeded"
            rates, waits = [], []
            for number in range(10):
                rates.append(others.rate(3))
                began, mails = time.monotonic(), mails_about(tmp_path, "kitchen")
                reply = raw_call(running.url, "POST", f"/dweet/for/kitchen?key={KEY}", b"%d" % number)
                assert json.loads(reply.body)["this"] == "succeeded"
                eventually(lambda mails=mails: mails_about(tmp_path, "kitchen") > mails, 30)
                waits.append(time.monotonic() - began)
                sizes.append(memory(running))
        finally:
            others.stop()
            attack.stop()
        assert mails_about(tmp_path, "kitchen") == 10
        assert max(sizes) < 300 * 2**20
        began = time.monotonic()
        end(process)
        ended = time.monotonic() - began
        assert not process.poll()
    with capsys.disabled():
        print(
            f"\nposts by others: {median(rates) / calm:.2f} of {calm:.0f} a second; mails after {median(waits):.2f} s, "
            f"at most {max(waits):.2f} s; memory {max(sizes) / 2**20:.0f} MB; SIGTERM ends it in {ended:.2f} s"
        )


def mails_about(folder: Path, thing: str) -> int:
    return sum(f"Alert of {thing}: ".encode() in file.read_bytes() for file in (folder / "outbox").glob("*.eml"))
