"""`toolkit move`: everything of a folder is in Redis afterwards, also after interruptions."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

import toolkit
from tests.conftest import operator_of
from tests.gateway.stores.opened_stores import opened_store
from tests.redis_servers import RedisServer, fresh_cluster_url, fresh_url, shared_server
from toolkit.cli import main
from toolkit.errors import DataWarning, StoreUnavailable
from toolkit_gateway import Gateway
from toolkit_gateway.runtime import SystemClock
from toolkit_gateway.stores.moving import Moved, Progress, marker_file, move
from toolkit_gateway.stores.redis.store import RedisStore

THINGS = [f"thing-{number}" for number in range(8)]
SERVERS = pytest.mark.parametrize("fresh", [fresh_url, fresh_cluster_url], ids=["server", "cluster"])


def move_command(folder: Path, url: str) -> Result:
    return CliRunner().invoke(main, ["move", str(folder), url])


def fill(folder: Path, things: list[str] = THINGS, dweets: int = 30) -> tuple[dict[str, str], str]:
    """Fill the folder of a gateway; return the keys of its locked thing, and a device with a session."""
    with Gateway(folder, keep=500) as gateway, toolkit.connect(gateway) as tk:
        for number, thing in enumerate(things):
            tk.dweets.post_frame(thing, pd.DataFrame({"n": range(dweets + number), "text": "ä€🙂"}))
        lock = tk.operator.issue_lock()
        tk.dweets.lock("vault", lock=lock.lock, key=lock.master_key)
        tk.dweets.post("vault", {"gold": 1}, key=lock.master_key)
        with pytest.warns(DataWarning, match="no mail server"):
            tk.dweets.set_alert("vault", who="ada@example.com", condition="dweet.gold > 1", key=lock.master_key)
        device = tk.rewards.new_device_id("acme")
        tk.rewards.start_session(device)
        tk.rewards.moment(device, "level-complete")
    return {"master": lock.master_key.reveal(), "read": lock.read_key.reveal()}, device


def state(gateway: Gateway, keys: dict[str, str]) -> dict[str, pd.DataFrame]:
    tk, operator = toolkit.connect(gateway), operator_of(gateway)
    frames = {thing: tk.dweets.history(thing) for thing in THINGS}
    return {
        **frames,
        "vault": tk.dweets.history("vault", key=keys["read"]),
        "locks": operator.locks(),
        "decisions": operator.decisions(),
        "sessions": operator.reward_sessions(),
        "outbox": operator.outbox(),
    }


async def moved(folder: Path, url: str, progress: Progress = lambda stage, done, total: None) -> Moved:
    target = RedisStore(url, SystemClock().now)
    async with opened_store(folder, SystemClock().now) as source:
        await target.open(is_move_target=True)
        try:
            return await move(folder, source, target, progress)
        finally:
            await target.close()


@SERVERS
def test_moved_data_is_complete_and_usable(tmp_path: Path, fresh: Callable[[], str]) -> None:
    keys, device = fill(tmp_path)
    with Gateway(tmp_path, keep=500) as gateway:
        before = state(gateway, keys)
    url = fresh()
    result = move_command(tmp_path, url)
    assert result.exit_code == 0, result.output
    assert f"moved and compared: {sum(range(30, 38)) + 3} entries of 11 journals" in result.output
    with Gateway(store=url, keep=500) as gateway:
        for name, frame in state(gateway, keys).items():
            pd.testing.assert_frame_equal(frame, before[name])
        tk = toolkit.connect(gateway)
        tk.dweets.post("vault", {"gold": 2}, key=keys["master"])
        assert tk.dweets.history("vault", key=keys["read"])["gold"].tolist() == [1, 2]
        with pytest.raises(toolkit.errors.KeyRejected):
            tk.dweets.post("vault", {"gold": 3})
        assert list(tk.dweets.get_alert("vault", key=keys["master"])["condition"]) == ["dweet.gold > 1"]
        tk.rewards.start_session(device)
        assert len(operator_of(gateway).reward_sessions()) == len(before["sessions"]) + 1


class Interrupted(Exception):
    """Stands for Ctrl-C: the move ends at once, and what it wrote stays."""


def test_interrupted_move_resumes(tmp_path: Path) -> None:
    keys, _ = fill(tmp_path)
    url, seen = fresh_cluster_url(), set[tuple[str, int]]()

    def interrupt_each_place_once(stage: str, done: int, total: int) -> None:
        if (stage, done) not in seen and (done % 4 == 1 or stage == "records"):
            seen.add((stage, done))
            raise Interrupted

    interruptions = 0
    while True:
        try:
            result = asyncio.run(moved(tmp_path, url, interrupt_each_place_once))
        except Interrupted:
            interruptions += 1
            with pytest.raises(StoreUnavailable, match="unfinished move: run `toolkit move` again"):
                Gateway(store=url)
            with Gateway(tmp_path, keep=500) as gateway:  # somebody goes on with the folder instead
                toolkit.connect(gateway).dweets.post("thing-3", {"n": -interruptions})
        else:
            break
    assert {stage for stage, _ in seen} == {"copy", "records", "verify"}
    assert result.entries == sum(range(30, 38)) + 3 + interruptions
    assert not marker_file(tmp_path).exists()
    with Gateway(tmp_path, keep=500) as old, Gateway(store=url, keep=500) as new:
        before = state(old, keys)
        for name, frame in state(new, keys).items():
            pd.testing.assert_frame_equal(frame, before[name])


def interrupt(stage: str, done: int, total: int) -> None:
    raise Interrupted


def test_a_target_in_use_is_refused(tmp_path: Path) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    fill(mine, ["kitchen"])
    fill(other, ["other"])
    with_data, with_move = fresh_url(), fresh_url()
    with Gateway(store=with_data) as gateway:
        toolkit.connect(gateway).dweets.post("somebody-else", 1)
    with pytest.raises(Interrupted):
        asyncio.run(moved(other, with_move, interrupt))
    refusals = {with_data: "is not empty: it has the key", with_move: "has an unfinished move of another folder"}
    for url, message in refusals.items():
        result = move_command(mine, url)
        assert (result.exit_code, message in result.output) == (1, True)
    with Gateway(mine) as gateway:
        assert len(toolkit.connect(gateway).dweets.history("kitchen")) == 30


def test_of_two_moves_to_one_redis_one_is_refused(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        fill(folder, [folder.name])
    url = fresh_url()

    async def both() -> list[Moved | BaseException]:
        return await asyncio.gather(*(moved(folder, url) for folder in folders), return_exceptions=True)

    refused, done = sorted(asyncio.run(both()), key=lambda outcome: isinstance(outcome, Moved))
    assert isinstance(done, Moved), done
    # It sees the mark of the other one when it looks for a mark, or later when it looks for any key.
    assert re.search("has an unfinished move of another folder|is not empty: it has the key .*:move'", str(refused))


def test_what_expires_during_a_move_is_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, ["kitchen"])
    now = SystemClock().now()

    async def put() -> None:
        async with opened_store(tmp_path, lambda: now) as store:
            for number in range(200):
                await store.records.put("views", f"{number}", b"page", now + 60_000 * (number + 1))

    asyncio.run(put())
    times = itertools.count(now, 1_000)
    monkeypatch.setattr(SystemClock, "now", lambda _: next(times))  # each look at the clock is a second later
    result = move_command(tmp_path, fresh_url())
    assert result.exit_code == 0, result.output


def test_a_folder_in_use_or_without_data_is_refused(tmp_path: Path) -> None:
    with Gateway(tmp_path):
        result = move_command(tmp_path, fresh_url())
    assert (result.exit_code, "is in use by" in result.output) == (1, True)
    result = move_command(tmp_path / "nothing", fresh_url())
    assert (result.exit_code, "has no data of a gateway" in result.output) == (2, True)
    assert not (tmp_path / "nothing").exists()


def test_a_wrong_password_is_refused_and_not_shown(tmp_path: Path) -> None:
    fill(tmp_path, ["kitchen"])
    with RedisServer(requirepass="the-right-one") as server:
        result = move_command(tmp_path, f"redis://:not-the-right-one@127.0.0.1:{server.port}")
    assert result.exit_code == 1
    assert "put its user and password into the URL" in result.output
    assert "right-one" not in result.output


def test_writes_by_others_during_a_move_are_detected(tmp_path: Path) -> None:
    fill(tmp_path, ["kitchen"])
    url = fresh_url()
    prefix = url.partition("prefix=")[2].partition("&")[0]

    def write(stage: str, done: int, total: int) -> None:
        if stage == "records":
            with shared_server().client() as client:
                (key,) = [key for key in client.scan_iter(match=f"{prefix}*kitchen")]
                client.xadd(key, {"e": b"foreign"}, id="0-*")

    with pytest.raises(StoreUnavailable, match="differs between .* remove the keys of its prefix|cannot be read"):
        asyncio.run(moved(tmp_path, url, write))
