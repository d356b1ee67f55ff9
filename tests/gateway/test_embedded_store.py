"""The embedded store's own promises: one opener, a full disk, and that one bad call costs no other."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from toolkit.gateway.stores import Draft, StoreUnavailable
from toolkit.gateway.stores.embedded import EmbeddedStore


def with_store(folder: Path | None, work: Callable[[EmbeddedStore], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        store = EmbeddedStore(folder, lambda: 0)
        await store.open()
        try:
            return await asyncio.wait_for(work(store), 60)
        finally:
            await store.close()

    return asyncio.run(run())


def test_a_second_opener_of_the_folder_is_told(tmp_path: Path) -> None:
    async def work(_: EmbeddedStore) -> None:
        second = EmbeddedStore(tmp_path, lambda: 0)
        with pytest.raises(StoreUnavailable, match=r"another gateway has the folder .* open"):
            await second.open()

    with_store(tmp_path, work)
    with_store(tmp_path, lambda store: store.records.get("s", "k"))


def test_a_folder_that_is_a_file_or_holds_something_else_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(StoreUnavailable, match="cannot be used"):
        with_store(file, lambda store: store.records.get("s", "k"))
    (tmp_path / "gateway.sqlite").write_bytes(b"not a database, but long enough to look at" * 100)
    with pytest.raises(StoreUnavailable, match="not a database"):
        with_store(tmp_path, lambda store: store.records.get("s", "k"))


def test_it_is_as_durable_as_it_says(tmp_path: Path) -> None:
    async def work(store: EmbeddedStore) -> list[Any]:
        def settings(connection: sqlite3.Connection) -> list[Any]:
            names = ("journal_mode", "synchronous", "locking_mode")
            return [connection.execute(f"PRAGMA main.{name}").fetchone()[0] for name in names]

        return await store._commits.run(settings)

    assert with_store(tmp_path, work) == ["wal", 2, "exclusive"]


def test_fleeting_records_never_reach_the_folder(tmp_path: Path) -> None:
    async def work(store: EmbeddedStore) -> None:
        await store.fleeting.put("s", "k", b"a-code-that-is-never-written-down")
        await store.records.put("s", "k", b"a-record-that-is")

    with_store(tmp_path, work)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"a-record-that-is" in written
    assert b"a-code-that-is-never" not in written


def test_a_full_disk_answers_every_caller_and_all_goes_on_once_there_is_room(tmp_path: Path) -> None:
    async def work(store: EmbeddedStore) -> None:
        def room(pages: int) -> Any:
            return store._commits.run(lambda connection: connection.execute(f"PRAGMA main.max_page_count = {pages}"))

        await store.journals.append("a", [Draft(0, "first", b"x")])
        await room(1)  # SQLite takes the pages in use instead: nothing more fits
        appends = [store.journals.append("a", [Draft(0, f"{n}", bytes(5000))]) for n in range(50)]
        puts = [store.records.put("s", f"{n}", bytes(5000)) for n in range(50)]
        outcomes = await asyncio.gather(*appends, *puts, return_exceptions=True)
        failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        assert len(failed) == 100
        assert {type(error) for error in failed} == {StoreUnavailable}
        assert [entry.id for entry in await store.journals.last("a", 10)] == ["first"], "reading goes on"
        await room(1_000_000)
        (entry,) = await store.journals.append("a", [Draft(0, "second", b"y")])
        assert entry.sequence == 2, "no number was used up by what was never written"
        assert await store.records.get("s", "7") is None

    with_store(tmp_path, work)


@pytest.mark.parametrize("on_disk", [True, False])
def test_one_piece_of_work_that_fails_costs_no_other_its_result(tmp_path: Path, on_disk: bool) -> None:
    async def work(store: EmbeddedStore) -> None:
        heard: list[int] = []
        store.journals.follow("a", lambda entries: heard.extend(entry.sequence for entry in entries))
        before = store.records.put("s", "before", b"1")
        bad = store.records.put("s", "half a surrogate \ud800", b"1")
        append = store.journals.append("a", [Draft(0, "x", b"x")])
        count = store.records.count("s", "n")
        worse = store.records.get("s", "\udcff")
        after = store.records.swap("s", {"before": b"1"}, {"after": b"1"})
        outcomes = await asyncio.gather(before, bad, append, count, worse, after, return_exceptions=True)
        assert [type(outcome).__name__ for outcome in outcomes] == [
            "NoneType", "UnicodeEncodeError", "list", "int", "UnicodeEncodeError", "bool",
        ]  # fmt: skip
        assert outcomes[2][0].sequence == 1
        assert (outcomes[3], outcomes[5], heard) == (1, True, [1])
        assert await store.records.scan("s") == {"before": b"1", "after": b"1", "n": b"1"}

    with_store(tmp_path if on_disk else None, work)


def test_appends_from_a_failed_turn_and_the_next_are_all_answered() -> None:
    async def work(store: EmbeddedStore) -> None:
        futures = []
        for number in range(2_000):
            name = "bad \ud800" if number % 100 == 50 else f"thing {number % 7}"
            futures.append(store.journals.append(name, [Draft(0, str(number), b"x")]))
            if number % 10 == 0:
                await asyncio.sleep(0)
        outcomes = await asyncio.gather(*futures, return_exceptions=True)
        written = {entry.id for outcome in outcomes if isinstance(outcome, list) for entry in outcome}
        kept = {e.id for n in range(7) for e in await store.journals.last(f"thing {n}", 2_000)}
        assert written == kept, "what was acknowledged is there, and nothing else"
        assert all(isinstance(outcome, list | UnicodeEncodeError) for outcome in outcomes)

    with_store(None, work)


def test_after_the_close_everybody_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        store = EmbeddedStore(tmp_path, lambda: 0)
        await store.open()
        await store.close()
        with pytest.raises(StoreUnavailable, match="stopping"):
            await store.journals.append("a", [Draft(0, "x", b"x")])
        with pytest.raises(StoreUnavailable, match="stopping"):
            await store.records.get("s", "k")

    asyncio.run(run())
