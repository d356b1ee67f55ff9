"""The gateway's own archive: every dweet of every thing, from the store into a folder, beside the event loop.

What is archived is read from the journals, after it was committed and at its own pace; so an archive that is slow,
full or away costs no post. A journal is cut to what is kept, but never above what is archived: it is the buffer.

Of many gateways on one store one archives, the one that holds the lease; the others take it over when it ends. How
far each thing is archived is told to all of them in the store's records. That is a hint that may lag behind and never
runs ahead: the truth are the names of the archive's files.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from toolkit.dweets import lease
from toolkit.dweets.archive.files import missing_between
from toolkit.dweets.archive.rows import Row
from toolkit.dweets.archive.writer import ArchiveWriter, Position
from toolkit.dweets.content import content_of
from toolkit.dweets.things import journal_of
from toolkit.errors import ArchiveUnusable
from toolkit.gateway.stores import Entry, Store, StoreUnavailable

log = logging.getLogger("toolkit.gateway.archive")

T = TypeVar("T")

_SPACE, _LEASE, _POSITION = "archive", "lease", "position"
_PREFIX = journal_of("")
_MOST_THINGS = 10_000_000
# What is read from a journal at once, and what becomes one file.
_LINES_A_READ = 500
_ROWS_A_FILE = 10_000
_BYTES_A_FILE = 16 * 1024 * 1024
# Passes between two looks at all names for what other gateways have written; and how many names without anything new
# end such a look, as those written last come first.
_PASSES_A_LOOK = 6
_NAMES_WITHOUT_NEWS = 200
# A pass takes at most a fifth of the time.
_PAUSE_FACTOR = 4.0
# For the last pass; what it does not reach stays in the store for the next start.
_SECONDS_TO_CLOSE = 8.0
# How many things' positions are told to the other gateways at once.
_POSITIONS_A_CHANGE = 200


class Archiving:
    """Write the dweets of a store to an archive, as long as this gateway holds the lease.

    Parameters
    ----------
    store
        Where the dweets are.
    folder
        Of the archive.
    now
        The gateway's clock in milliseconds since the epoch.
    seconds
        Between two passes.
    """

    def __init__(self, store: Store, folder: Path, now: Callable[[], int], seconds: float) -> None:
        self._store = store
        self._folder = folder
        self._now = now
        self._seconds = seconds
        self._token = secrets.token_hex(8).encode("ascii")
        self._archived: dict[str, int] = {}
        self._fresh: set[str] = set()
        self._checked: dict[str, int] = {}
        self._writer: ArchiveWriter | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="archive")
        self._tasks: list[asyncio.Task[None]] = []
        self._passes = 0
        self._failure: ArchiveUnusable | None = None
        self._complaint = ""
        self._unwatch: Callable[[], None] = lambda: None

    def floor(self, thing: str) -> int:
        """Return the number up to which a thing's journal may be cut."""
        self._fresh.add(thing)
        return self._archived.get(thing, 0)

    async def open(self) -> None:
        """Begin to archive, or stand by where another gateway on this store does.

        Raises
        ------
        ArchiveUnusable
            The folder cannot be written, or somebody else than a gateway on this store writes to it.
        """
        self._unwatch = await self._store.records.watch(_SPACE, self._mirror)
        try:
            if await self._hold_lease():
                await self._take_over()
            else:
                await self._in_thread(lambda: _check_writable(self._folder))
        except ArchiveUnusable:
            await self.close()
            raise
        self._tasks = [asyncio.ensure_future(self._keep_lease()), asyncio.ensure_future(self._archive_for_ever())]

    async def close(self) -> None:
        """Archive what is committed, and let go of the folder."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._unwatch()
        try:
            if self._writer is not None:
                self._passes = _PASSES_A_LOOK  # a look at all names: a post may have come between two passes
                async with asyncio.timeout(_SECONDS_TO_CLOSE):
                    await self._pass()
        except (ArchiveUnusable, StoreUnavailable, TimeoutError) as error:
            self._complain(error)
        finally:
            await self._stand_by()
            with self._complaining():
                await self._give_lease_back()
            self._thread.shutdown()

    def _mirror(self, key: str, value: bytes | None) -> None:
        kind, _, thing = key.partition(":")
        if kind == _POSITION and value is not None:
            self._archived[thing] = int(value)

    # -- one gateway of many -------------------------------------------------------------------------------

    async def _hold_lease(self) -> bool:
        """Take the lease, or hold it for longer. Fleeting: after a restart of all gateways it is free at once."""
        swap, until = self._store.fleeting.swap, self._now() + round(lease.LEASE_SECONDS * 1000)
        mine = {_LEASE: self._token}
        return await swap(_SPACE, mine, mine, until) or await swap(_SPACE, {_LEASE: None}, mine, until)

    async def _give_lease_back(self) -> None:
        await self._store.fleeting.swap(_SPACE, {_LEASE: self._token}, {_LEASE: None})

    async def _keep_lease(self) -> None:
        while True:
            await asyncio.sleep(lease.LEASE_SECONDS / 3)
            with self._complaining():
                if not await self._hold_lease():
                    await self._stand_by()
                elif self._writer is None:
                    await self._take_over()

    async def _take_over(self) -> None:
        """Open the archive, and tell where it really stands: it may have been moved away or put back."""
        folder = self._folder

        def opened() -> tuple[ArchiveWriter, dict[str, Position]]:
            writer = ArchiveWriter(folder)
            try:
                writer.clean()
                return writer, {thing: writer.position(thing) for thing in writer.things()}
            except BaseException:
                writer.close()
                raise

        writer, positions = await self._in_thread(opened)
        told = {thing: 0 for thing in self._archived} | {thing: at.sequence for thing, at in positions.items()}
        self._checked.clear()
        self._passes = 0
        self._writer = writer
        await self._tell({thing: number for thing, number in told.items() if self._archived.get(thing) != number})

    async def _stand_by(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await self._in_thread(writer.close)

    async def _tell(self, numbers: dict[str, int]) -> None:
        """Tell all gateways up to where journals may be cut."""
        pairs = list(numbers.items())
        for start in range(0, len(pairs), _POSITIONS_A_CHANGE):
            some = pairs[start : start + _POSITIONS_A_CHANGE]
            changes: dict[str, bytes | None] = {f"{_POSITION}:{thing}": b"%d" % number for thing, number in some}
            await self._store.records.swap(_SPACE, {}, changes)

    # -- archiving ----------------------------------------------------------------------------------------

    async def _archive_for_ever(self) -> None:
        pause = self._seconds
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            with self._complaining():
                await self._pass()
            pause = max(self._seconds, _PAUSE_FACTOR * (time.monotonic() - began))

    async def _pass(self) -> None:
        """Archive what was posted here, and now and then what other gateways have taken."""
        fresh, self._fresh = self._fresh, set()
        self._failure = None
        try:
            for thing in list(fresh):
                await self._attempt(thing)
                fresh.discard(thing)
        finally:
            self._fresh |= fresh  # what a store that is away has left
        if self._passes % _PASSES_A_LOOK == 0:
            await self._archive_others(all_of_them=self._passes == 0)
        self._passes += 1
        if self._failure is not None:
            raise self._failure

    async def _archive_others(self, *, all_of_them: bool) -> None:
        without_news = 0
        for name in await self._store.journals.names(_PREFIX, _MOST_THINGS):
            has_news = await self._attempt(name.removeprefix(_PREFIX))
            without_news = 0 if has_news else without_news + 1
            if without_news >= _NAMES_WITHOUT_NEWS and not all_of_them:
                return

    async def _attempt(self, thing: str) -> bool:
        """Archive what is new of a thing; tells whether anything was.

        Where that fails, it is perhaps for this one only: it is tried again in the next pass, the others now.
        """
        try:
            return await self._archive(thing)
        except ArchiveUnusable as error:
            self._failure = error
            self._fresh.add(thing)
            return False

    async def _archive(self, thing: str) -> bool:
        """Archive what is new of a thing; tells whether anything was."""
        writer = self._writer
        if writer is None:
            return False
        epoch, number = await self._begin(writer, thing)
        before = number
        while entries := await self._after(thing, number):
            if self._writer is not writer:
                return False  # the lease was lost meanwhile
            rows = [Row(entry.sequence, entry.at * 1000, entry.id, content_of(entry.data)) for entry in entries]
            if missing := missing_between(number, rows[0].sequence):
                log.warning("%s: the dweets %d to %d are gone from the store", thing, *missing)
            await self._in_thread(lambda: _write(writer, thing, rows, epoch))  # noqa: B023
            number = rows[-1].sequence
            await self._tell({thing: number})
        return number > before

    async def _begin(self, writer: ArchiveWriter, thing: str) -> Position:
        """Return where to go on; at the first time, look whether the store still counts as the archive does."""
        if thing not in self._checked:
            position, last = await self._in_thread(lambda: (writer.position(thing), writer.last(thing)))
            self._checked[thing] = position.epoch
            if last is not None and not await self._is_known(thing, last):
                log.warning("%s: the store counts anew; what comes now is epoch %d", thing, position.epoch + 1)
                self._checked[thing] += 1
                await self._tell({thing: 0})
        position, epoch = writer.position(thing), self._checked[thing]
        return position if position.epoch == epoch else Position(epoch, 0)

    async def _is_known(self, thing: str, last: Row) -> bool:
        found = await self._store.journals.after(journal_of(thing), last.sequence - 1, 1)
        if not found:
            return False  # it ends before what is archived
        (entry,) = found
        if entry.sequence > last.sequence:
            return True  # it was cut
        is_same = entry.at * 1000 == last.at and content_of(entry.data) == last.content
        return is_same and last.transaction in (None, entry.id)

    async def _after(self, thing: str, number: int) -> list[Entry]:
        """Return the next entries that become one file."""
        found: list[Entry] = []
        size = 0
        while len(found) < _ROWS_A_FILE and size < _BYTES_A_FILE:
            last = found[-1].sequence if found else number
            more = await self._store.journals.after(journal_of(thing), last, _LINES_A_READ)
            found += more
            size += sum(len(entry.data) for entry in more)
            if len(more) < _LINES_A_READ:
                break
        return found

    # -- beside the loop ----------------------------------------------------------------------------------

    async def _in_thread(self, work: Callable[[], T]) -> T:
        # Shielded: a file that is being written is not forgotten because somebody stops waiting for it.
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work))

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        try:
            yield
            self._complaint = ""
        except (ArchiveUnusable, StoreUnavailable) as error:
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        complaint = str(error) or "the archive takes too long"
        if complaint != self._complaint:
            log.error("%s; the store keeps what is not archived yet", complaint)
        self._complaint = complaint


def _write(writer: ArchiveWriter, thing: str, rows: Sequence[Row], epoch: int) -> None:
    writer.append(thing, rows, epoch)
    writer.join(thing)


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise ArchiveUnusable(f"the archive {folder} cannot be written: {error.strerror}") from None
