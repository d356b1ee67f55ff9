"""The guarantees of every store, tested on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gateway.stores.stores_under_test import STORES, StoreBench, StoreKind
from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores import Entry, NewEntry, Records, Store


@pytest.fixture(params=STORES, ids=lambda kind: kind.name)
def on_store(request: pytest.FixtureRequest, tmp_path: Path) -> StoreBench:
    kind: StoreKind = request.param
    return StoreBench(kind, tmp_path)


def drafts(*texts: str, at: int = 5) -> list[NewEntry]:
    return [NewEntry(at, f"id-{text}", text.encode()) for text in texts]


def texts(entries: Sequence[Entry]) -> list[str]:
    return [entry.data.decode() for entry in entries]


async def test_entries_are_numbered_from_one_in_call_order(on_store: StoreBench) -> None:
    async with on_store.opened() as store:
        first = await store.journals.append("a", drafts("1", "2"))
        second = await store.journals.append("a", drafts("3"))
        assert [(e.sequence, e.at, e.id, e.data) for e in first + second] == [
            (1, 5, "id-1", b"1"),
            (2, 5, "id-2", b"2"),
            (3, 5, "id-3", b"3"),
        ]
        assert await store.journals.last("a", 10) == first + second


async def test_journals_are_independent(on_store: StoreBench) -> None:
    async with on_store.opened() as store:
        await store.journals.append("a", drafts("1"))
        await store.journals.append("ab", drafts("2"))
        assert texts(await store.journals.last("a", 10)) == ["1"]
        assert await store.journals.last("b", 10) == []
        assert await store.journals.after("b", 0) == []


async def test_empty_append_does_nothing(on_store: StoreBench) -> None:
    async with on_store.opened() as store:
        assert await store.journals.append("a", []) == []
        assert await store.journals.last("a", 10) == []


async def test_last_and_after_return_oldest_first(on_store: StoreBench) -> None:
    async with on_store.opened() as store:
        for number in range(10):
            await store.journals.append("a", drafts(str(number), at=100 + number))
        assert texts(await store.journals.last("a", 3)) == ["7", "8", "9"]
        assert texts(await store.journals.after("a", 7)) == ["7", "8", "9"]
        assert texts(await store.journals.after("a", 0, 2)) == ["0", "1"]
        assert texts(await store.journals.after("a", 10)) == []


async def test_last_below_a_number(on_store: StoreBench) -> None:
    async with on_store.opened() as store:
        await store.journals.append("a", drafts(*map(str, range(10))))
        await store.journals.append("b", drafts("other"))
        assert texts(await store.journals.last("a", 3, 8)) == ["4", "5", "6"]
        assert texts(await store.journals.last("a", 3, 2)) == ["0"]
        assert texts(await store.journals.last("a", 3, 1)) == []
        assert texts(await store.journals.last("a", 2, 1_000)) == ["8", "9"]
        assert texts(await store.journals.last("b", 3, 1)) == []


@pytest.mark.parametrize("count", [999, 1_000, 2_500])
async def test_long_journals_are_read_to_their_ends(on_store: StoreBench, count: int) -> None:
    async with on_store.opened() as store:
        await store.journals.append("a", [NewEntry(n, f"id-{n}", b"%d" % n) for n in range(count)])
        times: list[int] = []
        below = None
        while page := await store.journals.last("a", 500, below):
            times, below = [entry.at for entry in page] + times, page[0].sequence
        assert times == list(range(count))
        assert [entry.at for entry in await store.journals.after("a", 10)] == list(range(10, count))


async def test_names_most_recently_written_first(on_store: StoreBench) -> None:
    async with on_store.opened() as store:
        for at, name in enumerate(["t:a", "t:b", "other", "t:a", "t:ü", "t:"]):
            await store.journals.append(name, drafts("x", at=at * 10_000))
        assert await store.journals.names("t:", 10) == ["t:", "t:ü", "t:a", "t:b"]
        assert await store.journals.names("t:", 2) == ["t:", "t:ü"]
        assert await store.journals.names("nothing", 10) == []


@pytest.mark.parametrize("name", ["a/b", "ü€😀", "with space", "x" * 256, "'; DROP TABLE journal; --", "%00", "a:b"])
async def test_any_name_and_any_bytes(on_store: StoreBench, name: str) -> None:
    data = bytes(range(256))
    async with on_store.opened() as store:
        await store.journals.append(name, [NewEntry(1, name, data)])
        (entry,) = await store.journals.last(name, 1)
        assert entry.data == data
        await store.records.put(name, name, data)
        assert await store.records.get(name, name) == data


async def test_the_last_entries_asked_for_are_always_kept(on_store: StoreBench) -> None:
    async with on_store.opened() as store:
        for number in range(60):
            await store.journals.append("a", drafts(*(f"{number}.{i}" for i in range(10))), 100)
            kept = await store.journals.last("a", 100)
            assert len(kept) == min(100, (number + 1) * 10)
        everything = await store.journals.after("a", 0)
        assert len(everything) < 300, "older lines are dropped now and then"
        assert [e.sequence for e in everything] == list(range(everything[0].sequence, 601))


async def test_no_entry_above_the_floor_is_deleted(on_store: StoreBench) -> None:
    async with on_store.opened() as store:
        for number in range(60):
            await store.journals.append("a", drafts(*(f"{number}.{i}" for i in range(10))), 100, 40)
        first = (await store.journals.after("a", 0, 1))[0].sequence
        assert first <= 41, "however many there are"
        for number in range(60):
            await store.journals.append("a", drafts(*(f"{number}.{i}" for i in range(10))), 100, 590 + number)
        everything = await store.journals.after("a", 0)
        assert 300 < everything[0].sequence <= 650, "what is below goes now and then"
        assert [e.sequence for e in everything] == list(range(everything[0].sequence, 1_201))
        await store.journals.append("b", drafts(*map(str, range(1_000))), 64, 0)
        assert len(await store.journals.after("b", 0)) == 1_000


async def test_batch_larger_than_the_retention(on_store: StoreBench) -> None:
    async with on_store.opened() as store:
        await store.journals.append("a", drafts(*map(str, range(1000))), 64)
        assert texts(await store.journals.last("a", 64)) == [str(n) for n in range(936, 1000)]
        (next_one,) = await store.journals.append("a", drafts("x"), 64)
        assert next_one.sequence == 1001


async def test_subscribers_get_entries_once_in_order_until_stop(on_store: StoreBench) -> None:
    async with on_store.opened() as store:
        heard: list[Entry] = []
        await store.journals.append("a", drafts("before"))
        stop = store.journals.subscribe("a", heard.extend)
        await asyncio.gather(*(store.journals.append("a", drafts(f"{n}", f"{n}'")) for n in range(100)))
        await store.journals.append("b", drafts("elsewhere"))
        stop()
        stop()
        await store.journals.append("a", drafts("after"))
        assert [entry.sequence for entry in heard] == list(range(2, 202))
        assert texts(heard) == [text for n in range(100) for text in (f"{n}", f"{n}'")]


async def test_subscriber_is_called_before_append_returns(on_store: StoreBench) -> None:
    async with on_store.opened() as store:
        heard: list[Entry] = []
        store.journals.subscribe("a", heard.extend)
        for number in range(5):
            await store.journals.append("a", drafts(str(number)))
            assert len(heard) == number + 1


async def test_failing_subscriber_does_not_affect_others(on_store: StoreBench) -> None:
    async with on_store.opened() as store:
        heard: list[Entry] = []
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context["exception"]))

        def leave(_: Sequence[Entry]) -> None:
            stop()

        def fail(_: Sequence[Entry]) -> None:
            raise ValueError("this follower is broken")

        stop = store.journals.subscribe("a", leave)
        store.journals.subscribe("a", fail)
        store.journals.subscribe("a", heard.extend)
        await store.journals.append("a", drafts("1"))
        await store.journals.append("a", drafts("2"))
        assert texts(heard) == ["1", "2"]
        assert [str(error) for error in complaints] == ["this follower is broken"] * 2


@pytest.mark.parametrize("part", ["records", "ephemeral"])
class TestRecords:
    """Both kinds of records keep the same promises."""

    async def test_put_get_and_replace(self, on_store: StoreBench, part: str) -> None:
        async with on_store.opened() as store:
            records: Records = getattr(store, part)
            assert await records.get("s", "k") is None
            await records.put("s", "k", b"1")
            await records.put("s", "k", b"2")
            assert await records.get("s", "k") == b"2"
            assert await records.get("other", "k") is None

    async def test_durable_and_ephemeral_records_are_separate(self, on_store: StoreBench, part: str) -> None:
        async with on_store.opened() as store:
            await getattr(store, part).put("s", "k", b"1")
            other = store.records if part == "ephemeral" else store.ephemeral
            assert await other.get("s", "k") is None
            assert await other.scan("s") == {}

    async def test_expiry_follows_the_clock_of_the_gateway(self, on_store: StoreBench, part: str) -> None:
        async with on_store.opened() as store:
            records: Records = getattr(store, part)
            await records.put("s", "k", b"1", on_store.clock.at + 10)
            on_store.clock.at += 9
            assert await records.get("s", "k") == b"1"
            on_store.clock.at += 1
            assert await records.get("s", "k") is None
            assert await records.scan("s") == {}
            assert await records.compare_and_set("s", {"k": None}, {"k": b"2"})

    async def test_pop_gives_a_record_to_one_of_many(self, on_store: StoreBench, part: str) -> None:
        async with on_store.opened() as store:
            records: Records = getattr(store, part)
            await records.put("s", "code", b"secret")
            takes = (records.compare_and_set("s", {"code": b"secret"}, {"code": None}) for _ in range(200))
            assert sum(await asyncio.gather(*takes)) == 1
            assert await records.get("s", "code") is None

    async def test_increment_passes_exactly_limit_callers(self, on_store: StoreBench, part: str) -> None:
        async with on_store.opened() as store:
            records: Records = getattr(store, part)
            counts = await asyncio.gather(*(records.increment("s", "k", 30) for _ in range(100)))
            assert sorted(counts) == [0] * 70 + list(range(1, 31))
            assert await records.increment("s", "k") == 31

    async def test_counter_restarts_after_its_first_expiry(self, on_store: StoreBench, part: str) -> None:
        async with on_store.opened() as store:
            records: Records = getattr(store, part)
            start = on_store.clock.at
            assert await records.increment("s", "k", 2, start + 10) == 1
            assert await records.increment("s", "k", 2, start + 1000) == 2
            assert await records.increment("s", "k", 2, start + 1000) == 0
            on_store.clock.at = start + 10
            assert await records.increment("s", "k", 2, start + 20) == 1

    async def test_compare_and_set_is_atomic(self, on_store: StoreBench, part: str) -> None:
        async with on_store.opened() as store:
            records: Records = getattr(store, part)
            assert await records.compare_and_set("s", {"a": None, "b": None}, {"a": b"1", "b": b"1"})
            assert not await records.compare_and_set("s", {"a": b"1", "b": b"2"}, {"a": b"3", "b": None})
            assert await records.scan("s") == {"a": b"1", "b": b"1"}
            assert await records.compare_and_set("s", {"a": b"1", "b": b"1"}, {"a": b"3", "b": None, "c": b"4"})
            assert await records.scan("s") == {"a": b"3", "c": b"4"}

    async def test_one_of_many_compare_and_sets_wins(self, on_store: StoreBench, part: str) -> None:
        async with on_store.opened() as store:
            records: Records = getattr(store, part)
            won = await asyncio.gather(
                *(records.compare_and_set("s", {"k": None}, {"k": b"%d" % n}) for n in range(100))
            )
            assert won.count(True) == 1
            assert await records.get("s", "k") == b"%d" % won.index(True)

    async def test_watchers_see_records_and_changes_before_the_caller(self, on_store: StoreBench, part: str) -> None:
        async with on_store.opened() as store:
            records: Records = getattr(store, part)
            seen: list[tuple[str, bytes | None]] = []
            await records.put("s", "old", b"0")
            await records.put("other", "x", b"0")
            stop = await records.subscribe("s", lambda key, value: seen.append((key, value)))
            assert seen == [("old", b"0")]
            await records.put("s", "a", b"1")
            assert seen[1:] == [("a", b"1")]
            await records.compare_and_set("s", {}, {"a": None, "b": b"2"})
            await records.compare_and_set("s", {"b": b"2"}, {"b": None})
            await records.compare_and_set("s", {"b": b"2"}, {"b": None})
            await records.increment("s", "n")
            await records.compare_and_set("s", {"a": b"not so"}, {"a": b"5"})
            assert seen[2:] == [("a", None), ("b", b"2"), ("b", None), ("n", b"1")]
            stop()
            await records.put("s", "a", b"9")
            assert len(seen) == 6

    async def test_watcher_that_fails_at_once_is_refused(self, on_store: StoreBench, part: str) -> None:
        async with on_store.opened() as store:
            records: Records = getattr(store, part)
            seen: list[str] = []

            def fail(key: str, value: bytes | None) -> None:
                seen.append(key)
                raise ValueError(value)

            await records.put("s", "k", b"a secret")
            with pytest.raises(StoreUnavailable, match="^the records 's' cannot be read: ValueError at a value"):
                await records.subscribe("s", fail)
            await records.put("s", "k", b"2")
            assert seen == ["k"]

    async def test_watcher_that_fails_later_does_not_affect_others(self, on_store: StoreBench, part: str) -> None:
        async with on_store.opened() as store:
            complaints: list[str] = []
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, context: complaints.append(str(context["exception"])))
            records: Records = getattr(store, part)
            seen: list[str] = []

            def fail(key: str, value: bytes | None) -> None:
                raise ValueError("this watcher is broken")

            await records.subscribe("s", fail)
            await records.subscribe("s", lambda key, value: seen.append(key))
            await records.compare_and_set("s", {}, {"a": b"1", "b": b"2"})
            assert seen == ["a", "b"]
            assert complaints == ["this watcher is broken"] * 2


def test_reopened_store_holds_acknowledged_writes(on_store: StoreBench) -> None:
    async def fill(store: Store) -> None:
        await store.journals.append("a", drafts("1", "2"))
        await store.records.put("s", "k", b"1")
        await store.records.put("s", "late", b"1", on_store.clock.at + 10)
        await store.records.increment("s", "n")
        await store.ephemeral.put("s", "k", b"1")

    async def check(store: Store) -> None:
        assert texts(await store.journals.last("a", 10)) == (["1", "2"] if on_store.kind.keeps else [])
        (entry,) = await store.journals.append("a", drafts("3"))
        assert entry.sequence == (3 if on_store.kind.keeps else 1)
        assert await store.records.get("s", "k") == (b"1" if on_store.kind.keeps else None)
        assert await store.records.get("s", "late") is None
        assert await store.records.increment("s", "n") == (2 if on_store.kind.keeps else 1)
        assert await store.ephemeral.get("s", "k") == (b"1" if on_store.kind.keeps_ephemeral else None)

    on_store(fill)
    on_store.clock.at += 10
    on_store(check)


def test_writes_before_the_close_are_committed(on_store: StoreBench) -> None:
    async def fill(store: Store) -> None:
        for number in range(50):
            store.journals.append("a", drafts(str(number)))

    async def check(store: Store) -> list[str]:
        return texts(await store.journals.last("a", 100))

    on_store(fill)
    assert on_store(check) == ([str(n) for n in range(50)] if on_store.kind.keeps else [])
