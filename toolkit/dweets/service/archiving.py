"""The gateway's own archive. Of all gateways on one store, the one that holds the lease writes the archive.

Dweets are read from the journals after they are committed, so a slow, full or missing archive never delays a post.
Retention never drops dweets that are not archived: it stops at the position up to which a thing is archived, which the
store keeps. A position is stored after its files, so a crash leaves it behind the archive, never ahead of it.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from toolkit.dweets.archive.file_names import all_files
from toolkit.dweets.archive.follower import Batch, Follower, Progress
from toolkit.dweets.archive.parquet_files import Row
from toolkit.dweets.archive.writer import ArchiveWriter
from toolkit.dweets.content import content_of
from toolkit.dweets.service.things import journal_of
from toolkit.errors import ArchiveUnusable, StoreUnavailable
from toolkit.stores import Store
from toolkit.worker_thread import WorkerThread

log = logging.getLogger("toolkit.gateway.archive")

T = TypeVar("T")

_FAILURES = (ArchiveUnusable, StoreUnavailable)
_LEASE_KEY = "lease"
# Time for the last pass before the gateway stops; dweets not archived by then stay in the store until the next start.
_SECONDS_TO_CLOSE = 8.0
_SPACE, _POSITION_PREFIX = "archive", "position:"
_POSITIONS_PER_CALL = 200
_JOURNAL_PREFIX = journal_of("")
_MAX_THINGS = 10_000_000
# How many entries one read of a journal returns at most, and after how many rows or bytes a file is written.
_ENTRIES_PER_READ, _ROWS_PER_FILE, _BYTES_PER_FILE = 500, 10_000, 16 * 1024 * 1024
# Every 6 passes, a check looks for dweets that were posted to other gateways. It reads the most recently written things
# first and stops after 200 without new dweets; every 600 passes it reads all, because a shared store's order is rough.
_PASSES_PER_CHECK, NAMES_WITHOUT_NEWS, PASSES_PER_FULL_CHECK = 6, 200, 600


class Archiving:
    """Archives the dweets of a store every `seconds`, while this gateway holds the lease."""

    def __init__(self, store: Store, folder: Path, now: Callable[[], int], seconds: float, lease: float) -> None:
        self._store = store
        self._source = StoreSource(store)
        self.note_post = self._source.note_post
        self._open_follower = partial(Follower, folder, self._source, seconds, log)
        self._now = now
        self._lease = lease
        self._token = secrets.token_hex(8).encode("ascii")
        self.follower: Follower | None = None  # only while this gateway holds the lease
        self._lease_task: asyncio.Task[None] | None = None
        self._is_closing = asyncio.Event()
        self._unsubscribe: Callable[[], None] = lambda: None
        # One thread for all jobs, because Python 3.12 starts no new thread while the process ends.
        self._thread = WorkerThread("gateway-archive")
        self._last_error = ""

    async def open(self) -> None:
        self._unsubscribe = await self._source.subscribe()
        await self._renew_lease()
        self._lease_task = asyncio.ensure_future(self._keep_lease())

    async def close(self) -> None:
        self._is_closing.set()
        stopping = self._lease_task or asyncio.ensure_future(self._keep_lease())
        await asyncio.wait([stopping], timeout=_SECONDS_TO_CLOSE)
        if not stopping.done():
            self._source.cancel()
        try:
            await stopping
        except _FAILURES as error:
            self._log_if_new(error)
        finally:
            self._unsubscribe()
            self._thread.end()

    async def _renew_lease(self) -> None:
        """Renew or take the ephemeral lease, and start or stop the follower accordingly."""
        compare_and_set, until = self._store.ephemeral.compare_and_set, self._now() + round(self._lease * 1000)
        mine = {_LEASE_KEY: self._token}
        if not (
            await compare_and_set(_SPACE, mine, mine, until)
            or await compare_and_set(_SPACE, {_LEASE_KEY: None}, mine, until)
        ):
            await self._stop_follower(flush=False)
        elif self.follower is None:
            self.follower = await self._thread.run(self._open_follower)

    async def _keep_lease(self) -> None:
        """Renew the lease until `close`, then archive the rest and release the lease."""
        while not self._is_closing.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_closing.wait(), self._lease / 3)
                break
            try:
                await self._renew_lease()
                self._last_error = ""
            except _FAILURES as error:
                self._log_if_new(error)
        try:
            await self._stop_follower(flush=True)
        finally:
            await self._store.ephemeral.compare_and_set(_SPACE, {_LEASE_KEY: self._token}, {_LEASE_KEY: None})

    async def _stop_follower(self, *, flush: bool) -> None:
        follower, self.follower = self.follower, None
        if follower is not None:
            await self._thread.run(lambda: follower.close(flush=flush))

    def _log_if_new(self, error: Exception) -> None:
        if str(error) != self._last_error:
            log.error("%s; dweets that are not archived yet stay in the store", error)
        self._last_error = str(error)


class StoreSource:
    """A store's dweets for a `Follower`; `subscribe`, `note_post`, `cancel` run on the loop, the others in a thread."""

    def __init__(self, store: Store) -> None:
        self.received = 0  # always 0: rows wait in the journals, not in memory
        self._store = store
        self._positions: dict[str, int] = {}
        self._posted: set[str] = set()
        self._progress: dict[str, Progress] = {}
        self._passes = 0
        self._has_news = False
        self._pending: Future[Any] | None = None
        self._is_cancelled = False

    async def subscribe(self) -> Callable[[], None]:
        """Track how far any gateway has archived each thing; return a function to unsubscribe."""
        self._loop = asyncio.get_running_loop()
        return await self._store.records.subscribe(_SPACE, self._note_position)

    def note_post(self, thing: str) -> int:
        """Note that a thing gets dweets, and return the position up to which its journal may be trimmed."""
        self._posted.add(thing)
        return self._positions.get(thing, 0)

    def cancel(self) -> None:
        """Cancel the pending call to the store and refuse further ones."""
        self._is_cancelled = True
        if self._pending is not None:
            self._pending.cancel()

    def _note_position(self, key: str, value: bytes | None) -> None:
        if key.startswith(_POSITION_PREFIX) and value is not None:
            self._positions[key.removeprefix(_POSITION_PREFIX)] = int(value)

    def open(self, writer: ArchiveWriter, wake: Callable[[], None]) -> None:
        # `wake` is never called: the journals hold the dweets, so no write is urgent.
        self._writer = writer
        self._progress.clear()
        self._passes = 0
        # The archive may be behind the stored positions, if the folder was moved away or restored.
        published = self._positions.copy()
        archived = {thing: writer.position(thing).sequence for thing in all_files(writer.folder)}
        numbers = dict.fromkeys(published, 0) | archived
        self._publish_positions({thing: number for thing, number in numbers.items() if published.get(thing) != number})

    def stop(self) -> None:
        pass  # rows are read only during a pass

    def things(self, *, complete: bool) -> Iterator[str]:
        yield from self._posted.copy()
        if complete or self._passes % _PASSES_PER_CHECK == 0:
            yield from self._things_by_last_post()
        self._passes += 1

    def _things_by_last_post(self) -> Iterator[str]:
        without_news = 0
        for name in self._call_store(lambda: self._store.journals.names(_JOURNAL_PREFIX, _MAX_THINGS)):
            if without_news >= NAMES_WITHOUT_NEWS and self._passes % PASSES_PER_FULL_CHECK:
                return
            self._has_news = False
            yield name.removeprefix(_JOURNAL_PREFIX)
            without_news = 0 if self._has_news else without_news + 1

    def batches(self, thing: str) -> Generator[Batch]:
        self._posted.discard(thing)  # before the read, during which more may be posted
        try:
            yield from self._batches_after(self._progress.get(thing) or self._resume(thing))
        except BaseException:  # also if a batch cannot be written: the next pass resumes at the end of the archive
            self._progress.pop(thing, None)
            self._posted.add(thing)
            raise

    def _batches_after(self, progress: Progress) -> Iterator[Batch]:
        rows: list[Row] = []
        size, is_end = 0, False
        while not is_end:
            read = self._rows_after(progress.thing, progress.sequence, _ENTRIES_PER_READ)
            for row in read:
                progress.advance(row)
            rows += read
            size += sum(len(row.content) for row in read)
            is_end = len(read) < _ENTRIES_PER_READ
            if rows and (is_end or len(rows) >= _ROWS_PER_FILE or size >= _BYTES_PER_FILE):
                self._has_news = True
                yield progress.epoch, rows
                self._publish_positions({progress.thing: progress.sequence})
                rows, size = [], 0

    def _resume(self, thing: str) -> Progress:
        progress = Progress(thing, self._writer.position(thing), self._writer.last(thing), log)
        first = self._rows_after(thing, progress.resume_after, 1)
        if not progress.recognises(first[0] if first else None):
            progress.start_epoch()
            self._publish_positions({thing: 0})
        self._progress[thing] = progress
        return progress

    def _rows_after(self, thing: str, number: int, count: int) -> list[Row]:
        entries = self._call_store(lambda: self._store.journals.after(journal_of(thing), number, count))
        return [Row(entry.sequence, entry.at * 1000, entry.id, content_of(entry.data)) for entry in entries]

    def _publish_positions(self, numbers: Mapping[str, int]) -> None:
        pairs = [(f"{_POSITION_PREFIX}{thing}", b"%d" % number) for thing, number in numbers.items()]
        for start in range(0, len(pairs), _POSITIONS_PER_CALL):
            changes = dict(pairs[start : start + _POSITIONS_PER_CALL])
            self._call_store(lambda: self._store.records.compare_and_set(_SPACE, {}, changes))  # noqa: B023 - called at once

    def _call_store(self, request: Callable[[], Awaitable[T]]) -> T:
        async def call() -> T:
            return await request()

        self._pending = future = asyncio.run_coroutine_threadsafe(call(), self._loop)
        if self._is_cancelled:
            future.cancel()
        try:
            return future.result()
        except CancelledError:
            raise StoreUnavailable("the gateway stopped before everything was archived") from None
