"""Random calls lock, unlock, post and set alerts at two gateways on one store; a model predicts each answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tests.conftest import Caller
from tests.mail_server import eventually
from tests.redis_servers import fresh_url
from toolkit_gateway import Gateway
from toolkit_gateway.runtime import Timings

NEEDED = (403, "this thing is locked and requires a key")
REFUSED = (403, "the key you provided doesn't work with this thing")
WRONG = (403, "this lock doesn't exist or the key doesn't fit")
NOT_LOCKED, LOCKED = (409, "this thing is not locked"), (409, "this thing is already locked")
IN_USE, NOT_IN_USE = (409, "this lock is already in use"), (404, "this lock is not in use")
ALERT_NEEDS_LOCK = (409, "a thing must be locked before an alert can be set")
NOT_FOUND = (404, "we couldn't find this")

NUMBERS = itertools.count()
THINGS, LOCKS, GATEWAYS = st.integers(0, 1), st.integers(0, 2), st.integers(0, 1)
#: A key of lock 0, 1 or 2, a wrong key, or none.
KEYS = st.tuples(st.sampled_from(["master", "read"]), LOCKS) | st.sampled_from([("wrong", 0), ("none", 0)])
Key = tuple[str, int]


@pytest.fixture(scope="module")
def callers() -> Iterator[list[Caller]]:
    url, timings = fresh_url(), Timings(key_interval=1e-6)  # all examples share the limits of one caller
    with Gateway(store=url, timings=timings) as first, Gateway(store=url, timings=timings) as second:
        yield [Caller(first), Caller(second)]


class AnyOrder(RuleBasedStateMachine):
    """Two things and three locks of their own, on two gateways that all examples share."""

    def __init__(self, callers: list[Caller]) -> None:
        super().__init__()
        self.callers = callers
        self.lock_of: dict[int, int] = {}
        self.alerts: dict[int, str] = {}
        self.newest: dict[int, int] = {}

    @initialize()
    def begin(self) -> None:
        example = next(NUMBERS)
        self.things = [f"thing-{example}-{number}" for number in range(2)]
        self.locks = [self.callers[0].lock() for _ in range(3)]

    def key(self, key: Key) -> str:
        kind, lock = key
        _, master, read = self.locks[lock]
        return {"master": f"key={master}", "read": f"key={read}", "wrong": "key=wrong", "none": ""}[kind]

    def ask(self, gateway: int, target: str) -> Any:
        answer = self.callers[gateway].get(target)
        return answer["with"] if answer["this"] == "succeeded" else (answer["with"], answer["because"])

    def refusal(self, thing: int, key: Key, *kinds: str) -> tuple[int, str] | None:
        """Return why this key may not do to the thing what keys of these kinds may."""
        if thing not in self.lock_of:
            return None
        if key[0] == "none":
            return NEEDED
        return None if key in [(kind, self.lock_of[thing]) for kind in kinds] else REFUSED

    def unlocked(self, thing: int) -> None:
        del self.lock_of[thing]
        self.alerts.pop(thing, None)

    @rule(thing=THINGS, lock=LOCKS, key=KEYS, gateway=GATEWAYS)
    def lock(self, thing: int, lock: int, key: Key, gateway: int) -> None:
        found = self.ask(gateway, f"/lock/{self.things[thing]}?lock={self.locks[lock][0]}&{self.key(key)}")
        if key != ("master", lock):
            assert found == WRONG
        elif thing in self.lock_of:
            assert found == LOCKED
        elif lock in self.lock_of.values():
            assert found == IN_USE
        else:
            assert found == self.locks[lock][0]
            self.lock_of[thing] = lock

    @rule(thing=THINGS, key=KEYS, gateway=GATEWAYS)
    def unlock(self, thing: int, key: Key, gateway: int) -> None:
        found = self.ask(gateway, f"/unlock/{self.things[thing]}?{self.key(key)}")
        if thing not in self.lock_of:
            assert found == NOT_LOCKED
        else:
            refusal = self.refusal(thing, key, "master")
            assert found == (refusal or self.things[thing])
            if refusal is None:
                self.unlocked(thing)

    @rule(lock=LOCKS, key=KEYS, gateway=GATEWAYS)
    def remove_lock(self, lock: int, key: Key, gateway: int) -> None:
        found = self.ask(gateway, f"/remove/lock/{self.locks[lock][0]}?{self.key(key)}")
        used_by = [thing for thing, used in self.lock_of.items() if used == lock]
        if key != ("master", lock):
            assert found == WRONG
        elif not used_by:
            assert found == NOT_IN_USE
        else:
            assert found == self.locks[lock][0]
            self.unlocked(used_by[0])

    @rule(thing=THINGS, key=KEYS, gateway=GATEWAYS)
    def post(self, thing: int, key: Key, gateway: int) -> None:
        number = next(NUMBERS)
        found = self.ask(gateway, f"/dweet/for/{self.things[thing]}?number={number}&{self.key(key)}")
        refusal = self.refusal(thing, key, "master")
        if refusal is None:
            assert found["content"] == {"number": number}
            self.newest[thing] = number
        else:
            assert found == refusal

    @rule(thing=THINGS, key=KEYS, gateway=GATEWAYS)
    def read(self, thing: int, key: Key, gateway: int) -> None:
        target = f"/get/latest/dweet/for/{self.things[thing]}?{self.key(key)}"
        expected = self.refusal(thing, key, "master", "read")
        if expected is None and thing not in self.newest:
            expected = NOT_FOUND
        if expected is not None:
            assert self.ask(gateway, target) == expected
            return

        def is_newest() -> bool:
            found = self.ask(gateway, target)
            return isinstance(found, list) and found[0]["content"] == {"number": self.newest[thing]}

        eventually(is_newest)  # another gateway hears of a dweet, also of the first one, a moment later

    @rule(thing=THINGS, key=KEYS, gateway=GATEWAYS, limit=st.integers(0, 3))
    def set_alert(self, thing: int, key: Key, gateway: int, limit: int) -> None:
        condition = f"dweet.number < {limit}"
        found = self.ask(
            gateway, f"/alert/a@b.example/when/{self.things[thing]}/{condition}?{self.key(key)}".replace(" ", "%20")
        )
        expected = ALERT_NEEDS_LOCK if thing not in self.lock_of else self.refusal(thing, key, "master")
        if expected is None:
            assert found["condition"] == condition
            self.alerts[thing] = condition
        else:
            assert found == expected

    @rule(thing=THINGS, key=KEYS, gateway=GATEWAYS, operation=st.sampled_from(["get", "remove"]))
    def use_alert(self, thing: int, key: Key, gateway: int, operation: str) -> None:
        found = self.ask(gateway, f"/{operation}/alert/for/{self.things[thing]}?{self.key(key)}")
        expected = ALERT_NEEDS_LOCK if thing not in self.lock_of else self.refusal(thing, key, "master")
        if expected is None and thing not in self.alerts:
            expected = NOT_FOUND
        if expected is not None:
            assert found == expected
        elif operation == "get":
            assert found["condition"] == self.alerts[thing]
        else:
            del self.alerts[thing]

    @invariant()
    def every_gateway_agrees_on_what_is_locked(self) -> None:
        def is_agreed(gateway: int, thing: int) -> bool:
            found = self.ask(gateway, f"/get/latest/dweet/for/{self.things[thing]}?")
            return bool(found == NEEDED) == (thing in self.lock_of)

        for gateway, thing in itertools.product((0, 1), repeat=2):
            eventually(partial(is_agreed, gateway, thing))


@pytest.mark.parametrize("examples", [25, pytest.param(300, marks=pytest.mark.long)])
def test_random_calls_follow_the_rules_of_locks(callers: list[Caller], examples: int) -> None:
    slow_ones = [HealthCheck.too_slow, HealthCheck.data_too_large]
    depth = settings(max_examples=examples, stateful_step_count=20, deadline=None, suppress_health_check=slow_ones)
    run_state_machine_as_test(lambda: AnyOrder(callers), settings=depth)  # type: ignore[no-untyped-call]
