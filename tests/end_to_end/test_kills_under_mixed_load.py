"""A gateway with a folder that is killed again and again under posts, locks and reward moments at once."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.stores.opened_stores import with_store
from tests.gateway_process import GatewayProcess, Killer
from tests.reward_caller import settings
from tests.soak.callers import LOCKS, RULES, WORKERS, Locker, Player, Poster, Worker, check_kept


@pytest.mark.parametrize("kills", [2, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(3_000)])])
def test_kills_under_posts_locks_and_moments_lose_nothing(tmp_path: Path, kills: int) -> None:
    chance = random.Random(kills)
    posters, lockers, players = ([kind(n) for n in range(WORKERS)] for kind in (Poster, Locker, Player))
    workers: list[Worker] = [*posters, *lockers, *players]
    options: dict[str, Any] = {"locks": LOCKS, "keep": 1_000_000, "config": {"rewards": settings(RULES)}}
    for _ in range(kills):
        with GatewayProcess(tmp_path, **options) as gateway:
            killer = Killer(gateway.kill, chance.randrange(200, 1_000))
            threads = [threading.Thread(target=one.work, args=(gateway.port, killer.answered)) for one in workers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            assert killer.is_done.is_set(), "it was killed under load"
        assert [one.failure for one in workers if one.failure] == []
        with_store(tmp_path, lambda store: check_kept(store, posters, lockers, players))
    counts = [sum(len(one.acknowledged) for one in posters), sum(len(one.answered) for one in players)]
    print(f"\n{counts[0]} posts and {counts[1]} moments acknowledged")
