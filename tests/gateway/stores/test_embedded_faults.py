"""The embedded store when its disk or its process fails: damage, a full disk, SIGKILL."""

from __future__ import annotations

import asyncio
import random
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from rocksdict import Options

from tests.conftest import ROOT, Caller
from tests.gateway.stores.conftest import Hook, fail_once
from tests.gateway.stores.opened_stores import opened_store, persist, with_store
from tests.gateway.stores.test_embedded_store import ids, line
from tests.kept_folder import kept_contents
from tests.mail_server import eventually
from toolkit.errors import OutcomeUnknown, StoreUnavailable
from toolkit_gateway import Gateway
from toolkit_gateway.stores import NewEntry
from toolkit_gateway.stores.embedded import EmbeddedStore

# Writes to a folder until it is killed, and says what was acknowledged. Small buffers: RocksDB flushes and compacts
# all the time, so that a kill hits it in the middle of that too.
_WRITER = """
import asyncio, pathlib, sys
from toolkit_gateway.stores import NewEntry, embedded_database
from toolkit_gateway.stores.embedded import EmbeddedStore
embedded_database.WRITE_BUFFER = 64 << 10
async def post(store, who):
    data = bytes(range(256)) * 2
    number = await store.records.increment("posted", str(who))
    while True:
        number = (await store.journals.append(f"thing {who}", [NewEntry(number, f"{who}", data)], 2_000))[0].sequence
        sys.stdout.write(f"{who} {number}\\n")
        await store.records.put("posted", str(who), b"%d" % number)
        if number % 50 == 0:
            sys.stdout.flush()
async def run():
    store = EmbeddedStore(pathlib.Path(sys.argv[1]), lambda: 0)
    await store.open()
    await asyncio.gather(*(post(store, who) for who in range(8)))
asyncio.run(run())
"""


def write_until_killed(folder: Path, lines: int) -> list[int]:
    """Return the highest acknowledged number of each of 8 journals; the writer is killed after so many lines."""
    acknowledged = [0] * 8
    command = [sys.executable, "-c", _WRITER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        assert writer.stdout is not None
        for count, said in enumerate(writer.stdout):
            if count == lines:
                writer.send_signal(signal.SIGKILL)
            if said.endswith("\n"):
                who, number = map(int, said.split())
                acknowledged[who] = number
    assert writer.returncode == -signal.SIGKILL, "it ran until it was killed"
    return acknowledged


async def check_kept(store: EmbeddedStore, acknowledged: list[int]) -> None:
    for who, number in enumerate(acknowledged):
        entries = await store.journals.last(f"thing {who}", 2_000)
        numbers = [entry.sequence for entry in entries]
        assert numbers == list(range(numbers[0], numbers[-1] + 1)), "in order, none twice"
        assert number <= numbers[-1], "nothing acknowledged is lost"
        assert len(numbers) == min(2_000, numbers[-1])
        posted = await store.records.get("posted", str(who))
        assert posted is not None
        assert numbers[-1] - int(posted) in (0, 1), "journals and records are one history"


@pytest.mark.parametrize("times", [3, pytest.param(200, marks=[pytest.mark.long, pytest.mark.timeout(3_000)])])
def test_kills_under_load_lose_nothing(tmp_path: Path, times: int) -> None:
    chance, highest = random.Random(times), [0] * 8
    for _ in range(times):
        acknowledged = write_until_killed(tmp_path, chance.randrange(200, 5_000))
        highest = [max(pair) for pair in zip(highest, acknowledged, strict=True)]
        with_store(tmp_path, partial(check_kept, acknowledged=highest))


# -- damage -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with tables, logs and a MANIFEST, as a killed process leaves it."""
    folder = tmp_path_factory.mktemp("killed")
    write_until_killed(folder, 4_000)
    return folder


async def read_all(store: EmbeddedStore) -> int:
    return sum([len(await store.journals.after(name, 0)) for name in await store.journals.names("", 99)])


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 4
    file.write_bytes(data)


def largest_table(folder: Path) -> Path:
    """Return the largest table in use; a kill or a close may leave one of a compaction, which is removed unread."""
    tables, before = sorted((folder / "database").glob("*.sst")), None
    while tables != before:
        with_store(folder, read_all)
        tables, before = sorted((folder / "database").glob("*.sst")), tables
    return max(tables, key=lambda path: path.stat().st_size)


def manifest(folder: Path) -> Path:
    return folder / "database" / (folder / "database" / "CURRENT").read_text().strip()


def log(folder: Path) -> Path:
    return max((folder / "database").glob("*.log"), key=lambda path: path.stat().st_size)


def test_damage_is_refused_with_the_name_of_the_file(killed: Path, tmp_path: Path) -> None:
    damages = [(largest_table, truncate), (largest_table, flip_a_bit), (manifest, flip_a_bit), (log, flip_a_bit)]
    for number, (find, damage) in enumerate(damages):
        folder = tmp_path / str(number)
        shutil.copytree(killed, folder)
        file = find(folder)
        damage(file)
        with pytest.raises(StoreUnavailable, match=f"(?s)damaged.*{file.name}.*restore the folder from a backup"):
            with_store(folder, read_all)


def test_truncated_manifest_loses_no_entry(tmp_path: Path, hook: Hook) -> None:
    # There was no compaction, so no missing file shows that the MANIFEST has lost a table.
    hook("on_open", lambda options: options.set_write_buffer_size(64 << 10))

    async def work(store: EmbeddedStore) -> None:
        for number in range(25):
            await store.journals.append("a", [NewEntry(0, f"{number}.{n}", random.randbytes(1_000)) for n in range(5)])

    with_store(tmp_path / "whole", work)
    size = manifest(tmp_path / "whole").stat().st_size
    refusals = []
    for kept in {*range(0, size, 60), size - 1}:
        folder = tmp_path / str(kept)
        shutil.copytree(tmp_path / "whole", folder)
        file = manifest(folder)
        file.write_bytes(file.read_bytes()[:kept])
        try:
            assert with_store(folder, read_all) == 125, "only the note that a log is not needed is missing"
        except StoreUnavailable as error:
            refusals.append(str(error))
    assert len(refusals) > size // 120, "most are refused"
    assert [text for text in refusals if f"/{file.name}" not in text] == []


def test_torn_end_of_the_live_log_is_an_interrupted_write(killed: Path, tmp_path: Path) -> None:
    whole, torn = tmp_path / "whole", tmp_path / "torn"
    for folder in (whole, torn):
        shutil.copytree(killed, folder)
    live = max((torn / "database").glob("*.log"))
    assert live.stat().st_size > 100
    live.write_bytes(live.read_bytes()[:-10])
    count = with_store(whole, read_all)
    assert count - 16 <= with_store(torn, read_all) <= count, "the last batch is missing and nothing else"


def test_truncated_older_log_is_refused_by_name(tmp_path: Path, hook: Hook) -> None:
    # A second log is there for a moment only, while the table of the first is being written: make that moment long.
    def write_late(options: Options) -> None:
        options.set_write_buffer_size(64 << 10)
        options.set_max_write_buffer_number(16)
        options.set_min_write_buffer_number_to_merge(12)

    async def work(store: EmbeddedStore) -> None:
        for number in range(100):
            await store.journals.append("a", [NewEntry(0, f"{number}.{n}", bytes(500)) for n in range(5)])
        shutil.copytree(tmp_path / "open", tmp_path / "killed")

    hook("on_open", write_late)
    with_store(tmp_path / "open", work)
    hook("on_open", lambda options: None)
    shutil.copytree(tmp_path / "killed", tmp_path / "whole")
    assert with_store(tmp_path / "whole", read_all) == 500
    older, *_, _ = sorted((tmp_path / "killed" / "database").glob("*.log"))
    truncate(older)
    with pytest.raises(StoreUnavailable) as refused:
        with_store(tmp_path / "killed", read_all)
    assert older.name in str(refused.value)


# -- a full disk ------------------------------------------------------------------------------------------


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file of this process grow beyond 100 kB."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_full_disk_fails_every_caller_and_recovers(tmp_path: Path) -> None:
    async def work(store: EmbeddedStore) -> list[str]:
        kept: list[str] = []
        with full_disk():
            refusals: list[BaseException] = []
            for number in range(40):
                appends = [store.journals.append("a", [NewEntry(0, f"{number}.{n}", bytes(2_000))]) for n in range(5)]
                put = store.records.put("s", f"{number}", bytes(1_000))
                *outcomes, _ = await asyncio.gather(*appends, put, return_exceptions=True)
                kept += [entry.id for one in outcomes if isinstance(one, list) for entry in one]
                refusals += [one for one in outcomes if isinstance(one, BaseException)]
            assert {type(one) for one in refusals} == {OutcomeUnknown, StoreUnavailable}
            assert sum(isinstance(one, OutcomeUnknown) for one in refusals) == 5, "it is asked once, then known"
            assert "File too large" in str(refusals[-1])
            assert ids(await store.journals.last("a", 1_000)) == kept, "reading goes on"
        (entry,) = await persist(lambda: store.journals.append("a", [line("again")]))
        assert entry.sequence == len(kept) + 1, "no number was used up by what was never written"
        return [*kept, "again"]

    kept = with_store(tmp_path, work)
    assert len(kept) > 10
    assert ids(with_store(tmp_path, lambda store: store.journals.last("a", 1_000))) == kept


def test_full_disk_answers_503_and_recovers(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    with Gateway(tmp_path) as gateway:
        call = Caller(gateway)

        def post(number: int) -> object:
            said = call.post("kitchen", {"n": number, "fill": "x" * 2_000})
            if said["this"] == "succeeded":
                acknowledged.append(number)
                return 200
            return said["with"]

        with full_disk():
            answers = [post(number) for number in range(100)]
            assert (answers[0], answers[-1]) == (200, 503)
            latest = call.get("/get/latest/dweet/for/kitchen")["with"]
            assert latest[0]["content"]["n"] == acknowledged[-1], "reading goes on"
        eventually(lambda: post(100) == 200)
    assert [content["n"] for content in kept_contents(tmp_path, "kitchen")] == acknowledged


async def test_damaged_table_found_at_run_time_is_named(tmp_path: Path, hook: Hook) -> None:
    async def write(store: EmbeddedStore) -> None:
        await store.journals.append("a", [NewEntry(0, f"{n}", random.Random(n).randbytes(500)) for n in range(400)])

    for work in (write, read_all):  # from the log the entries come to a table
        async with opened_store(tmp_path) as store:
            await work(store)
    (table,) = (tmp_path / "database").glob("*.sst")
    flip_a_bit(table)
    async with opened_store(tmp_path) as store:
        with pytest.raises(StoreUnavailable, match=f"damaged.*{table.name}") as error:
            await store.journals.after("a", 0)
        (entry,) = await store.journals.append("b", [line("others are not affected")])
        assert entry.sequence == 1
        # The error keeps its frames, as in a log or a cell. They must not keep the old database open.
        fail_once(hook, "on_write")
        with pytest.raises(OutcomeUnknown):
            await store.journals.append("b", [line("lost")])
        await store.journals.append("b", [line("at once")])
        assert error.value
