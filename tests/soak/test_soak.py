"""All four services under load for minutes, through kills: nothing acknowledged is lost, and nothing grows."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import quote

import psutil
import pytest

from tests.gateway.stores.opened_stores import with_store
from tests.gateway_process import GatewayProcess
from tests.identity_lab import CARRIERS, CLIENTS, PEOPLE
from tests.reward_caller import settings
from tests.soak.callers import LOCKS, RULES, WORKERS, Locker, Phone, Player, Poster, Visitor, Worker, check_kept

READS = [
    "/get/latest/dweet/for/all",
    "/get/dweets/for/all",
    "/get/stored/dweets/for/all?date=2026-01-01",
    "/get/stats",
]
TEXTS = [
    f"/render/{kind}?apikey=k&handwriting_id=2D5QW0F80001&text={quote(f'Dear number {number}, the engine works.')}"
    for number in range(40)
    for kind in ("png", "pdf", "svg", "replay")
]
PAUSE = 0.02  # between two requests of a caller


class Held(NamedTuple):
    """What a gateway holds, its children's memory included."""

    megabytes: float
    threads: int
    descriptors: int


def held(process: psutil.Process) -> Held:
    total = process.memory_info().rss
    for child in process.children(recursive=True):
        try:
            total += child.memory_info().rss
        except psutil.NoSuchProcess:  # ended just now
            continue
    try:
        # The files of the store grow in number with what is kept.
        descriptors = process.num_fds() - len(process.open_files())
    except psutil.AccessDenied:  # a gateway shows them to the superuser only
        descriptors = 0
    return Held(total / 2**20, process.num_threads(), descriptors)


class Life(NamedTuple):
    """What one process held in the middle of its life, and at its end."""

    middle: Held
    late: Held


def watch(process: psutil.Process, seconds: float) -> Life:
    """Look at a gateway for so many seconds, and return the medians of the fourth fifth of them and of the last."""
    samples: list[Held] = []
    began = time.monotonic()
    while (spent := time.monotonic() - began) < seconds:
        samples.append(held(process))
        time.sleep(min(0.5, max(0.0, seconds - spent)))
    fifth = len(samples) // 5
    parts = samples[-2 * fifth : -fifth], samples[-fifth:]
    return Life(*(Held(*(median(each) for each in zip(*part, strict=True))) for part in parts))


@pytest.mark.long
@pytest.mark.timeout(0)
def test_nothing_is_lost_and_nothing_grows(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    minutes = float(request.config.getoption("--soak-minutes"))
    lives, observed = max(4, round(minutes)), list[Life]()
    posters, lockers, players = ([kind(n) for n in range(WORKERS)] for kind in (Poster, Locker, Player))
    workers: list[Worker] = [*posters, *lockers, *players, Visitor(READS), Visitor(TEXTS), Phone(0)]
    for worker in workers:
        worker.pause = PAUSE
    limits = {"calls_a_minute": 100_000, "failures_a_minute": 100_000}
    identity = {"clients": CLIENTS, "carriers": CARRIERS, "subscribers": PEOPLE, **limits}
    config = {"rewards": settings(RULES, calls_a_minute=100_000), "identity": identity}
    options: dict[str, Any] = {"locks": LOCKS, "keep": 1_000, "config": config}
    for number in range(lives):
        with GatewayProcess(tmp_path, **options) as gateway:
            threads = [threading.Thread(target=one.work, args=(gateway.port, lambda: None)) for one in workers]
            for thread in threads:
                thread.start()
            observed.append(watch(psutil.Process(gateway.pid), minutes * 60 / lives))
            with capsys.disabled():
                print(f"\nlife {number + 1}: {observed[-1]}", end="", flush=True)
            assert all(thread.is_alive() for thread in threads), [one.failure for one in workers]
            if number < lives - 1:
                gateway.kill()
            for worker in workers if number == lives - 1 else []:
                worker.is_over.set()
            for thread in threads:
                thread.join(60)
            assert number < lives - 1 or gateway.stop() == 0
        assert [one.failure for one in workers if one.failure] == []
        with_store(tmp_path, lambda store: check_kept(store, posters, lockers, players))
    check_growth(observed)


def check_growth(lives: list[Life]) -> None:
    """The first life is the warm-up; from then on all are alike, and each stays as it is."""
    first, *others = [life.late for life in lives[1:]]
    assert [life for life in lives[1:] if life.late.megabytes > life.middle.megabytes * 1.1] == []
    assert [late for late in others if late.megabytes > first.megabytes * 1.1] == []
    assert [late for late in others if late.threads > first.threads + 2] == []
    assert [late for late in others if late.descriptors > first.descriptors + 8] == []
