"""Calls of Redis: what is sent, and what becomes of the response."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from toolkit.gateway.stores import Draft, Entry, StoreUnavailable
from toolkit.gateway.stores.group_commit import Request
from toolkit.gateway.stores.redis.entries import packed
from toolkit.gateway.stores.redis.scripts import APPEND, Script

if TYPE_CHECKING:
    from toolkit.gateway.stores.redis.journals import RedisJournals

Argument = bytes | str | int

# One script call takes no more than this, so that other clients of its server do not wait long for it.
_ENTRIES_A_CALL, _BYTES_A_CALL = 1_000, 1024 * 1024
# Of a journal: the highest number in use, how many entries to keep, the floor (-1 for none), how many entries follow.
_HEAD = struct.Struct(">dddI")


class MasterRun(NamedTuple):
    """One run of a master: its node in the cluster, its replication id, '1' where it was promoted; see `scripts`."""

    node: bytes
    replication_id: bytes
    is_promoted: bytes


class Item(Request[Any]):
    """What waits for a batch; `tag` is the hash tag of its keys, `writes` whether replicas must confirm it."""

    __slots__ = ("size", "started", "submitted", "tag", "writes")

    def __init__(self, tag: str, *, writes: bool, size: int = 0) -> None:
        super().__init__()
        self.tag, self.writes, self.size = tag, writes, size
        self.started = self.submitted = self.future.get_loop().time()

    def succeed(self, result: Any) -> None:  # noqa: ANN401
        """Answer the caller."""
        self.result = result
        self.settle()


class Call(Item):
    """One command, or a script with its keys; `read` makes the result of the response."""

    __slots__ = ("arguments", "keys", "read", "script")

    def __init__(
        self,
        tag: str,
        *arguments: Argument,
        script: Script | None = None,
        keys: Sequence[bytes] = (),
        read: Callable[[Any], Any] | None = None,
        writes: bool = False,
    ) -> None:
        super().__init__(tag, writes=writes)
        # What cannot be encoded fails here, before it shares a batch with others.
        self.arguments = [part.encode("utf-8") if isinstance(part, str) else part for part in arguments]
        self.script, self.keys, self.read = script, keys, read

    @property
    def items(self) -> Sequence[Item]:
        """What it was made of."""
        return [self]

    def command(self, run: MasterRun) -> Sequence[Argument]:
        """Return what is sent to a master."""
        if self.script is None:
            return self.arguments
        return (b"EVALSHA", self.script.digest, len(self.keys), *self.keys, *self.arguments)

    def answer(self, response: Any) -> None:  # noqa: ANN401
        """Take the response."""
        try:
            result = response if self.read is None else self.read(response)
        except (ValueError, TypeError, LookupError) as error:
            self.fail(StoreUnavailable(f"Redis holds what cannot be read: {type(error).__name__}"))
        else:
            self.succeed(result)


class Append(Item):
    """One append to one journal."""

    __slots__ = ("drafts", "entries", "floor", "journals", "keep", "key", "name")

    def __init__(
        self, journals: RedisJournals, name: str, drafts: Sequence[Draft], keep: int | None, floor: int | None
    ) -> None:
        self.entries = [packed(draft) for draft in drafts]
        tag, key = journals.place(name)
        super().__init__(tag, writes=True, size=sum([len(entry) for entry in self.entries]))
        self.journals, self.name, self.key = journals, name, key
        self.drafts, self.keep, self.floor = drafts, keep, floor

    def numbered(self, before: int) -> list[Entry]:
        """Return the entries that follow number `before`."""
        return [Entry(number, at, id_, data) for number, (at, id_, data) in enumerate(self.drafts, before + 1)]


class AppendCall(Call):
    """All appends to one hash tag that travel together."""

    __slots__ = ("_by_name", "_count", "_journals")

    def __init__(self, first: Append) -> None:
        super().__init__(first.tag, script=APPEND, writes=True)
        self._journals = first.journals
        self._by_name: dict[str, list[Append]] = {}
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether a further append must travel with another call."""
        return self._count >= _ENTRIES_A_CALL or self.size >= _BYTES_A_CALL

    @property
    def items(self) -> Sequence[Item]:
        """The appends."""
        return [append for appends in self._by_name.values() for append in appends]

    def add(self, append: Append) -> None:
        """Let one more append travel along."""
        self._by_name.setdefault(append.name, []).append(append)
        self._count += len(append.entries)
        self.size += append.size

    def command(self, run: MasterRun) -> Sequence[Argument]:
        """Return what is sent to a master."""
        keys, stem = self._journals.heads(self.tag)
        arguments: list[Argument] = [*run, stem + 1]
        for name, appends in self._by_name.items():
            first = appends[0]
            keep, floor, entries = first.keep, first.floor, first.entries
            for append in appends[1:]:
                keep = None if keep is None or append.keep is None else max(keep, append.keep)
                floors = [each for each in (floor, append.floor) if each is not None]
                floor, entries = min(floors, default=None), entries + append.entries
            keys.append(first.key)
            bounds = -1 if keep is None else keep, -1 if floor is None else floor
            arguments += (_HEAD.pack(self._journals.used(name), *bounds, len(entries)), *entries)
        return (b"EVALSHA", APPEND.digest, len(keys), *keys, *arguments)

    def answer(self, response: Any) -> None:  # noqa: ANN401
        """Give the entries of every journal their numbers."""
        pairs = zip(self._by_name.items(), response[::2], response[1::2], strict=True)
        for (name, appends), before, last in pairs:
            self._journals.appended(name, appends, before, last)

    def fail(self, error: Exception) -> None:
        """Answer every caller with an error."""
        for item in self.items:
            item.fail(error)
