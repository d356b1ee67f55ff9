"""How the gateway copies journals into an archive: what it reads again, what it skips, and how it fails."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.toolkit.archive.archive_rows import SECOND, START, archived, numbers, rows
from toolkit.archive.archive import Archive
from toolkit.archive.file_names import missing_between, thing_files
from toolkit.errors import StoreUnavailable
from toolkit_gateway.dweets import archiving
from toolkit_gateway.dweets.archiving import JournalCopier
from toolkit_gateway.dweets.replies import dweet_record
from toolkit_gateway.dweets.thing_cache import journal_of
from toolkit_gateway.stores import Entry
from toolkit_gateway.worker_thread import WorkerThread


def entries(first: int, last: int, *, thing: str = "t", start: int = START) -> list[Entry]:
    times = ((n, (start + n * SECOND) // 1000) for n in range(first, last + 1))
    return [Entry(n, at, f"id-{n}", dweet_record(thing, at, b'{"n": %d}' % n)) for n, at in times]


class JournalStore:
    """Journals in memory; the calls whose numbers are in `failing` fail."""

    def __init__(self, things: Mapping[str, list[Entry]], failing: range = range(0)) -> None:
        self.journals = self.records = self
        self.things, self.failing, self.calls = dict(things), failing, 0
        self.stored: dict[str, int] = {}

    def _count(self) -> None:
        self.calls += 1
        if self.calls in self.failing:
            raise StoreUnavailable("the store is away")

    async def after(self, name: str, number: int, count: int) -> list[Entry]:
        self._count()
        journal = self.things.get(name.removeprefix(journal_of("")), [])
        return [entry for entry in journal if entry.sequence > number][:count]

    async def names(self, prefix: str, most: int) -> list[str]:
        return [f"{prefix}{thing}" for thing in self.things]

    async def subscribe(self, space: str, learn: Callable[[str, bytes | None], None]) -> Callable[[], None]:
        for thing, number in self.stored.items():
            learn(f"position:{thing}", b"%d" % number)
        return lambda: None

    async def compare_and_set(self, space: str, expected: object, changes: Mapping[str, bytes]) -> bool:
        self._count()
        self.stored |= {key.removeprefix("position:"): int(value) for key, value in changes.items()}
        return True


@asynccontextmanager
async def copier_of(store: JournalStore, folder: Path) -> AsyncIterator[JournalCopier]:
    thread = WorkerThread("test-archive")
    copier = JournalCopier(store, folder, thread)  # type: ignore[arg-type]
    try:
        await copier.subscribe()
        await copier.open()
        yield copier
    finally:
        await copier.close()
        thread.end()


def copied(store: JournalStore, folder: Path) -> list[int]:
    async def copy() -> None:
        async with copier_of(store, folder) as copier:
            await copier.copy_all()

    asyncio.run(copy())
    return numbers(Archive(folder), "t")


async def test_a_failing_store_delays_and_loses_nothing(tmp_path: Path) -> None:
    """It fails at the second and third read of the journal, and when positions are stored."""
    store = JournalStore({"t": entries(1, 700)}, range(2, 6))
    failures = 0
    async with copier_of(store, tmp_path) as copier:
        while not store.stored:
            try:
                await copier.copy_all()
            except StoreUnavailable:
                failures += 1
    assert failures == 4
    assert store.stored == {"t": 700}
    assert numbers(Archive(tmp_path), "t") == list(range(1, 701))


def test_a_start_lowers_positions_that_are_not_archived(tmp_path: Path) -> None:
    """It needs the store for that; where the store fails, the folder is unlocked again."""
    store = JournalStore({}, range(1, 2))
    store.stored = {"t": 7, "u": 3, "v": 1}
    with pytest.raises(StoreUnavailable):
        copied(store, tmp_path)
    archived(tmp_path, "t", [rows(1, 5)])
    archived(tmp_path, "v", [rows(1, 5)])
    assert copied(store, tmp_path) == [1, 2, 3, 4, 5]
    assert store.stored == {"t": 5, "u": 0, "v": 1}


@pytest.mark.parametrize(
    ("journal", "epochs", "expected"),
    [
        (entries(1, 9), 1, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (entries(9, 9), 1, [1, 2, 3, 4, 5, 6, 7, 9]),
        (entries(1, 6), 2, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7]),
        (entries(1, 7, start=START + 1000 * SECOND), 2, [1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 6, 7]),
        ([*entries(1, 6), entries(7, 7)[0]._replace(data=dweet_record("t", 0, b"8"))], 2, None),
    ],
    ids=["more", "trimmed", "fewer", "other_times", "other_content"],
)
def test_a_journal_is_recognised_by_the_last_row(
    journal: list[Entry], epochs: int, expected: list[int] | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archived(tmp_path, "t", [rows(1, 7)])
    for _ in range(2):
        found = copied(JournalStore({"t": journal}), tmp_path)
        assert expected in (found, None)
    assert thing_files(tmp_path, "t")[-1].epoch == epochs
    assert len([record for record in caplog.records if "starts another epoch" in record.message]) == epochs - 1


@pytest.mark.filterwarnings("ignore:the archive has no dweet")  # of a thing that the helper also asks for
def test_an_archive_of_an_earlier_version_is_continued(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "tests/toolkit/archive/earlier_archive", tmp_path, dirs_exist_ok=True)
    journal = [
        entry._replace(data=dweet_record("kitchen", entry.at, b'{"n":%d,"text":"\\u00fc"}' % entry.sequence))
        for entry in entries(1, 4)
    ]
    store = JournalStore({"kitchen": journal})
    store.stored = {"kitchen": 2}
    copied(store, tmp_path)
    assert [(file.epoch, file.first, file.last) for file in thing_files(tmp_path, "kitchen")] == [
        *((1, 3, 6), (2, 1, 2), (2, 3, 4))
    ]


def test_numbers_missing_between_two_rows() -> None:
    assert missing_between(7, 8) is None
    assert missing_between(7, 10) == (8, 9)
    assert missing_between(7, 1_000_000_001) is None, "a Redis store continues there after a failover"
    assert missing_between(7, 1_000_000_003) == (1_000_000_001, 1_000_000_002)


async def test_a_thing_late_in_the_order_is_copied_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared store may list it after many things without news."""
    monkeypatch.setattr(archiving, "NAMES_WITHOUT_NEWS", 20)
    monkeypatch.setattr(archiving, "PASSES_PER_FULL_CHECK", 60)
    store = JournalStore({**{str(number): [] for number in range(20)}, "t": []})
    async with copier_of(store, tmp_path) as copier:
        await copier.copy_all()
        store.things["t"] = entries(1, 1)
        for _ in range(59):
            await copier.copy_all()
        assert thing_files(tmp_path, "t") == []
        await copier.copy_all()
    assert numbers(Archive(tmp_path), "t") == [1]


def test_an_equal_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    attempts, outcomes = archiving.Attempts(), [None, "away", "away", "full", None, "full"]
    caplog.set_level(logging.ERROR)
    for outcome in outcomes:
        with attempts:
            if outcome:
                raise StoreUnavailable(outcome)
    assert [record.message.partition(";")[0] for record in caplog.records] == ["away", "full", "full"]
