"""The gateway's own archive. Of all gateways on one store, the one that holds the lease archives.

Dweets are read from the journals after they were committed, so a slow, full or missing archive delays no post. A
journal is never cut above what is archived. The positions in the store's records may lag behind and never run ahead.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Any, TypeVar

from toolkit.dweets.archive.epochs import Progress
from toolkit.dweets.archive.follower import Batch, Follower, SourceUnavailable
from toolkit.dweets.archive.rows import Row
from toolkit.dweets.archive.writer import ArchiveWriter
from toolkit.dweets.content import content_of
from toolkit.dweets.service.things import journal_of
from toolkit.errors import ArchiveUnusable, StoreUnavailable
from toolkit.stores import Store

log = logging.getLogger("toolkit.gateway.archive")

T = TypeVar("T")

_LEASE = "lease"
# For the last pass; what remains is still in the store at the next start.
_SECONDS_TO_CLOSE = 8.0
_SPACE, _POSITION = "archive", "position:"
_POSITIONS_A_CHANGE = 200
_PREFIX = journal_of("")
_MOST_THINGS = 10_000_000
# What is read from a journal at once, and what becomes one file.
_ENTRIES_A_READ, _ROWS_A_FILE, _BYTES_A_FILE = 500, 10_000, 16 * 1024 * 1024
# Every so many passes all names are checked for dweets posted to other gateways. The most recently written come first,
# so the check ends after so many names without a new dweet. A shared store orders names by times that lag by seconds,
# so now and then a check reads all of them.
_PASSES_A_CHECK, _NAMES_WITHOUT_NEWS, _PASSES_A_FULL_CHECK = 6, 200, 600


class Archiving:
    """Follow a store every so many `seconds` while this gateway holds the lease; then another one takes over."""

    def __init__(self, store: Store, folder: Path, now: Callable[[], int], seconds: float, lease: float) -> None:
        self._store = store
        self._source = StoreSource(store)
        self.floor = self._source.floor
        self._folder = folder
        self._now = now
        self._seconds = seconds
        self._lease = lease
        self._token = secrets.token_hex(8).encode("ascii")
        self._follower: Follower | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._is_closing = asyncio.Event()
        self._unwatch: Callable[[], None] = lambda: None
        self._complaint = ""

    @property
    def is_active(self) -> bool:
        return self._follower is not None

    async def open(self) -> None:
        self._unwatch = await self._source.watch()
        try:
            await self._follow_lease()
            if self._follower is None:
                await asyncio.to_thread(_check_writable, self._folder)
        except BaseException as error:
            await self.close()
            if isinstance(error, SourceUnavailable):
                raise StoreUnavailable(str(error)) from None
            raise
        self._keeper = asyncio.ensure_future(self._keep_lease())

    async def close(self) -> None:
        self._is_closing.set()
        stopping = asyncio.ensure_future(self._finish())
        await asyncio.wait([stopping], timeout=_SECONDS_TO_CLOSE)
        if not stopping.done():
            self._source.cancel()
        try:
            await stopping
        except (ArchiveUnusable, SourceUnavailable, StoreUnavailable) as error:
            self._complain(error)
        finally:
            self._unwatch()

    async def _follow_lease(self) -> None:
        # Take or renew the lease. It is ephemeral, so after a restart of all gateways it is free at once.
        compare_and_set, until = self._store.ephemeral.compare_and_set, self._now() + round(self._lease * 1000)
        mine = {_LEASE: self._token}
        if not (
            await compare_and_set(_SPACE, mine, mine, until)
            or await compare_and_set(_SPACE, {_LEASE: None}, mine, until)
        ):
            await self._stop(flush=False)
        elif self._follower is None:
            self._follower = await asyncio.to_thread(Follower, self._folder, self._source, self._seconds, log)

    async def _finish(self) -> None:
        if self._keeper is not None:
            await self._keeper  # it is not cancelled, as it may be opening the archive
        try:
            await self._stop(flush=True)
        finally:
            await self._store.ephemeral.compare_and_set(_SPACE, {_LEASE: self._token}, {_LEASE: None})

    async def _keep_lease(self) -> None:
        while not self._is_closing.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_closing.wait(), self._lease / 3)
                return
            try:
                await self._follow_lease()
                self._complaint = ""
            except (ArchiveUnusable, SourceUnavailable, StoreUnavailable) as error:
                self._complain(error)

    async def _stop(self, *, flush: bool) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            await asyncio.to_thread(follower.close, flush=flush)

    def _complain(self, error: Exception) -> None:
        if str(error) != self._complaint:
            log.error("%s; the store keeps what is not archived yet", error)
        self._complaint = str(error)


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise ArchiveUnusable(f"the archive {folder} cannot be written: {error.strerror}") from None


class StoreSource:
    """Deliver the dweets of a store. `watch`, `floor` and `cancel` run on the store's loop, the rest in a thread."""

    def __init__(self, store: Store) -> None:
        self.waiting = 0  # the journals hold what is not archived
        self._store = store
        self._positions: dict[str, int] = {}
        self._posted: set[str] = set()
        self._progress: dict[str, Progress] = {}
        self._passes = 0
        self._last_archived: Batch | None = None
        self._pending: Future[Any] | None = None
        self._is_cancelled = False

    async def watch(self) -> Callable[[], None]:
        """Follow how far each thing is archived, by any gateway; return the function that ends it."""
        self._loop = asyncio.get_running_loop()
        return await self._store.records.subscribe(_SPACE, self._learn)

    def floor(self, thing: str) -> int:
        """Return how far a thing's journal may be cut, before something is posted to it."""
        self._posted.add(thing)
        return self._positions.get(thing, 0)

    def cancel(self) -> None:
        """End the call to the store that is being waited for, and refuse further ones."""
        self._is_cancelled = True
        if self._pending is not None:
            self._pending.cancel()

    def _learn(self, key: str, value: bytes | None) -> None:
        if key.startswith(_POSITION) and value is not None:
            self._positions[key.removeprefix(_POSITION)] = int(value)

    def open(self, writer: ArchiveWriter) -> None:
        self._writer = writer
        self._progress.clear()
        self._passes = 0
        # The folder may have been moved away or restored.
        published = self._positions.copy()
        numbers = dict.fromkeys(published, 0) | {thing: writer.position(thing).sequence for thing in writer.things()}
        self._publish({thing: number for thing, number in numbers.items() if published.get(thing) != number})

    def start(self, wake: Callable[[], None]) -> None:
        pass  # the journals collect the dweets, and no write is urgent

    def complete(self) -> None:
        # A post may have come between two passes: the next one checks all names.
        self._passes += -self._passes % _PASSES_A_CHECK

    def stop(self) -> None:
        pass  # the last pass is a complete one

    def batches(self) -> Iterator[Batch]:
        failures: list[ArchiveUnusable] = []
        for thing in self._posted.copy():
            yield from self._batches_of(thing, failures)
        if self._passes % _PASSES_A_CHECK == 0:
            yield from self._batches_of_others(failures)
        self._passes += 1
        if failures:
            raise failures[0]

    def archived(self, batch: Batch) -> None:
        self._last_archived = batch
        self._publish({batch.thing: batch.rows[-1].sequence})

    def _batches_of_others(self, failures: list[ArchiveUnusable]) -> Iterator[Batch]:
        without_news = 0
        for name in self._call(lambda: self._store.journals.names(_PREFIX, _MOST_THINGS)):
            without_news += 1
            for batch in self._batches_of(name.removeprefix(_PREFIX), failures):
                without_news = 0
                yield batch
            if without_news >= _NAMES_WITHOUT_NEWS and self._passes % _PASSES_A_FULL_CHECK:
                return

    def _batches_of(self, thing: str, failures: list[ArchiveUnusable]) -> Iterator[Batch]:
        is_done = False
        self._posted.discard(thing)  # first, as something may be posted while its journal is read
        try:
            while batch := self._read(thing):
                yield batch
                if self._last_archived is not batch:
                    return
                if len(batch.rows) < _ENTRIES_A_READ:
                    break
            is_done = True
        except ArchiveUnusable as error:  # the folder of this thing may be the cause: the others follow
            failures.append(error)
        finally:
            if not is_done:  # the next pass starts again where the archive ends
                self._progress.pop(thing, None)
                self._posted.add(thing)

    def _read(self, thing: str) -> Batch | None:
        progress = self._progress.get(thing) or self._resume(thing)
        rows: list[Row] = []
        size = 0
        while len(rows) < _ROWS_A_FILE and size < _BYTES_A_FILE:
            read = self._after(thing, progress.sequence, _ENTRIES_A_READ)
            for row in read:
                progress.advance(row)
            rows += read
            size += sum(len(row.content) for row in read)
            if len(read) < _ENTRIES_A_READ:
                break
        return Batch(thing, progress.epoch, rows) if rows else None

    def _resume(self, thing: str) -> Progress:
        progress = Progress(thing, self._writer.position(thing), self._writer.last(thing), log)
        first = self._after(thing, progress.resume_after, 1)
        if not progress.recognises(first[0] if first else None):
            progress.start_epoch()
            self._publish({thing: 0})
        self._progress[thing] = progress
        return progress

    def _after(self, thing: str, number: int, count: int) -> list[Row]:
        entries = self._call(lambda: self._store.journals.after(journal_of(thing), number, count))
        return [Row(entry.sequence, entry.at * 1000, entry.id, content_of(entry.data)) for entry in entries]

    def _publish(self, numbers: Mapping[str, int]) -> None:
        pairs = [(f"{_POSITION}{thing}", b"%d" % number) for thing, number in numbers.items()]
        for start in range(0, len(pairs), _POSITIONS_A_CHANGE):
            changes = dict(pairs[start : start + _POSITIONS_A_CHANGE])
            self._call(lambda: self._store.records.compare_and_set(_SPACE, {}, changes))  # noqa: B023 - called at once

    def _call(self, ask: Callable[[], Awaitable[T]]) -> T:
        async def answer() -> T:
            return await ask()

        self._pending = future = asyncio.run_coroutine_threadsafe(answer(), self._loop)
        if self._is_cancelled:
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            raise SourceUnavailable("the gateway stops before all is archived") from None
        except StoreUnavailable as error:
            raise SourceUnavailable(str(error)) from None
