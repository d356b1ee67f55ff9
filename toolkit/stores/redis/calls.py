"""Calls of Redis: what is sent, and what becomes of the response."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from toolkit.stores import Draft, StoreUnavailable
from toolkit.stores.group_commit import Request
from toolkit.stores.redis.entries import packed
from toolkit.stores.redis.scripts import APPEND, Script

if TYPE_CHECKING:
    from toolkit.stores.redis.journals import RedisJournals

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


class Call(Request[Any]):
    """One command, or a script with its keys; `read` makes the result of the response.

    `tag` is the hash tag of its keys, `writes` whether replicas must confirm it.
    """

    __slots__ = ("arguments", "keys", "read", "script", "size", "started", "tag", "writes")

    def __init__(
        self,
        tag: str,
        *arguments: Argument,
        script: Script | None = None,
        keys: Sequence[bytes] = (),
        read: Callable[[Any], Any] = lambda response: response,
        writes: bool = False,
    ) -> None:
        super().__init__()
        # What cannot be encoded fails here, before it shares a batch with others.
        self.arguments = [part.encode("utf-8") if isinstance(part, str) else part for part in arguments]
        self.tag, self.script, self.keys, self.read, self.writes = tag, script, keys, read, writes
        self.size, self.started = 0, self.future.get_loop().time()

    def command(self, together: Sequence[Call], run: MasterRun) -> Sequence[Argument]:
        """Return what is sent to a master for all calls that travel together."""
        if self.script is None:
            return self.arguments
        return (b"EVALSHA", self.script.digest, len(self.keys), *self.keys, *self.arguments)

    def answer(self, together: Sequence[Call], response: Any) -> None:  # noqa: ANN401
        """Take the response."""
        try:
            self.result = self.read(response)
        except (ValueError, TypeError, LookupError) as error:
            self.fail(StoreUnavailable(f"Redis holds what cannot be read: {type(error).__name__}"))
        else:
            self.settle()


class Append(Call):
    """One append to one journal."""

    __slots__ = ("drafts", "floor", "journals", "keep", "key", "name")

    def __init__(
        self, journals: RedisJournals, name: str, drafts: Sequence[Draft], keep: int | None, floor: int | None
    ) -> None:
        tag, self.key = journals.place(name)
        entries = [packed(draft) for draft in drafts]
        super().__init__(tag, *entries, writes=True)
        self.size = sum([len(entry) for entry in entries])
        self.journals, self.name, self.drafts, self.keep, self.floor = journals, name, drafts, keep, floor

    def command(self, together: Sequence[Call], run: MasterRun) -> Sequence[Argument]:
        """Return one script call for all appends to a hash tag."""
        keys, stem = self.journals.heads(self.tag)
        arguments: list[Argument] = [*run, stem + 1]
        for name, appends in _by_name(together).items():
            keeps, floors = [each.keep for each in appends], [each.floor for each in appends if each.floor is not None]
            keep = -1 if None in keeps else max(each for each in keeps if each is not None)
            entries = [entry for each in appends for entry in each.arguments]
            keys.append(appends[0].key)
            arguments.append(_HEAD.pack(self.journals.used(name), keep, min(floors, default=-1), len(entries)))
            arguments += entries
        return (b"EVALSHA", APPEND.digest, len(keys), *keys, *arguments)

    def answer(self, together: Sequence[Call], response: Any) -> None:  # noqa: ANN401
        """Give the entries of every journal their numbers."""
        pairs = zip(_by_name(together).items(), response[::2], response[1::2], strict=True)
        for (name, appends), before, last in pairs:
            self.journals.appended(name, appends, before, last)


def merged(calls: Sequence[Call]) -> list[list[Call]]:
    """Return the calls that travel together: all appends to a hash tag, up to a limit, and each other one alone."""
    groups: list[list[Call]] = []
    open_groups: dict[str, tuple[list[Call], int, int]] = {}
    for call in calls:
        if not isinstance(call, Append):
            open_groups.pop(call.tag, None)  # what is appended after this call travels after it
            groups.append([call])
            continue
        group, count, size = open_groups.get(call.tag, ([], 0, 0))
        if not group or count >= _ENTRIES_A_CALL or size >= _BYTES_A_CALL:
            group, count, size = [], 0, 0
            groups.append(group)
        group.append(call)
        open_groups[call.tag] = group, count + len(call.drafts), size + call.size
    return groups


def _by_name(calls: Sequence[Call]) -> dict[str, list[Append]]:
    found: dict[str, list[Append]] = {}
    for call in calls:
        if isinstance(call, Append):
            found.setdefault(call.name, []).append(call)
    return found
