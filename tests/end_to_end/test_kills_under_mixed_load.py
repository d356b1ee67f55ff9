"""A gateway with a folder that is killed again and again under posts, locks and reward moments at once."""

from __future__ import annotations

import http.client
import json
import random
import threading
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.rewards.ledgers import UNLIMITED, check_ledger
from tests.gateway.stores.opened_stores import with_store
from tests.gateway_process import GatewayProcess, Killer
from tests.reward_caller import COMMON, TARGET, settings
from toolkit_gateway.dweets.storage import SPACE, thing_key
from toolkit_gateway.dweets.things import journal_of
from toolkit_gateway.stores.embedded import EmbeddedStore

WORKERS = 4  # of each kind
STOCK = 100  # it ends in the first life or in the second
RULES = {"default": {**UNLIMITED, "p": 0.5}, "rewards": [{"id": "drink", "title": "A drink", "stock": STOCK}]}
LOCKS = {f"lock-{number}": f"master-key-of-lock-{number}" for number in range(WORKERS)}


class Worker:
    """One caller: it makes one request after the other until its gateway is gone."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.failure: Exception | None = None

    def requests(self) -> Iterator[tuple[str, str, object]]:
        raise NotImplementedError

    def note(self, response: http.client.HTTPResponse, body: bytes) -> None:
        """Remember what was acknowledged."""
        raise NotImplementedError

    def work(self, port: int, answered: Callable[[], None]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            for method, target, content in self.requests():
                body = None if content is None else json.dumps(content)
                connection.request(method, target, body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                self.note(response, response.read())
                answered()
        except (OSError, http.client.HTTPException):
            return  # killed
        except Exception as error:
            self.failure = error
        finally:
            connection.close()


class Poster(Worker):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.sent, self.acknowledged = 0, list[int]()

    def requests(self) -> Iterator[tuple[str, str, object]]:
        while True:
            self.sent += 1
            yield "POST", "/dweet/for/all", [self.number, self.sent]

    def note(self, response: http.client.HTTPResponse, body: bytes) -> None:
        assert json.loads(body)["this"] == "succeeded", body
        self.acknowledged.append(self.sent)


class Locker(Worker):
    """Locks and unlocks its thing; `possible` is what may be stored: the last answer, and the call without one."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.thing, self.possible, self.target = f"thing-{number}", {False}, False

    def requests(self) -> Iterator[tuple[str, str, object]]:
        lock, key = f"lock-{self.number}", LOCKS[f"lock-{self.number}"]
        while True:
            self.target = not self.target
            self.possible.add(self.target)
            call = f"/lock/{self.thing}?lock={lock}&key={key}" if self.target else f"/unlock/{self.thing}?key={key}"
            yield "GET", call, None

    def note(self, response: http.client.HTTPResponse, body: bytes) -> None:
        assert json.loads(body)["this"] == "succeeded", body
        self.possible = {self.target}


class Player(Worker):
    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.answered: list[str] = []

    def requests(self) -> Iterator[tuple[str, str, object]]:
        device = {**COMMON, "device_id": str(uuid.uuid4())}
        event = {"id": "session_start", "start": datetime.now(UTC).isoformat()}
        yield "POST", TARGET, {**device, "events": [event]}
        while True:
            yield "POST", TARGET, {**device, "moment_id": "m"}

    def note(self, response: http.client.HTTPResponse, body: bytes) -> None:
        assert response.status == 200, body
        if decision := response.headers["x-reward-decision"]:
            self.answered.append(decision.partition(";")[0])


async def check_kept(store: EmbeddedStore, posters: list[Poster], lockers: list[Locker], players: list[Player]) -> None:
    await check_ledger(store, [name for player in players for name in player.answered], STOCK)
    entries = await store.journals.after(journal_of("all"), 0)
    assert [entry.sequence for entry in entries] == list(range(1, len(entries) + 1))
    kept = [json.loads(entry.data)["content"] for entry in entries]
    for poster in posters:
        numbers = [number for who, number in kept if who == poster.number]
        assert numbers == sorted(set(numbers)), "in the order of the caller, none twice"
        assert set(poster.acknowledged) <= set(numbers), "nothing acknowledged is lost"
        assert set(numbers) <= set(range(1, poster.sent + 1))
    for locker in lockers:
        locker.target = await store.records.get(SPACE, thing_key(locker.thing)) is not None
        assert locker.target in locker.possible, "a thing is as it was acknowledged"
        locker.possible = {locker.target}


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
