"""The gateway's own archive. Of all gateways on one store, the one that holds the lease archives."""

from __future__ import annotations

import asyncio
import logging
import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path

from toolkit.dweets.archive.follower import Follower, SourceUnavailable
from toolkit.dweets.service import stored_records
from toolkit.dweets.service.store_source import StoreSource
from toolkit.errors import ArchiveUnusable
from toolkit.stores import Store, StoreUnavailable

log = logging.getLogger("toolkit.gateway.archive")

_SPACE, _LEASE = "archive", "lease"
# For the last pass; what remains is still in the store at the next start.
_SECONDS_TO_CLOSE = 8.0


class Archiving:
    """Follow a store every so many `seconds` while this gateway holds the lease; then another one takes over."""

    def __init__(self, store: Store, folder: Path, now: Callable[[], int], seconds: float) -> None:
        self._store = store
        self._source = StoreSource(store)
        self._folder = folder
        self._now = now
        self._seconds = seconds
        self._token = secrets.token_hex(8).encode("ascii")
        self._follower: Follower | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._is_closing = asyncio.Event()
        self._unwatch: Callable[[], None] = lambda: None
        self._complaint = ""

    def floor(self, thing: str) -> int:
        """Return the number up to which a thing's journal may be cut, before something is posted to it."""
        return self._source.floor(thing)

    @property
    def is_active(self) -> bool:
        """Whether it is this gateway that archives."""
        return self._follower is not None

    async def open(self) -> None:
        """Start to archive, or to wait for the lease that another gateway on this store holds."""
        self._unwatch = await self._source.watch()
        try:
            if await self._hold_lease():
                await self._start()
            else:
                await asyncio.to_thread(_check_writable, self._folder)
        except BaseException as error:
            await self.close()
            if isinstance(error, SourceUnavailable):
                raise StoreUnavailable(str(error)) from None
            raise
        self._keeper = asyncio.ensure_future(self._keep_lease())

    async def close(self) -> None:
        """Archive what is committed, and give the lease back."""
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

    async def _hold_lease(self) -> bool:
        """Take or renew the lease. It is ephemeral, so after a restart of all gateways it is free at once."""
        swap, until = self._store.fleeting.swap, self._now() + round(stored_records.LEASE_SECONDS * 1000)
        mine = {_LEASE: self._token}
        return await swap(_SPACE, mine, mine, until) or await swap(_SPACE, {_LEASE: None}, mine, until)

    async def _finish(self) -> None:
        if self._keeper is not None:
            await self._keeper  # it is not cancelled, as it may be opening the archive
        try:
            await self._stop()
        finally:
            await self._store.fleeting.swap(_SPACE, {_LEASE: self._token}, {_LEASE: None})

    async def _keep_lease(self) -> None:
        while not await self._closes_within(stored_records.LEASE_SECONDS / 3):
            try:
                if not await self._hold_lease():
                    await self._stop(flush=False)
                elif self._follower is None:
                    await self._start()
                self._complaint = ""
            except (ArchiveUnusable, SourceUnavailable, StoreUnavailable) as error:
                self._complain(error)

    async def _closes_within(self, seconds: float) -> bool:
        try:
            return await asyncio.wait_for(self._is_closing.wait(), seconds)
        except TimeoutError:
            return False

    async def _start(self) -> None:
        self._follower = await asyncio.to_thread(Follower, self._folder, self._source, self._seconds, log)

    async def _stop(self, *, flush: bool = True) -> None:
        follower, self._follower = self._follower, None
        if follower is not None:
            await asyncio.to_thread(follower.stop, flush=flush)

    def _complain(self, error: Exception) -> None:
        if str(error) != self._complaint:
            log.error("%s; the store keeps what is not archived yet", error)
        self._complaint = str(error)


def _check_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return
    except OSError as error:
        raise ArchiveUnusable(f"the archive {folder} cannot be written: {error.strerror}") from None
