"""The gateway's own archive. Of all gateways on one store, the one that holds the lease writes the archive.

Dweets are read from the journals after they are committed, so a slow, full or missing archive never delays a post.
Retention never drops dweets that are not archived: it stops at the position up to which a thing is archived, which the
store keeps. A position is stored after its files, so a crash leaves it behind the archive, never ahead of it.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from toolkit.archive.file_names import last_numbers
from toolkit.archive.parquet_files import Row
from toolkit.archive.writer import ArchiveWriter
from toolkit.errors import ArchiveUnusable, StoreUnavailable
from toolkit_gateway.dweets.contents import content_of
from toolkit_gateway.dweets.thing_cache import journal_of
from toolkit_gateway.stores import Entry, Store
from toolkit_gateway.worker_thread import WorkerThread

log = logging.getLogger("toolkit_gateway.archive")

_FAILURES = (ArchiveUnusable, StoreUnavailable)
_LEASE_KEY = "lease"
# Time for the last pass before the gateway stops; dweets not archived by then stay in the store until the next start.
_SECONDS_TO_CLOSE = 8.0
# A pass is followed by a pause of at least this many times its duration, which leaves time for posts to this process.
_MIN_PAUSE_PER_PASS = 4.0
_SPACE, _POSITION_PREFIX = "archive", "position:"
_POSITIONS_PER_CALL = 200
_JOURNAL_PREFIX = journal_of("")
_MAX_THINGS = 10_000_000
# How many entries one read of a journal returns at most, and after how many rows or bytes a file is written.
_ENTRIES_PER_READ, _ROWS_PER_FILE, _BYTES_PER_FILE = 500, 10_000, 16 * 1024 * 1024
# Every 6 passes, a check looks for dweets that were posted to other gateways. It reads the most recently written things
# first and stops after 200 without new dweets; every 600 passes it reads all, because a shared store's order is rough.
_PASSES_PER_CHECK, NAMES_WITHOUT_NEWS, PASSES_PER_FULL_CHECK = 6, 200, 600


class Attempts(contextlib.AbstractContextManager[None]):
    """Logs the failure of an attempt, unless the attempt before failed in the same way."""

    def __init__(self) -> None:
        self._last_error = ""

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> bool:
        text = str(error) if isinstance(error, _FAILURES) else ""
        if text and text != self._last_error:
            log.error("%s; dweets that are not archived yet stay in the store", text)
        self._last_error = text
        return bool(text)


class Archiving:
    """Archives the dweets of a store every `seconds`, while this gateway holds the lease."""

    def __init__(self, store: Store, folder: Path, now: Callable[[], int], seconds: float, lease: float) -> None:
        self._leases = store.ephemeral
        # One thread for all jobs, because Python 3.12 starts no new thread while the process ends.
        self._thread = WorkerThread("gateway-archive")
        self._copier = JournalCopier(store, folder, self._thread)
        self.note_post = self._copier.note_post
        self._now = now
        self._seconds = seconds
        self._lease = lease
        self._token = secrets.token_hex(8).encode("ascii")
        self._lease_task: asyncio.Task[None] | None = None
        self._copy_task: asyncio.Task[None] | None = None
        self._is_closing = asyncio.Event()
        self._unsubscribe: Callable[[], None] = lambda: None

    async def open(self) -> None:
        self._unsubscribe = await self._copier.subscribe()
        await self._renew_lease()
        self._lease_task = asyncio.ensure_future(self._keep_lease())

    async def close(self) -> None:
        """Archive the rest, if that takes only a few seconds, and release the lease."""
        self._is_closing.set()
        try:
            with Attempts():
                async with asyncio.timeout(_SECONDS_TO_CLOSE):
                    if self._lease_task is not None:
                        await self._lease_task
                    await self._stop_copying()
                    await self._copier.copy_all(complete=True)
        except TimeoutError:
            log.error("the gateway stops before everything is archived; the other dweets stay in the store")
        finally:
            await self._copier.close()
            self._unsubscribe()
            self._thread.end()
        with Attempts():
            await self._leases.compare_and_set(_SPACE, {_LEASE_KEY: self._token}, {_LEASE_KEY: None})

    async def _keep_lease(self) -> None:
        renewals = Attempts()
        while not self._is_closing.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_closing.wait(), self._lease / 3)
                return
            with renewals:
                await self._renew_lease()

    async def _renew_lease(self) -> None:
        """Renew or take the ephemeral lease, and start or stop archiving accordingly."""
        compare_and_set, until = self._leases.compare_and_set, self._now() + round(self._lease * 1000)
        mine = {_LEASE_KEY: self._token}
        if not (
            await compare_and_set(_SPACE, mine, mine, until)
            or await compare_and_set(_SPACE, {_LEASE_KEY: None}, mine, until)
        ):
            await self._stop_copying()
            await self._copier.close()
            return
        if self._copier.is_open and self._copy_task is not None and self._copy_task.done():
            log.error("archiving begins again after a bug of the gateway", exc_info=self._copy_task.exception())
            await self._copier.close()
        if not self._copier.is_open:
            await self._copier.open()
            self._copy_task = asyncio.ensure_future(self._keep_copying())

    async def _keep_copying(self) -> None:
        passes, pause = Attempts(), self._seconds
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            with passes:
                await self._copier.copy_all()
            pause = max(self._seconds, _MIN_PAUSE_PER_PASS * (time.monotonic() - began))

    async def _stop_copying(self) -> None:
        if self._copy_task is not None:
            self._copy_task.cancel()
            await asyncio.wait([self._copy_task])


class JournalCopier:
    """Copies new entries of the journals of a store to an archive."""

    def __init__(self, store: Store, folder: Path, thread: WorkerThread) -> None:
        self._store = store
        self._folder = folder
        self._thread = thread
        self._writer: ArchiveWriter | None = None
        self._stored_positions: dict[str, int] = {}
        self._new_positions: dict[str, int] = {}
        self._copied: dict[str, int] = {}
        self._posted: set[str] = set()
        self._passes = 0

    @property
    def is_open(self) -> bool:
        return self._writer is not None

    async def subscribe(self) -> Callable[[], None]:
        """Track how far any gateway has archived each thing; return a function to unsubscribe."""
        return await self._store.records.subscribe(_SPACE, self._note_position)

    def note_post(self, thing: str) -> int:
        """Note that a thing gets dweets, and return the position up to which its journal may be trimmed."""
        self._posted.add(thing)
        return self._stored_positions.get(thing, 0)

    def _note_position(self, key: str, value: bytes | None) -> None:
        if key.startswith(_POSITION_PREFIX) and value is not None:
            self._stored_positions[key.removeprefix(_POSITION_PREFIX)] = int(value)

    async def open(self) -> None:
        writer, archived = await self._thread.run(partial(_open_archive, self._folder))
        # The archive may be behind the stored positions, if the folder was moved away or restored.
        stored = self._stored_positions.items()
        try:
            await self._store_positions({thing: last for thing, at in stored if (last := archived.get(thing, 0)) < at})
        except StoreUnavailable:
            await self._thread.run(writer.close)
            raise
        self._copied.clear()
        self._new_positions.clear()
        self._passes = 0
        self._writer = writer

    async def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await self._thread.run(writer.close)

    async def copy_all(self, *, complete: bool = False) -> None:
        """Copy new entries of the things that may have some, or (if `complete`) also of the least likely ones."""
        if self._writer is None:
            return
        failures: list[ArchiveUnusable] = []
        for thing in self._posted.copy():
            await self._copy_or_note(self._writer, thing, failures)
        if complete or self._passes % _PASSES_PER_CHECK == 0:
            without_news = 0
            for name in await self._store.journals.names(_JOURNAL_PREFIX, _MAX_THINGS):
                if without_news >= NAMES_WITHOUT_NEWS and self._passes % PASSES_PER_FULL_CHECK:
                    break
                has_news = await self._copy_or_note(self._writer, name.removeprefix(_JOURNAL_PREFIX), failures)
                without_news = 0 if has_news else without_news + 1
        await self._store_positions(self._new_positions)
        self._new_positions.clear()
        self._passes += 1
        if failures:
            raise failures[-1]

    async def _copy_or_note(self, writer: ArchiveWriter, thing: str, failures: list[ArchiveUnusable]) -> bool:
        """Copy new entries of a thing, and return whether there were any; after a failure, the next pass tries again.

        The folder of one thing may be the cause of ArchiveUnusable: it goes to `failures`, so that others are copied.
        """
        self._posted.discard(thing)  # before the read, during which more may be posted
        try:
            return await self._copy(writer, thing)
        except (*_FAILURES, asyncio.CancelledError) as error:
            self._posted.add(thing)
            if not isinstance(error, ArchiveUnusable):
                raise
            failures.append(error)
            return False

    async def _copy(self, writer: ArchiveWriter, thing: str) -> bool:
        position = self._copied.pop(thing, None)
        if position is None:
            position = await self._resume(writer, thing)
        start = position
        while entries := await self._entries_of_a_file(thing, position):
            await self._thread.run(partial(_append, writer, thing, entries))
            position = self._new_positions[thing] = entries[-1].sequence
            if len(self._new_positions) >= _POSITIONS_PER_CALL:
                await self._store_positions(self._new_positions)
                self._new_positions.clear()
        self._copied[thing] = position  # not after a failure: then the next pass resumes at the end of the archive
        if position > start:
            await self._thread.run(partial(writer.merge, thing))
        return position > start

    async def _resume(self, writer: ArchiveWriter, thing: str) -> int:
        """Return the number of the last copied entry; 0 if the journal is not the one that was copied."""
        last = await self._thread.run(partial(writer.last, thing))
        if last is None:
            return 0
        # Read the entry of the last row again. It may be trimmed: then the next one continues the archive.
        first = next(map(_row, await self._store.journals.after(journal_of(thing), last.sequence - 1, 1)), None)
        if first is not None and (
            first.sequence > last.sequence or (first.at, first.content) == (last.at, last.content)
        ):
            return last.sequence
        log.warning("%s: the store has restarted its sequence numbers, so the archive starts another epoch", thing)
        await self._store_positions({thing: 0})
        self._new_positions.pop(thing, None)
        writer.restart(thing)
        return 0

    async def _entries_of_a_file(self, thing: str, position: int) -> list[Entry]:
        entries: list[Entry] = []
        size, is_end = 0, False
        while not is_end and len(entries) < _ROWS_PER_FILE and size < _BYTES_PER_FILE:
            read = await self._store.journals.after(journal_of(thing), position, _ENTRIES_PER_READ)
            entries += read
            size += sum(len(entry.data) for entry in read)
            position = entries[-1].sequence if entries else position
            is_end = len(read) < _ENTRIES_PER_READ
        return entries

    async def _store_positions(self, positions: Mapping[str, int]) -> None:
        pairs = [(f"{_POSITION_PREFIX}{thing}", b"%d" % number) for thing, number in positions.items()]
        for start in range(0, len(pairs), _POSITIONS_PER_CALL):
            changes = dict(pairs[start : start + _POSITIONS_PER_CALL])
            await self._store.records.compare_and_set(_SPACE, {}, changes)


def _open_archive(folder: Path) -> tuple[ArchiveWriter, dict[str, int]]:
    """Open an archive to write, and return the last number of each thing too."""
    with contextlib.ExitStack() as stack:
        writer = stack.enter_context(ArchiveWriter(folder))
        writer.clean()
        archived = last_numbers(folder)
        stack.pop_all()
    return writer, archived


def _append(writer: ArchiveWriter, thing: str, entries: Sequence[Entry]) -> None:
    writer.append(thing, list(map(_row, entries)))


def _row(entry: Entry) -> Row:
    return Row(entry.sequence, entry.at * 1000, entry.id, content_of(entry.data))
