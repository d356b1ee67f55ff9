"""The order in which waiting conditions are evaluated."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

from tests.conftest import Caller, operator_of
from toolkit.dweets.conditions import Verdict
from toolkit_gateway import Gateway
from toolkit_gateway.dweets.condition_turns import Conditions
from toolkit_gateway.runtime import Timings


async def evaluate(conditions: Conditions, recipients: list[str], source: str, contents: list[bytes]) -> list[Verdict]:
    async with conditions.turn(recipients):
        return await conditions.evaluate(source, contents)


@pytest.fixture
def conditions() -> Iterator[Conditions]:
    conditions = Conditions((0.02, 0.02))
    yield conditions
    conditions.close()


async def test_looping_alerts_delay_others_by_one_turn_per_owner(conditions: Conditions) -> None:
    """However many alerts mail the same recipients, they have one turn of many."""
    owners = 3
    finished: list[int] = []

    async def loop(number: int) -> None:
        owner = [f"{number % owners}@b.example"]
        await evaluate(conditions, owner, f"while (true) {{}} return {number}", [b"1"] * 2)
        finished.append(number)

    loops = [asyncio.ensure_future(loop(number)) for number in range(40)]
    await asyncio.sleep(0)
    for _ in range(2):
        before = len(finished)
        await evaluate(conditions, ["other@b.example"], "String(dweet)", [b"1"])
        assert len(finished) - before <= owners + 1  # and the one that had begun
    for task in loops:
        task.cancel()
    await asyncio.gather(*loops, return_exceptions=True)


async def test_queued_conditions_are_cancelled_at_close(conditions: Conditions) -> None:
    owners = [[f"{number}@b.example"] for number in range(4)]
    waiting = [asyncio.ensure_future(evaluate(conditions, owner, "while (1) {}", [b"1"])) for owner in owners]
    await asyncio.sleep(0)
    conditions.close()
    _, *results = await asyncio.gather(*waiting, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)


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
