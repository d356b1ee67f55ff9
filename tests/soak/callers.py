"""Callers of all services, each in a loop that ends with its gateway, and the check of what is stored afterwards."""

from __future__ import annotations

import http.client
import itertools
import json
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime

from tests.gateway.rewards.ledgers import UNLIMITED, check_ledger
from tests.identity_lab import Wire
from tests.reward_caller import COMMON, TARGET
from toolkit_gateway.dweets.stored_records import SPACE, thing_key
from toolkit_gateway.dweets.thing_cache import journal_of
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
        #: Whether the connection ended before the work did: the gateway was killed.
        self.is_cut_off = False
        self.pause = 0.0
        self.is_over = threading.Event()

    def requests(self) -> Iterator[tuple[str, str, object]]:
        raise NotImplementedError

    def note(self, response: http.client.HTTPResponse, body: bytes) -> None:
        """Remember what was acknowledged."""
        raise NotImplementedError

    def work(self, port: int, answered: Callable[[], None]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.connect()
            connection.auto_open = 0  # a connection that is closed is not opened again
            for method, target, content in self.requests():
                if self.is_over.wait(self.pause):
                    return
                body = None if content is None else json.dumps(content)
                connection.request(method, target, body, {"Content-Type": "application/json"})
                response = connection.getresponse()
                self.note(response, response.read())
                answered()
        except (OSError, http.client.HTTPException):
            self.is_cut_off = True
        except Exception as error:
            self.failure = error
        finally:
            connection.close()


class Poster(Worker):
    """Posts its number and the numbers from 1 on, to one thing."""

    def __init__(self, number: int, count: int = 1_000_000_000) -> None:
        super().__init__(number)
        self.count, self.sent, self.acknowledged = count, 0, list[int]()

    def requests(self) -> Iterator[tuple[str, str, object]]:
        while self.sent < self.count:
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


class Visitor(Worker):
    """Makes requests in turn, whose answers are all right."""

    def __init__(self, targets: Iterable[str]) -> None:
        super().__init__(0)
        self._targets = itertools.cycle(targets)

    def requests(self) -> Iterator[tuple[str, str, object]]:
        return (("GET", target, None) for target in self._targets)

    def note(self, response: http.client.HTTPResponse, body: bytes) -> None:
        assert response.status == 200, body


class Phone(Worker):
    """Walks the identity flow to the list of payments."""

    def work(self, port: int, answered: Callable[[], None]) -> None:
        wire = Wire(f"http://127.0.0.1:{port}")
        try:
            while not self.is_over.wait(self.pause):
                wire.unlocked()
        except (OSError, http.client.HTTPException):
            return  # killed
        except Exception as error:
            self.failure = error


async def check_kept(store: EmbeddedStore, posters: list[Poster], lockers: list[Locker], players: list[Player]) -> None:
    await check_ledger(store, [name for player in players for name in player.answered], STOCK)
    entries = await store.journals.after(journal_of("all"), 0)
    first = entries[0].sequence
    assert [entry.sequence for entry in entries] == list(range(first, first + len(entries)))
    kept = [json.loads(entry.data)["content"] for entry in entries]
    for poster in posters:
        numbers = [number for who, number in kept if who == poster.number]
        assert numbers == sorted(set(numbers)), "in the order of the caller, none twice"
        acknowledged = {number for number in poster.acknowledged if first == 1 or number >= numbers[0]}
        assert acknowledged <= set(numbers), "nothing acknowledged is lost"
        assert set(numbers) <= set(range(1, poster.sent + 1))
    for locker in lockers:
        locker.target = await store.records.get(SPACE, thing_key(locker.thing)) is not None
        assert locker.target in locker.possible, "a thing is as it was acknowledged"
        locker.possible = {locker.target}
