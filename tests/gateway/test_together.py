"""Posts that come in the same turn of the loop are answered together, and each as if it had come alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.gateway.test_known_heads import POST, Caller
from tests.redis_servers import RedisServer
from toolkit.dweets import wire
from toolkit.dweets.service import DweetService
from toolkit.gateway import Gateway
from toolkit.gateway.exchange import Call, Together
from toolkit.gateway.lane import _LaneCall

GOOD, BAD = b'{"celsius": 21.5}', b'{"celsius": 21.5,'


class Callers:
    """Callers, each with a connection, whose heads are known: what all of them post comes in one turn of the loop."""

    def __init__(self, gateway: Gateway, stack: ExitStack, things: list[bytes]) -> None:
        self._things = things
        self._callers = [stack.enter_context(Caller(gateway)) for _ in things]
        for caller, thing in zip(self._callers, things, strict=True):
            caller.ask(POST % (thing, len(GOOD), GOOD))

        def add(together: Together, call: Call) -> None:
            together._calls.append(call)
            if len(together._calls) == len(things):
                together._end_turn()

        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(Together, "add", add)  # a turn ends when all are there, however the machine spreads them

    def post(self, *bodies: bytes) -> list[Any]:
        """Post all in one turn; return what each is answered."""
        for caller, thing, body in zip(self._callers, self._things, bodies, strict=True):
            caller.send(POST % (thing, len(body), body))
        return [json.loads(caller.answers(1)[0]) for caller in self._callers]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def told(answers: list[Any]) -> list[Any]:
    return [answer["this"] if answer["this"] == "succeeded" else answer["with"] for answer in answers]


def test_one_bad_body_costs_no_other_its_answer(stack: ExitStack) -> None:
    callers = Callers(stack.enter_context(Gateway()), stack, [b"hall"] * 3)
    assert told(callers.post(GOOD, BAD, GOOD)) == ["succeeded", 400, "succeeded"]
    assert told(callers.post(GOOD, GOOD, GOOD)) == ["succeeded"] * 3


def test_a_mistake_at_one_thing_is_no_answer_about_another(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    callers = Callers(stack.enter_context(Gateway()), stack, [b"hall", b"attic", b"hall"])
    post_all = DweetService.post_all

    def mistaken(self: DweetService, thing: str, *given: Any) -> Any:
        return post_all(self, thing, *given) if thing == "hall" else 1 / 0

    monkeypatch.setattr(DweetService, "post_all", mistaken)
    assert told(callers.post(GOOD, GOOD, GOOD)) == ["succeeded", 500, "succeeded"]


def test_in_a_large_turn_each_gets_the_answer_to_what_it_posted(stack: ExitStack) -> None:
    held: list[_LaneCall] = []
    hold = _LaneCall.hold
    patch = stack.enter_context(pytest.MonkeyPatch.context())
    patch.setattr(_LaneCall, "hold", lambda call, reply: (held.append(call), hold(call, reply)))
    callers = Callers(stack.enter_context(Gateway()), stack, [b"hall", b"attic"] * 20)
    numbers = range(10**9, 10**9 + 40)
    bodies = [b'{"n": %d}' % number for number in numbers]
    assert {len(body) for body in bodies} == {len(GOOD)}, "their heads are known"
    held.clear()
    answers = callers.post(*bodies)
    assert [answer["with"]["content"]["n"] for answer in answers] == list(numbers)
    assert [answer["with"]["thing"] for answer in answers] == ["hall", "attic"] * 20
    assert len({answer["with"]["transaction"] for answer in answers}) == 40
    assert len(held) == len(set(held)) == 40, "each answer was made once"
    assert {call._answer for call in held} == {b""}, "a connection at rest holds no answer"


@pytest.mark.parametrize(("on_redis", "each"), [(False, 2), (False, 25), (True, 25)])
def test_a_mistake_at_preparing_answers_is_told_to_those_only(
    stack: ExitStack, monkeypatch: pytest.MonkeyPatch, on_redis: bool, each: int
) -> None:
    store = stack.enter_context(RedisServer()).url if on_redis else None
    callers = Callers(stack.enter_context(Gateway(store=store)), stack, [b"hall"] * each + [b"attic"] * each)
    posted = wire.posted
    monkeypatch.setattr(wire, "posted", lambda record, *given: 1 / 0 if b"attic" in record else posted(record, *given))
    assert told(callers.post(*[GOOD] * 2 * each)) == ["succeeded"] * each + [500] * each


def test_a_store_that_fails_for_a_whole_turn_is_told_to_each_once(stack: ExitStack) -> None:
    server = stack.enter_context(RedisServer())
    callers = Callers(stack.enter_context(Gateway(store=server.url)), stack, [b"hall", b"hall", b"attic"])
    server.kill()
    assert told(callers.post(GOOD, GOOD, GOOD)) == [503] * 3
    server.start()
    while told(callers.post(GOOD, GOOD, GOOD)) != ["succeeded"] * 3:
        pass  # one answer to each: `Caller` fails at a second
