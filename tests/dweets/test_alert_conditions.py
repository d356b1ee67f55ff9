"""The time of a condition is its own, whatever else the process computes."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator

import pytest

from toolkit.dweets.alert_conditions import SECONDS, Condition


@pytest.fixture
def busy() -> Iterator[None]:
    """Four threads that compute, as numpy's do."""
    is_over = threading.Event()

    def compute() -> None:
        while not is_over.is_set():
            hashlib.pbkdf2_hmac("sha256", b"", b"", 20_000)

    threads = [threading.Thread(target=compute) for _ in range(4)]
    for thread in threads:
        thread.start()
    yield
    is_over.set()
    for thread in threads:
        thread.join()


def test_other_threads_take_nothing_of_it(request: pytest.FixtureRequest) -> None:
    condition = Condition("let sum = 0; for (let n = 0; n < dweet; n++) sum += n; return sum > 0")
    turns, spent = 10_000, 0.0
    while spent < SECONDS / 4:
        turns *= 2
        began = time.thread_time()
        assert condition(b"%d" % turns).met
        spent = time.thread_time() - began
    request.getfixturevalue("busy")
    assert [condition(b"%d" % turns).fault for _ in range(5)] == [None] * 5


@pytest.mark.usefixtures("busy")
def test_a_loop_ends_also_then_and_the_next_dweet_has_all_its_time() -> None:
    condition = Condition("while (dweet) {}; return true")
    for _ in range(3):
        assert condition(b"true").fault == "InternalError: interrupted"
        assert condition(b"false").met
