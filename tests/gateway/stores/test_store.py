"""The guarantees of every store, tested on every store."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gateway.stores.stores_under_test import STORES, StoreBench, StoreKind, with_store
from toolkit.errors import StoreUnavailable
from toolkit_gateway.stores import CompareAndSet, Entry, NewEntry, Records, Store


@pytest.fixture(params=STORES, ids=lambda kind: kind.name)
def on_store(request: pytest.FixtureRequest, tmp_path: Path) -> StoreBench:
    kind: StoreKind = request.param
    return StoreBench(kind, tmp_path)


def drafts(*texts: str, at: int = 5) -> list[NewEntry]:
    return [NewEntry(at, f"id-{text}", text.encode()) for text in texts]


def texts(entries: Sequence[Entry]) -> list[str]:
    return [entry.data.decode() for entry in entries]


@with_store
async def test_entries_are_numbered_from_one_in_call_order(store: Store) -> None:
    first = await store.journals.append("a", drafts("1", "2"))
    second = await store.journals.append("a", drafts("3"))
    assert [(e.sequence, e.at, e.id, e.data) for e in first + second] == [
        (1, 5, "id-1", b"1"),
        (2, 5, "id-2", b"2"),
        (3, 5, "id-3", b"3"),
    ]
    assert await store.journals.append("a", []) == []
    assert await store.journals.last("a", 10) == first + second
    await store.journals.append("ab", drafts("4"))
    assert texts(await store.journals.last("a", 10)) == ["1", "2", "3"]
    assert await store.journals.last("b", 10) == await store.journals.after("b", 0) == []


@with_store
async def test_last_and_after_return_oldest_first(store: Store) -> None:
    for number in range(10):
        await store.journals.append("a", drafts(str(number), at=100 + number))
    assert texts(await store.journals.last("a", 3)) == ["7", "8", "9"]
    assert texts(await store.journals.after("a", 7)) == ["7", "8", "9"]
    assert texts(await store.journals.after("a", 0, 2)) == ["0", "1"]
    assert texts(await store.journals.after("a", 10)) == []
    for below, expected in ((8, "456"), (2, "0"), (1, ""), (1_000, "789")):
        assert texts(await store.journals.last("a", 3, below)) == list(expected)
    await store.journals.append("b", drafts("other"))
    assert texts(await store.journals.last("b", 3, 1)) == []


@with_store
async def test_long_journals_are_read_to_their_ends(store: Store) -> None:
    for count in (999, 1_000, 2_500):
        name, times, below = f"of {count}", list[int](), None
        await store.journals.append(name, [NewEntry(n, f"id-{n}", b"%d" % n) for n in range(count)])
        while page := await store.journals.last(name, 500, below):
            times, below = [entry.at for entry in page] + times, page[0].sequence
        assert times == list(range(count))
        assert [entry.at for entry in await store.journals.after(name, 10)] == list(range(10, count))


@with_store
async def test_names_most_recently_written_first(store: Store) -> None:
    for at, name in enumerate(["t:a", "t:b", "other", "t:a", "t:ü", "t:"]):
        await store.journals.append(name, drafts("x", at=at * 10_000))
    assert await store.journals.names("t:", 10) == ["t:", "t:ü", "t:a", "t:b"]
    assert await store.journals.names("t:", 2) == ["t:", "t:ü"]
    assert await store.journals.names("nothing", 10) == []


@with_store
async def test_any_name_and_any_bytes(store: Store) -> None:
    data = bytes(range(256))
    for name in ("a/b", "ü€😀", "with space", "x" * 256, "'; DROP TABLE journal; --", "%00", "a:b"):
        await store.journals.append(name, [NewEntry(1, name, data)])
        assert [entry.data for entry in await store.journals.last(name, 2)] == [data]
        await store.records.put(name, name, data)
        assert await store.records.get(name, name) == data


@with_store
async def test_the_last_entries_asked_for_are_always_kept(store: Store) -> None:
    for number in range(60):
        await store.journals.append("a", drafts(*(f"{number}.{i}" for i in range(10))), 100)
        kept = await store.journals.last("a", 100)
        assert len(kept) == min(100, (number + 1) * 10)
    everything = await store.journals.after("a", 0)
    assert len(everything) < 300, "older lines are dropped now and then"
    assert [e.sequence for e in everything] == list(range(everything[0].sequence, 601))
    await store.journals.append("b", drafts(*map(str, range(1000))), 64)  # at once more than are kept
    assert texts(await store.journals.last("b", 64)) == [str(n) for n in range(936, 1000)]
    (next_one,) = await store.journals.append("b", drafts("x"), 64)
    assert next_one.sequence == 1001


@with_store
async def test_no_entry_above_the_floor_is_deleted(store: Store) -> None:
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


@with_store
async def test_unencodable_request_fails_alone(store: Store) -> None:
    heard: list[Entry] = []
    store.journals.subscribe("a", heard.extend)
    requests = [
        store.records.put("s", "half a surrogate \ud800", b"1"),
        store.journals.append("half a surrogate \ud800", drafts("1")),
        store.records.put("s", "k", b"1"),
        store.records.compare_and_set("s", {}, {"first": b"1", "half a surrogate \ud800": b"1"}),
        store.journals.append("a", drafts("1")),
        store.journals.append("a", [*drafts("2"), NewEntry(5, "\ud800", b"")]),
        store.records.increment("s", "n"),
        store.commit([CompareAndSet("{t}a", {}, {"k": b"1", "\ud800": b"2"})], {"{t}j": drafts("1")}),
        store.commit([CompareAndSet("{t}a", {}, {"k": b"1"})], {"{t}j": drafts("1"), "{t}\ud800": drafts("2")}),
    ]
    outcomes = await asyncio.gather(*requests, return_exceptions=True)
    refused = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, UnicodeEncodeError)]
    assert refused == [0, 1, 3, 5, 7, 8]
    assert [entry.sequence for entry in heard] == [1]
    assert outcomes[4] == heard == await store.journals.last("a", 9)
    assert await store.records.scan("s") == {"k": b"1", "n": b"1"}
    assert await store.records.scan("{t}a") == {}
    assert await store.journals.last("{t}j", 9) == []


@with_store
async def test_subscribers_get_entries_once_in_order_until_stop(store: Store) -> None:
    heard: list[Entry] = []
    await store.journals.append("a", drafts("before"))
    stop = store.journals.subscribe("a", heard.extend)
    await asyncio.gather(*(store.journals.append("a", drafts(f"{n}", f"{n}'")) for n in range(100)))
    await store.journals.append("b", drafts("elsewhere"))
    assert [entry.sequence for entry in heard] == list(range(2, 202))
    assert texts(heard) == [text for n in range(100) for text in (f"{n}", f"{n}'")]
    for number in range(5):
        await store.journals.append("a", drafts("one more"))
        assert len(heard) == 201 + number, "before the append returns"
    stop()
    stop()
    await store.journals.append("a", drafts("after"))
    assert len(heard) == 205


@with_store
async def test_failing_subscriber_does_not_affect_others(store: Store) -> None:
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

    @with_store
    async def test_put_get_and_replace(self, records: Records, store: Store) -> None:
        assert await records.get("s", "k") is None
        await records.put("s", "k", b"1")
        await records.put("s", "k", b"2")
        assert await records.get("s", "k") == b"2"
        assert await records.get("other", "k") is None
        (other,) = {store.records, store.ephemeral} - {records}
        assert await other.get("s", "k") is None, "durable and ephemeral records are separate"
        assert await other.scan("s") == {}

    @with_store
    async def test_expiry_follows_the_clock_of_the_gateway(self, records: Records, on_store: StoreBench) -> None:
        await records.put("s", "k", b"1", on_store.clock.at + 10)
        on_store.clock.at += 9
        assert await records.get("s", "k") == b"1"
        on_store.clock.at += 1
        assert await records.get("s", "k") is None
        assert await records.scan("s") == {}
        assert await records.compare_and_set("s", {"k": None}, {"k": b"2"})

    @with_store
    async def test_increment_passes_exactly_limit_callers(self, records: Records) -> None:
        counts = await asyncio.gather(*(records.increment("s", "k", 30) for _ in range(100)))
        assert sorted(counts) == [0] * 70 + list(range(1, 31))
        assert await records.increment("s", "k") == 31

    @with_store
    async def test_counter_restarts_after_its_first_expiry(self, records: Records, on_store: StoreBench) -> None:
        start = on_store.clock.at
        assert await records.increment("s", "k", 2, start + 10) == 1
        assert await records.increment("s", "k", 2, start + 1000) == 2
        assert await records.increment("s", "k", 2, start + 1000) == 0
        on_store.clock.at = start + 10
        assert await records.increment("s", "k", 2, start + 20) == 1

    @with_store
    async def test_compare_and_set_is_atomic(self, records: Records) -> None:
        assert await records.compare_and_set("s", {"a": None, "b": None}, {"a": b"1", "b": b"1"})
        assert not await records.compare_and_set("s", {"a": b"1", "b": b"2"}, {"a": b"3", "b": None})
        assert await records.scan("s") == {"a": b"1", "b": b"1"}
        assert await records.compare_and_set("s", {"a": b"1", "b": b"1"}, {"a": b"3", "b": None, "c": b"4"})
        assert await records.scan("s") == {"a": b"3", "c": b"4"}

    @with_store
    async def test_one_of_many_compare_and_sets_wins(self, records: Records) -> None:
        new = [b"%d" % number for number in range(100)]
        won = await asyncio.gather(*(records.compare_and_set("s", {"k": None}, {"k": value}) for value in new))
        assert won.count(True) == 1
        winner = new[won.index(True)]
        assert await records.get("s", "k") == winner
        removed = await asyncio.gather(*(records.compare_and_set("s", {"k": winner}, {"k": None}) for _ in new))
        assert removed.count(True) == 1
        assert await records.get("s", "k") is None

    @with_store
    async def test_watchers_see_each_change_before_the_caller(self, records: Records) -> None:
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

    @with_store
    async def test_watcher_that_fails_at_once_is_refused(self, records: Records) -> None:
        seen: list[str] = []

        def fail(key: str, value: bytes | None) -> None:
            seen.append(key)
            raise ValueError(value)

        await records.put("s", "k", b"a secret")
        with pytest.raises(StoreUnavailable, match="^the records 's' cannot be read: ValueError at a value"):
            await records.subscribe("s", fail)
        await records.put("s", "k", b"2")
        assert seen == ["k"]

    @with_store
    async def test_watcher_that_fails_later_does_not_affect_others(self, records: Records) -> None:
        complaints: list[str] = []
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(str(context["exception"])))
        seen: list[str] = []

        def fail(key: str, value: bytes | None) -> None:
            raise ValueError("this watcher is broken")

        await records.subscribe("s", fail)
        await records.subscribe("s", lambda key, value: seen.append(key))
        await records.compare_and_set("s", {}, {"a": b"1", "b": b"2"})
        assert seen == ["a", "b"]
        assert complaints == ["this watcher is broken"] * 2


class TestCommit:
    """Changes of several spaces and appends to several journals are made together, or not at all."""

    @with_store
    async def test_commit_checks_changes_and_appends(self, store: Store, on_store: StoreBench) -> None:
        later = on_store.clock.at + 10
        await store.records.put("{t}a", "old", b"0")
        await store.ephemeral.put("{t}a", "k", b"e")
        changes = [
            CompareAndSet("{t}a", {"old": b"0", "new": None}, {"old": None, "new": b"1"}),
            CompareAndSet("{t}b", {}, {"k": b"2"}, later),
            CompareAndSet("{t}a", {"k": b"e"}, {"k": b"f"}, later, is_ephemeral=True),
        ]
        appends = {"{t}first": drafts("1", "2"), "{t}second": drafts("3"), "{t}third": []}
        assert await store.commit(changes, appends) is True
        assert await store.records.scan("{t}a") == {"new": b"1"}
        assert await store.records.get_many("{t}b", ["k", "none"]) == {"k": b"2", "none": None}
        assert await store.ephemeral.scan("{t}a") == {"k": b"f"}
        assert texts(await store.journals.last("{t}first", 9)) == ["1", "2"]
        assert [e.sequence for e in await store.journals.after("{t}second", 0)] == [1]
        assert await store.journals.last("{t}third", 9) == []
        assert sorted(await store.journals.names("{t}", 9)) == ["{t}first", "{t}second"]
        on_store.clock.at = later
        assert await store.records.get_many("{t}b", ["k"]) == {"k": None}
        assert await store.ephemeral.get_many("{t}a", []) == {}
        assert await store.ephemeral.get("{t}a", "k") is None

    @with_store
    async def test_commit_changes_nothing_if_one_value_differs(self, store: Store) -> None:
        places = [("{t}a", False), ("{t}b", False), ("{t}a", True)]
        for wrong in places:
            expected: dict[tuple[str, bool], bytes | None] = {**dict.fromkeys(places), wrong: b"not so"}
            changes = [CompareAndSet(p[0], {"k": expected[p]}, {"k": b"1"}, is_ephemeral=p[1]) for p in places]
            assert await store.commit(changes, {"{t}j": drafts("1")}) is False
        assert await store.journals.last("{t}j", 9) == []
        for records in (store.records, store.ephemeral):
            assert [await records.scan(space) for space in ("{t}a", "{t}b")] == [{}, {}]

    @with_store
    async def test_one_of_many_equal_commits_wins(self, store: Store) -> None:
        def commit(n: int) -> Future[bool]:
            changes = [CompareAndSet("{t}a", {"k": None}, {"k": b"%d" % n}, is_ephemeral=n % 2 == 0)]
            return store.commit(
                [*changes, CompareAndSet("{t}b", {"k": None}, {"k": b"%d" % n})], {"{t}j": drafts(str(n))}
            )

        won = await asyncio.gather(*map(commit, range(50)))
        assert won.count(True) == 1
        assert texts(await store.journals.last("{t}j", 9)) == [str(won.index(True))]
        assert await store.records.get("{t}b", "k") == b"%d" % won.index(True)

    @with_store
    async def test_subscribers_see_commits_before_the_caller(self, store: Store) -> None:
        seen: list[object] = []
        for records in (store.records, store.ephemeral):
            await records.subscribe("{t}a", lambda key, value: seen.append((key, value)))
        store.journals.subscribe("{t}j", lambda entries: seen.extend(texts(entries)))
        changes = [
            CompareAndSet("{t}a", {}, {"k": b"1"}),
            CompareAndSet("{t}a", {}, {"e": b"2"}, is_ephemeral=True),
        ]
        for number in range(3):
            assert await store.commit(changes, {"{t}j": drafts(str(number))})
            assert sorted(map(str, seen)) == sorted(map(str, [("k", b"1"), ("e", b"2"), str(number)]))
            seen.clear()

    @with_store
    async def test_concurrent_ephemeral_changes_are_serialised(self, store: Store) -> None:
        for number in range(20):
            change = CompareAndSet("{t}a", {"k": None}, {"k": b"commit"}, is_ephemeral=True)
            committing = store.commit([change], {"{t}j": drafts("x")})
            for _ in range(number % 5):
                await asyncio.sleep(0)
            has_put = await store.ephemeral.compare_and_set("{t}a", {"k": None}, {"k": b"other"})
            has_committed = await committing
            assert {has_put, has_committed} == {True, False}
            assert await store.ephemeral.get("{t}a", "k") == (b"commit" if has_committed else b"other")
            await store.ephemeral.compare_and_set("{t}a", {}, {"k": None})

    @with_store
    async def test_refuses_names_without_a_common_tag(self, store: Store) -> None:
        for space, journal in (("a", "a"), ("{t}a", "a"), ("{t}a", "{u}a"), ("{}a", "{}a")):
            with pytest.raises(ValueError, match="the same tag in braces"):
                await store.commit([CompareAndSet(space, {}, {"k": b"1"})], {journal: drafts("1")})


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


async def test_closed_store_refuses_every_call(on_store: StoreBench) -> None:
    store = on_store.kind.make(on_store.folder, on_store.clock)
    await store.open()
    await store.close()
    for call in (
        lambda: store.journals.append("a", drafts("1")),
        lambda: store.records.put("s", "k", b"1"),
        lambda: store.records.get("s", "k"),
    ):
        with pytest.raises(StoreUnavailable, match="stopping"):
            await call()
