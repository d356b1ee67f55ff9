"""Who has the next turn in the process of the conditions, and what a budget of CPU time stops."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from tests.conftest import operator_of
from tests.dweets.conftest import Caller
from toolkit.dweets.conditions import Verdict
from toolkit.dweets.service.condition_turns import Conditions, Owner
from toolkit.gateway import Gateway
from toolkit.outside_world import Timings

LOOPS = "while (true) {} return "


async def evaluate(conditions: Conditions, owner: Owner, source: str, contents: list[bytes]) -> list[Verdict]:
    async with conditions.turn(owner):
        return await conditions.evaluate(owner, source, contents)


def with_conditions(work: Callable[[Conditions], Awaitable[None]], budget: float = 6.0) -> None:
    async def run() -> None:
        conditions = Conditions(budget)
        try:
            await work(conditions)
        finally:
            conditions.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "hostile",
    [
        [Owner(f"lock-{number}", ("a@b.example",)) for number in range(40)],
        [Owner("lock", (f"a{number}@b.example",)) for number in range(40)],
    ],
    ids=["40 locks that mail the same people", "one lock that mails others each time"],
)
def test_forty_conditions_of_one_owner_have_one_turn(hostile: list[Owner]) -> None:
    async def work(conditions: Conditions) -> None:
        finished: list[str] = []

        async def loop(owner: Owner) -> None:
            await evaluate(conditions, owner, f"{LOOPS}{hostile.index(owner)}", [b"1"] * 4)
            finished.append("hostile")

        await loop(hostile[0])
        loops = [asyncio.ensure_future(loop(owner)) for owner in hostile[1:]]
        await asyncio.sleep(0)
        assert await evaluate(conditions, Owner("other", ("c@d.example",)), "String(dweet)", [b"1"]) == [
            Verdict("1", returned=True)
        ]
        assert len(finished) <= 3
        for task in loops:
            task.cancel()
        await asyncio.gather(*loops, return_exceptions=True)

    with_conditions(work)


def test_slow_conditions_do_not_delay_a_fast_one() -> None:
    async def work(conditions: Conditions) -> None:
        async def loop(number: int) -> None:
            owner = Owner(f"slow-{number}", (f"{number}@b.example",))
            rest = [str(each).encode() for each in range(40)]
            while rest:
                source = f"if (dweet % 10) while (true) {{}} return false // {number}"
                rest = rest[len(await evaluate(conditions, owner, source, rest)) :]

        loops = [asyncio.ensure_future(loop(number)) for number in range(4)]
        fast = Owner("fast", ("c@d.example",))
        for number in range(4):
            (verdict,) = await evaluate(conditions, fast, "String(dweet)", [b"%d" % number])
            assert verdict.message == str(number)
        assert not [task for task in loops if task.done()]
        for task in loops:
            task.cancel()
        await asyncio.gather(*loops, return_exceptions=True)

    with_conditions(work)


def test_conditions_that_wait_are_cancelled_at_the_end() -> None:
    async def work(conditions: Conditions) -> None:
        owners = [Owner(f"lock-{number}") for number in range(4)]
        waiting = [asyncio.ensure_future(evaluate(conditions, owner, f"{LOOPS}1", [b"1"])) for owner in owners]
        await asyncio.sleep(0)
        conditions.close()
        _, *results = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)

    with_conditions(work)


def test_a_budget_that_is_used_up_is_a_fault_for_its_lock() -> None:
    async def work(conditions: Conditions) -> None:
        people = ("a@b.example",)
        while (verdicts := await evaluate(conditions, Owner("lock", people), f"{LOOPS}1", [b"1"] * 5))[
            0
        ].fault == "InternalError: interrupted":
            pass
        over = Verdict(None, "it has used its 0.6 seconds of CPU time for this minute", is_skipped=True)
        assert verdicts == [over] * 5
        assert await evaluate(conditions, Owner("lock", ("c@d.example",)), "true", [b"1"]) == [over]
        for other in (Owner("other", people), Owner("other")):
            assert await evaluate(conditions, other, "true", [b"1"]) == [Verdict("true", returned=True)]

    with_conditions(work, budget=0.6)


def test_a_budget_that_is_used_up_does_not_stop_the_alert() -> None:
    with Gateway(timings=Timings(condition_budget=0.01, settle=60)) as gateway:
        call = Caller(gateway)
        _, key, _ = call.locked("oven")
        assert call.get(f"/alert/a@b.example/when/oven/dweet%20%3E%201?key={key}")["this"] == "succeeded"
        call("POST", f"/dweets/for/oven?key={key}", b"1\n" * 600)
        status = call.get(f"/get/alert/for/oven?key={key}")["with"]["status"]
        assert status["message"] == "the condition failed: it has used its 0.01 seconds of CPU time for this minute"


def test_the_status_says_that_the_budget_is_used_up() -> None:
    with Gateway(timings=Timings(condition_budget=0.01)) as gateway:
        call = Caller(gateway)
        _, key, _ = call.locked("oven")
        alert = f"/alert/a@b.example/when/oven/if%20(dweet)%20while%20(true)%20%7B%7D%20return%20'on'?key={key}"
        assert call.get(alert)["this"] == "succeeded"
        call("POST", f"/dweets/for/oven?key={key}", b"1\n" * 10)
        call.post("oven", 0, f"?key={key}")
        assert operator_of(gateway).outbox()["subject"].tolist() == []
        for _ in range(2):  # setting it again gives no other budget
            status = call.get(f"/get/alert/for/oven?key={key}")["with"]["status"]
            assert "seconds of CPU time for this minute" in status["message"]
            assert call.get(alert)["this"] == "succeeded"
            call.post("oven", 0, f"?key={key}")
            assert operator_of(gateway).outbox().empty


def test_dweets_too_many_for_the_memory_are_all_evaluated() -> None:
    contents = [{"n": number, "text": "x" * 20_000} for number in range(150)]
    with Gateway(timings=Timings(settle=60.0)) as gateway:
        call = Caller(gateway)
        _, key, _ = call.locked("oven")
        alert = f"/alert/a@b.example/when/oven/String(dweet.n)?key={key}"
        assert call.get(alert)["this"] == "succeeded"
        for start in range(0, 150, 50):
            lines = b"\n".join(json.dumps(content).encode() for content in contents[start : start + 50])
            assert b"succeeded" in call("POST", f"/dweets/for/oven?key={key}", lines).body
        status = call.get(f"/get/alert/for/oven?key={key}")["with"]["status"]
        assert (status["message"], status["alerts_sent_today"]) == ("149", 100)
        assert set(operator_of(gateway).outbox()["subject"]) == {f"Alert of oven: {number}" for number in range(100)}
