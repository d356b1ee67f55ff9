"""The embedded store: one process per folder, batches, retention, and what reaches the disk."""

from __future__ import annotations

import asyncio
import inspect
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.stores.conftest import Hook, fail_once
from tests.gateway.stores.opened_stores import opened_store, persist, with_store
from toolkit.errors import FolderInUse, OutcomeUnknown, StoreUnavailable
from toolkit_gateway.dweets.stored_days import StoredRange
from toolkit_gateway.dweets.thing_cache import Things, journal_of
from toolkit_gateway.stores import CompareAndSet, Entry, NewEntry
from toolkit_gateway.stores.embedded import EmbeddedStore
from toolkit_gateway.stores.embedded_database import Database


def on_disk(test: Callable[..., Awaitable[None]]) -> Any:
    """Run a test that is a coroutine function; its first argument is a store in a folder."""

    def run_test(tmp_path: Path, **fixtures: Any) -> None:
        with_store(tmp_path, lambda store: test(store, **fixtures))

    names = ["tmp_path", *list(inspect.signature(test).parameters)[1:]]
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    run_test.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run_test


def line(text: str, at: int = 5) -> NewEntry:
    return NewEntry(at, text, text.encode())


def ids(entries: Sequence[Entry]) -> list[str]:
    return [entry.id for entry in entries]


# -- the folder -------------------------------------------------------------------------------------------


def test_second_store_of_a_process_is_refused(tmp_path: Path) -> None:
    async def work(_: EmbeddedStore) -> None:
        with pytest.raises(FolderInUse, match="in use by a gateway of this process: stop that"):
            await EmbeddedStore(tmp_path, lambda: 0).open()

    with_store(tmp_path, work)
    with_store(tmp_path, read)


def test_folder_of_a_killed_process_is_free_again(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys, pathlib\n"
        "from toolkit_gateway.stores.embedded import EmbeddedStore\n"
        "async def run():\n"
        "    await EmbeddedStore(pathlib.Path(sys.argv[1]), lambda: 0).open()\n"
        "    print('open', flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(run())\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(FolderInUse, match=f"process id {holder.pid}"):
            with_store(tmp_path, read)
        holder.kill()
    assert with_store(tmp_path, read) is None


async def read(store: EmbeddedStore) -> bytes | None:
    return await store.records.get("s", "k")


def test_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    # A file in the way of the folder or of the database: permissions do not stop root, who may run the tests.
    for in_the_way in ("", "database"):
        (file := tmp_path / "folder" / in_the_way).parent.mkdir(exist_ok=True)
        file.write_text("x")
        with pytest.raises(StoreUnavailable, match=r"the folder .*folder cannot be used: .*exists"):
            with_store(tmp_path / "folder", read)
        file.unlink()
    with_store(tmp_path / "folder", read)


@pytest.mark.parametrize("mode", [None, 0o755, 0o777])
def test_only_the_owner_may_use_the_folder(tmp_path: Path, mode: int | None) -> None:
    folder = tmp_path / "folder"
    if mode is not None:
        folder.mkdir()
        folder.chmod(mode)

    async def work(store: EmbeddedStore) -> None:
        await store.records.put("s", "k", b"1")
        modes = [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder / "database")]
        assert modes == [0o700] * 2

    before = os.umask(0)
    try:
        with_store(folder, work)
        assert os.umask(0) == 0, "the umask of the process is not changed"
    finally:
        os.umask(before)


def test_folder_that_cannot_be_tightened_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    tmp_path.chmod(0o770)
    monkeypatch.setattr(Path, "chmod", refuse)  # as for a folder of another user; root may change all
    with pytest.raises(StoreUnavailable, match=r"other users may use the folder .*Operation not permitted.*chmod 700"):
        with_store(tmp_path, read)


def test_temporary_folder_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def work(store: EmbeddedStore) -> None:
        await store.records.put("s", "k", b"1")
        (folder,) = tmp_path.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700

    with_store(None, work)
    assert list(tmp_path.iterdir()) == []


# -- what reaches the disk --------------------------------------------------------------------------------


def test_ephemeral_records_never_reach_the_folder(tmp_path: Path) -> None:
    async def work(store: EmbeddedStore) -> None:
        await store.ephemeral.put("s", "k", b"a-code-that-is-never-written-down")
        await store.ephemeral.compare_and_set("s", {"k": None}, {"k": b"a-code-that-is-never-written-down"})
        await store.ephemeral.increment("a-code-that-is-never-written-down", "n")
        await store.records.put("s", "k", b"a-record-that-is")

    with_store(tmp_path, work)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"a-record-that-is" in written
    assert b"a-code-that-is-never" not in written


def test_batches_are_synced_with_a_folder_only(tmp_path: Path, hook: Hook) -> None:
    synced: list[str] = []

    async def work(store: EmbeddedStore) -> None:
        hook("on_sync", lambda: synced.append(repr(store)))
        await store.journals.append("j", [line("x")])
        await store.records.put("s", "k", b"1")

    with_store(None, work)
    with_store(tmp_path, work)
    assert synced == [str(tmp_path)] * 2


# -- batches ----------------------------------------------------------------------------------------------


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of rows of each batch that is written."""
    sizes: list[int] = []
    write = Database.write

    def counted(database: Database, batch: Any) -> None:
        sizes.append(len(batch))
        write(database, batch)

    monkeypatch.setattr(Database, "write", counted)
    return sizes


@on_disk
async def test_changes_of_one_turn_are_one_batch(store: EmbeddedStore, batches: list[int]) -> None:
    appends = [store.journals.append("a", [line(f"{n}")]) for n in range(50)]
    puts = [store.records.put("s", f"{n}", b"1") for n in range(50)]
    assert batches == [], "nothing is written in the turn of the first"
    await asyncio.gather(*appends, *puts)
    await store.journals.append("a", [line("alone")])
    assert batches == [100, 1], "journals and records share a batch"


@on_disk
async def test_others_get_their_turn_between_large_batches(store: EmbeddedStore, batches: list[int]) -> None:
    turns = []
    appends = [store.journals.append(f"{n % 2}", [line(f"{n}") for n in range(1_000)]) for n in range(8)]
    while not appends[-1].done():
        turns.append(len(batches))
        await asyncio.sleep(0)
    assert batches == [2_000] * 4
    assert set(range(4)) <= set(turns), "one batch a turn"
    assert len(await store.journals.after("1", 0)) == 4_000


@on_disk
async def test_a_read_waits_for_one_slow_sync_at_most(store: EmbeddedStore, hook: Hook, batches: list[int]) -> None:
    async def read_of_the_database() -> None:
        for _ in range(8):
            await asyncio.sleep(0)

    async def post() -> None:
        while True:
            await store.journals.append("a", [line("x")])

    hook("on_sync", lambda: time.sleep(0.005))
    posters = [asyncio.ensure_future(post()) for _ in range(4)]
    for _ in range(10):
        before = len(batches)
        await read_of_the_database()
        assert len(batches) - before <= 1
        await asyncio.sleep(0.001)
    assert len(batches) > 5
    for poster in posters:
        poster.cancel()


@on_disk
async def test_a_panic_leaves_no_caller_waiting(store: EmbeddedStore) -> None:
    class Panic(BaseException):
        """As a library in Rust raises."""

    class Panicking(list[NewEntry]):
        def __iter__(self) -> Any:
            raise Panic

    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    requests = store.journals.append("a", Panicking([line("1")])), store.journals.append("a", [line("2")])
    outcomes = await asyncio.wait_for(asyncio.gather(*requests, return_exceptions=True), 30)
    assert type(outcomes[0]) is OutcomeUnknown
    kept = [] if isinstance(outcomes[1], OutcomeUnknown) else ["2"]
    await store.journals.append("a", [line("3")])
    assert ids(await store.journals.last("a", 9)) == [*kept, "3"]


@on_disk
async def test_a_subscriber_that_changes_values_undoes_no_commit(store: EmbeddedStore) -> None:
    unsubscribe = store.journals.subscribe("{a}j", lambda _: store.ephemeral.put("{a}s", "mine", b"1"))
    changes = [CompareAndSet("{a}s", {"k": None}, {"k": b"2"}, is_ephemeral=True)]
    assert await store.commit(changes, {"{a}j": [line("1")]})
    unsubscribe()
    assert await store.ephemeral.scan("{a}s") == {"k": b"2", "mine": b"1"}


@pytest.mark.parametrize("is_there", [True, False])
@on_disk
async def test_failed_write_raises_for_its_caller(store: EmbeddedStore, hook: Hook, is_there: bool) -> None:
    # A failed fsync: what was written may be there after all. Its callers get an error that says so.
    heard: list[Entry] = []
    seen: list[tuple[str, bytes | None]] = []
    store.journals.subscribe("a", heard.extend)
    await store.records.subscribe("s", lambda key, value: seen.append((key, value)))
    await store.journals.append("a", [line("1")])
    fail_once(hook, "on_sync" if is_there else "on_write")
    requests = store.journals.append("a", [line("2")]), store.records.put("s", "k", b"1")
    outcomes = await asyncio.gather(*requests, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown] * 2
    assert ids(await store.journals.last("a", 9)) == ids(await store.journals.after("a", 0)) == ["1"], "not yet"
    (entry,) = await store.journals.append("a", [line("3")])
    expected = ["1", "2", "3"] if is_there else ["1", "3"]
    assert ids(heard) == ids(await store.journals.last("a", 9)) == expected
    assert [entry.sequence for entry in heard] == list(range(1, len(expected) + 1))
    assert await store.records.get("s", "k") == seen[-1][1] == (b"1" if is_there else None)


@on_disk
async def test_recovery_that_fails_begins_again(
    store: EmbeddedStore, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = Database.get

    def damaged(database: Database, key: bytes) -> bytes | None:
        monkeypatch.setattr(Database, "get", get)
        raise StoreUnavailable("a block is damaged")

    heard: list[Entry] = []
    store.journals.subscribe("a", heard.extend)
    await store.journals.append("a", [line("1")])
    fail_once(hook, "on_sync")
    requests = store.journals.append("a", [line("2")]), store.records.put("s", "k", b"1")
    await asyncio.gather(*requests, return_exceptions=True)
    monkeypatch.setattr(Database, "get", damaged)
    with pytest.raises(StoreUnavailable, match="a block is damaged"):
        await store.records.put("s", "other", b"1")
    await persist(lambda: store.journals.append("a", [line("3")]))
    assert ids(heard) == ["1", "2", "3"]
    assert await store.records.get("s", "k") == b"1"


@on_disk
async def test_reads_of_one_entry_do_not_stop_recovery(store: EmbeddedStore, hook: Hook) -> None:
    read_meanwhile: list[bool] = []
    await store.journals.append("a", [line("1")])
    loop = asyncio.get_running_loop()
    reads: list[Awaitable[list[Entry]]] = []

    def begin_a_read() -> None:
        reads.append(read := asyncio.ensure_future(store.journals.last("a", 1)))
        read_meanwhile.append(read.done())

    def close_during_a_read() -> None:
        hook("on_close", lambda: None)
        asyncio.run_coroutine_threadsafe(in_loop(begin_a_read), loop).result(60)

    fail_once(hook, "on_write")
    with pytest.raises(OutcomeUnknown):
        await store.journals.append("a", [line("lost")])
    hook("on_close", close_during_a_read)
    await store.journals.append("a", [line("2")])
    assert [ids(await read) for read in reads] in ([["1"]], [["2"]]), "it ends, before or after the next append"
    assert read_meanwhile == [False], "it waits: its cursor would keep the database open"


async def in_loop(job: Callable[[], None]) -> None:
    job()


# -- journals ---------------------------------------------------------------------------------------------


@on_disk
async def test_sequence_numbers_stay_within_their_journal(store: EmbeddedStore) -> None:
    for name in ("a", "b", "c"):
        await store.journals.append(name, [line(f"{name}{n}") for n in range(3)])
    for number in (-1, -5_000, 1 << 38, 1 << 62, 1 << 90):
        assert ids(await store.journals.after("b", number)) == (["b0", "b1", "b2"] if number < 0 else [])


def test_sequence_numbers_continue_after_a_restart(tmp_path: Path) -> None:
    async def fill(store: EmbeddedStore) -> None:
        for number in range(10):
            await store.journals.append("a", [line(f"{number}.{n}") for n in range(100)], 64)

    async def go_on(store: EmbeddedStore) -> None:
        assert [entry.sequence for entry in await store.journals.append("a", [line("x")])] == [1_001]
        assert [entry.sequence for entry in await store.journals.append("c", [line("c")])] == [1]
        assert len(await store.journals.after("a", 0)) < 200

    with_store(tmp_path, fill)
    with_store(tmp_path, go_on)


def test_names_are_in_order_after_a_restart(tmp_path: Path) -> None:
    minute = 60_000

    async def fill(store: EmbeddedStore) -> None:
        for number, name in enumerate("abcdefgh"):
            await store.journals.append(name, [line("x", at=number * minute)])
        await store.journals.append("c", [line("x", at=9 * minute)])
        await store.journals.append("a", [line("x", at=9 * minute + 1)])
        await store.journals.append("h", [line("x", at=minute)])  # its clock was set back

    async def read(store: EmbeddedStore) -> None:
        await store.journals.append("e", [line("x", at=9 * minute + 2)])
        assert await store.journals.names("", 99) == list("eacgfdbh")
        assert await store.journals.names("", 3) == list("eac")
        assert await store.journals.names("", 0) == []

    with_store(tmp_path, fill)
    with_store(tmp_path, read)


@on_disk
async def test_last_entries_are_read_past_many_deleted_ones(store: EmbeddedStore) -> None:
    for start in range(0, 20_000, 1_000):
        await store.journals.append("a", [line(str(start + n)) for n in range(1_000)], 500)
    assert ids(await store.journals.last("a", 500)) == [str(n) for n in range(19_500, 20_000)]
    everything = await store.journals.after("a", 0)
    assert 500 <= len(everything) <= 1_500
    assert len(await store.journals.last("a", 10_000)) == len(everything)


# -- records ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["records", "ephemeral"])
async def test_expired_records_are_removed_eventually(tmp_path: Path, part: str) -> None:
    now = 0
    async with opened_store(None if part == "ephemeral" else tmp_path, lambda: now) as store:
        records = getattr(store, part)
        await asyncio.gather(*(records.put("old", str(number), b"x", 10) for number in range(100)))
        await records.put("old", "stays", b"x")
        now = 1_000
        for _ in range(2):
            await asyncio.gather(*(records.put("new", str(number % 10), b"x", 5_000) for number in range(2_500)))
        now = 0  # what has expired would be there again, had it not been removed
        while len(await records.scan("old")) > 1:
            await asyncio.sleep(0.01)
        assert await records.scan("old") == {"stays": b"x"}
        assert len(await records.scan("new")) == 10


@on_disk
async def test_stored_range_is_complete_after_clock_set_back(store: EmbeddedStore) -> None:
    await store.journals.append(journal_of("a"), [line(str(at), at=at) for at in (10, 20, 5, 15, 20, 1)])
    stored = StoredRange(Things(store.journals), "a", 6, 5, 20)
    for newest_first, expected in ((False, [b"10", b"5", b"15"]), (True, [b"15", b"5", b"10"])):
        assert [data async for block in stored.batches(newest_first=newest_first) for data in block] == expected
