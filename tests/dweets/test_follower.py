"""The follower of an archive with a source made by hand, and what sequence numbers say about epochs and gaps."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.dweets.archive_rows_made import archived, numbers, rows
from toolkit.dweets.archive.archive import Archive
from toolkit.dweets.archive.file_names import Position, missing_between
from toolkit.dweets.archive.follower import Batch, Follower, Progress
from toolkit.dweets.archive.parquet_files import Row
from toolkit.dweets.archive.writer import ArchiveWriter
from toolkit.dweets.service import archiving
from toolkit.dweets.service.archiving import StoreSource
from toolkit.dweets.wire import dweet_record
from toolkit.errors import ArchiveUnusable, StoreUnavailable
from toolkit.stores import Entry

log = logging.getLogger("tests.follower")


class ListSource:
    """Delivers one batch of each thing; fails so many times before."""

    def __init__(self, failures: int = 0, **batches: Batch) -> None:
        self.left = batches
        self.received = sum(len(rows) for _, rows in batches.values())
        self.failures = failures
        self.is_delivered = threading.Event()

    def open(self, writer: ArchiveWriter, wake: Callable[[], None]) -> None:
        wake()

    def things(self, *, complete: bool) -> Iterable[str]:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("the store is away")
        return list(self.left)

    def batches(self, thing: str) -> Generator[Batch]:
        yield self.left[thing]
        del self.left[thing]
        if not self.left:
            self.is_delivered.set()

    def stop(self) -> None:
        pass


def test_follower_retries_a_source_that_is_unavailable(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = ListSource(3, t=(1, rows(1, 5)))
    with Follower(tmp_path, source, 0.01, log) as follower:
        assert source.is_delivered.wait(60)
    assert (follower.dweets, follower.received) == (5, 5)
    assert numbers(Archive(tmp_path), "t") == [1, 2, 3, 4, 5]
    assert [record.message for record in caplog.records] == ["the store is away; nothing is lost, trying again"]


def test_a_blocked_thing_stays_with_the_source(tmp_path: Path) -> None:
    (tmp_path / "thing=a").write_text("in the way", "utf-8")
    source = ListSource(a=(1, rows(1, 2)), b=(1, rows(1, 3)))
    follower = Follower(tmp_path, source, 600, log)
    with pytest.raises(ArchiveUnusable):
        follower.flush()
    assert numbers(Archive(tmp_path), "b") == [1, 2, 3], "the other thing is written"
    (tmp_path / "thing=a").unlink()
    assert follower.close() == follower.close() == 5
    assert numbers(Archive(tmp_path), "a") == [1, 2]


def test_stop_without_flush_leaves_rows_with_the_source(tmp_path: Path) -> None:
    source = ListSource(10_000, t=(1, rows(1, 2)))
    follower = Follower(tmp_path, source, 600, log)
    assert follower.close(flush=False) == 0
    assert list(source.left) == ["t"]
    archived(tmp_path, "t", [rows(1, 2)])  # the folder is unlocked


def test_a_start_that_fails_unlocks_the_folder(tmp_path: Path) -> None:
    class Refusing(ListSource):
        def open(self, writer: ArchiveWriter, wake: Callable[[], None]) -> None:
            raise StoreUnavailable("no")

    with pytest.raises(StoreUnavailable):
        Follower(tmp_path, Refusing(), 1.0, log)
    archived(tmp_path, "t", [rows(1, 2)])


def test_numbers_missing_between_two_rows() -> None:
    assert missing_between(7, 8) is None
    assert missing_between(7, 10) == (8, 9)
    assert missing_between(7, 1_000_000_001) is None, "a Redis store continues there after a failover"
    assert missing_between(7, 1_000_000_003) == (1_000_000_001, 1_000_000_002)


LAST = Row(7, 1_000, None, b'{"n": 7}')


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (LAST, True),
        (LAST._replace(content=b'{"n":\r\n 7}'), True),
        (LAST._replace(sequence=9), True),
        (LAST._replace(sequence=6), False),
        (LAST._replace(content=b'{"n": 8}'), False),
        (LAST._replace(at=1_001), False),
        (None, False),
    ],
    ids=["same", "other_line_ends", "trimmed_journal", "fewer", "other_content", "other_time", "none"],
)
def test_a_server_is_recognised_by_the_last_row(first: Row | None, expected: bool) -> None:
    progress = Progress("t", Position(1, 7), LAST, log)
    assert progress.resume_after == 6
    assert progress.recognises(first) is expected


def test_a_new_epoch_starts_at_number_one(caplog: pytest.LogCaptureFixture) -> None:
    progress = Progress("t", Position(2, 7), LAST, log)
    progress.start_epoch()
    assert (progress.epoch, progress.sequence, progress.resume_after) == (3, 0, 0)
    assert progress.recognises(None)
    progress.advance(LAST)
    assert [record.message for record in caplog.records] == [
        "t: the server restarted its sequence numbers; starting epoch 3",
        "t: gap: the server has deleted the dweets 1 to 6",
    ]


class FlakyStore:
    """The journal of one thing; its second read fails once."""

    def __init__(self, count: int) -> None:
        self.journals = self.records = self
        self.entries = [Entry(n, n, f"id-{n}", dweet_record("t", n, b'{"n":%d}' % n)) for n in range(1, count + 1)]
        self.failures = 1

    async def after(self, name: str, number: int, count: int) -> list[Entry]:
        if number and self.failures:
            self.failures -= 1
            raise StoreUnavailable("away")
        return self.entries[number : number + count]

    async def names(self, prefix: str, most: int) -> list[str]:
        return [f"{prefix}t"]

    async def subscribe(self, space: str, learn: Callable[[str, bytes | None], None]) -> Callable[[], None]:
        return lambda: None

    async def compare_and_set(self, space: str, expected: object, changes: object) -> bool:
        return True


@contextmanager
def followed(store: FlakyStore, folder: Path) -> Iterator[tuple[Follower, StoreSource]]:
    """An archive that follows a store whose event loop runs in a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        source = StoreSource(store)  # type: ignore[arg-type]
        asyncio.run_coroutine_threadsafe(source.subscribe(), loop).result()
        with Follower(folder, source, 600, log) as follower:
            yield follower, source
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_a_store_that_fails_between_two_reads_loses_nothing(tmp_path: Path) -> None:
    with followed(FlakyStore(700), tmp_path) as (follower, source):
        source.note_post("t")
        with pytest.raises(StoreUnavailable):
            follower.flush()
        assert follower.flush() == 700
    assert numbers(Archive(tmp_path), "t") == list(range(1, 701))


class LaggingStore(FlakyStore):
    """Its names stand in the order of the time before: the thing with news is the last one."""

    async def after(self, name: str, number: int, count: int) -> list[Entry]:
        return self.entries[number : number + count] if name.endswith("t") else []

    async def names(self, prefix: str, most: int) -> list[str]:
        return [*(f"{prefix}{number}" for number in range(20)), f"{prefix}t"]


def test_a_thing_whose_name_lags_behind_is_archived_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archiving, "NAMES_WITHOUT_NEWS", 20)
    monkeypatch.setattr(archiving, "PASSES_PER_FULL_CHECK", 60)
    store = LaggingStore(0)
    with followed(store, tmp_path) as (follower, _):
        assert follower.flush() == 0
        store.entries.append(Entry(1, 1, "id-1", dweet_record("t", 1, b'{"n":1}')))
        for _ in range(59):
            follower.flush()
        assert follower.dweets == 0
        for _ in range(2):
            follower.flush()
        assert follower.dweets == 1
