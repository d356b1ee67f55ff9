"""The gateway as a command of its own: starts, says where it is, and runs until a signal."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from toolkit.dweets.service.lock_repair import repair
from toolkit.dweets.service.locks import IssuedLock, Locks
from toolkit.errors import InvalidArgument
from toolkit.gateway.gateway import Gateway, store_of
from toolkit.outside_world import OutsideWorld
from toolkit.stores import FolderInUse, Records

T = TypeVar("T")

#: What asks the gateway to end; a closed terminal (SIGHUP) too, where there is such a signal.
END_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def run_gateway(start: Callable[[], Gateway], announce: Callable[[str], object]) -> None:
    """Run a gateway until the first signal to end, then stop it; `announce` is called with its base URL."""
    # Signals first: one that comes while the gateway starts ends it right after.
    with _signals_to_end() as ended, start() as gateway:
        # What the start made stays, and need not be examined in each garbage collection.
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        announce(gateway.base_url)
        # In pieces: on Windows a wait without end does not hear Ctrl-C.
        while not ended.wait(1.0):
            pass


@contextmanager
def _signals_to_end() -> Iterator[threading.Event]:
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    before = {number: signal.signal(number, end) for number in END_SIGNALS}
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def new_lock_in(folder: Path | None, store: str | None) -> IssuedLock:
    """Issue a lock where a gateway keeps everything, without running one."""
    return _with_records(folder, store, lambda records: Locks(records).issue())


def repair_in(folder: Path | None, store: str | None, thing: str | None, lock: str | None) -> list[str]:
    """Repair the damaged lock of a thing, or a damaged lock, where a gateway keeps everything."""
    # To open the store would create it, and an empty one would say that the thing is not locked.
    if folder is not None and not (folder / "gateway.lock").is_file():
        raise InvalidArgument(f"the folder {folder} holds no data of a gateway: give the one of its --data")
    return _with_records(folder, store, partial(repair, thing=thing, lock=lock))


def _with_records(folder: Path | None, store: str | None, work: Callable[[Records], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        kept = store_of(folder, store, OutsideWorld().clock.now)
        try:
            await kept.open()
        except FolderInUse as error:
            advice = "stop that gateway, run this command again, and start the gateway"
            raise FolderInUse(error.problem, advice) from None
        try:
            return await work(kept.records)
        finally:
            await kept.close()

    return asyncio.run(run())


def log_to_stderr(level: str) -> None:
    log = logging.getLogger("toolkit.gateway")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(level.upper())
    log.propagate = False
