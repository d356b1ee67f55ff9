"""Move what a stopped gateway stored in its folder to an empty Redis, for users who outgrow one machine.

A move has four stages, and each can be interrupted and repeated:

1. *claim*: Redis must have no key with the prefix of the URL. A marker with the id of this move is written there, and
   the same id to the folder; a gateway does not start on a Redis with a marker.
2. *copy*: each journal goes on behind its last entry in Redis; records are written again.
3. *verify*: every entry and every record is read back and compared.
4. *release*: both markers are removed. The folder keeps its data.

Entries keep their sequence numbers, so listeners resume, and an archive goes on, where they were.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple, TypeVar

from toolkit.errors import StoreUnavailable
from toolkit.system.files import write_whole
from toolkit_gateway.stores import Entry, Journals
from toolkit_gateway.stores.embedded import EmbeddedStore
from toolkit_gateway.stores.redis.store import RedisStore

T = TypeVar("T")
#: Called with the stage, and how many journals or records of how many are done.
Progress = Callable[[str, int, int], None]

_ENTRIES_PER_PAGE = 128  # of 64 KB each at most
_RECORDS_AT_ONCE = 500
_JOURNALS_AT_ONCE = 16  # enough to fill batches of Redis, few enough for memory


class Moved(NamedTuple):
    journals: int
    entries: int
    records: int


async def move(folder: Path, source: EmbeddedStore, target: RedisStore, progress: Progress) -> Moved:
    """Copy all journals and records of an open store to an open Redis, and compare them.

    Raises StoreUnavailable if the target has data of somebody else, or differs from the source in the end.
    """
    marker = await _claim(folder, target)
    names = await source.journals.names("", 1 << 62)
    counts = dict.fromkeys(names, 0)

    async def copy(name: str) -> None:
        await target.copying.drop_before(name, await _first_number(source.journals, name))
        position = await target.copying.last_number(name)
        async for page in _pages(source.journals, name, position):
            await target.copying.add(name, page)

    async def verify(name: str) -> None:
        copied = _pages(target.journals, name, 0)
        async for page in _pages(source.journals, name, 0):
            if page != await anext(copied, None):
                raise _difference(folder, target, f"the journal {name!a} differs")
            counts[name] += len(page)
        if await anext(copied, None) is not None:
            raise _difference(folder, target, f"the journal {name!a} has more entries there")

    await _for_each(names, copy, lambda done: progress("copy", done, len(names)))
    await _copy_records(source, target, progress)
    await _for_each(names, verify, lambda done: progress("verify", done, len(names)))
    records = await _verified_records(folder, source, target)
    await target.copying.release(marker)
    marker_file(folder).unlink(missing_ok=True)
    return Moved(len(names), sum(counts.values()), records)


def marker_file(folder: Path) -> Path:
    return folder / "move.id"


async def _claim(folder: Path, target: RedisStore) -> str:
    file = marker_file(folder)
    marker = file.read_text("ascii").strip() if file.is_file() else ""
    present = await target.copying.marker()
    if present is None:
        if key := await target.copying.any_key():
            raise StoreUnavailable(
                f"{target!r} is not empty: it has the key {key!a}; give another Redis, another database, or another "
                "?prefix= in the URL"
            )
        marker = secrets.token_hex(16)
        write_whole(file, f"{marker}\n".encode("ascii"), 0o600)
        await target.copying.claim(marker)
        present = await target.copying.marker()  # another move may have been faster
    if present != marker:
        raise StoreUnavailable(
            f"{target!r} has an unfinished move of another folder: finish that one, or give another Redis or ?prefix="
        )
    return marker


async def _first_number(journals: Journals, name: str) -> int:
    return next((entry.sequence for entry in await journals.after(name, 0, 1)), 0)


async def _pages(journals: Journals, name: str, position: int) -> AsyncIterator[list[Entry]]:
    while page := await journals.after(name, position, _ENTRIES_PER_PAGE):
        yield page
        position = page[-1].sequence


async def _copy_records(source: EmbeddedStore, target: RedisStore, progress: Progress) -> None:
    rows = source.durable_rows()
    await target.copying.remove_records()
    for start in range(0, len(rows), _RECORDS_AT_ONCE):
        part = rows[start : start + _RECORDS_AT_ONCE]
        await asyncio.gather(*(target.records.put(*row) for row in part))
        progress("records", start + len(part), len(rows))


async def _verified_records(folder: Path, source: EmbeddedStore, target: RedisStore) -> int:
    count = 0
    for space, _ in groupby(source.durable_rows(), key=itemgetter(0)):
        values = await source.records.scan(space)
        if values != await target.records.scan(space):
            raise _difference(folder, target, f"the records {space!a} differ")
        count += len(values)
    return count


def _difference(folder: Path, target: RedisStore, what: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{what} between {folder} and {target!r}, where something else has written: remove the keys of its prefix, "
        "and move again"
    )


async def _for_each(items: Iterable[T], work: Callable[[T], Awaitable[None]], report: Callable[[int], None]) -> None:
    """Do the work for all items, several at a time; the first error ends all of it."""
    remaining, done = iter(items), 0

    async def worker() -> None:
        nonlocal done
        for item in remaining:
            await work(item)
            done += 1
            report(done)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_JOURNALS_AT_ONCE):
                group.create_task(worker())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
