"""A commit in Redis: one script call on the keys of one hash tag."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from toolkit_gateway.stores import CompareAndSet, NewEntry
from toolkit_gateway.stores.hash_tag import common_tag
from toolkit_gateway.stores.redis.commands import COMMIT, Argument, Command
from toolkit_gateway.stores.redis.journals import Append, RedisJournals
from toolkit_gateway.stores.redis.records import RedisRecords, flat, optional


class Commit(Command):
    __slots__ = ("appends", "changes", "journals", "keys", "now")

    def __init__(
        self,
        journals: RedisJournals,
        changes: Sequence[tuple[RedisRecords, CompareAndSet]],
        appends: Mapping[str, Sequence[NewEntry]],
        now: int,
    ) -> None:
        tag = common_tag([*(change.space for _, change in changes), *appends])
        self.keys: list[bytes] = []
        arguments: list[Argument] = []
        for records, (space, expected, changed, expires, _) in changes:
            self.keys += records.keys(space)
            counts = optional(expires), len(expected), len(changed)
            arguments += *counts, *flat(expected), *flat(changed)
        super().__init__(tag, *arguments)
        self.writes = True
        self.journals, self.changes, self.now = journals, changes, now
        self.appends = [Append(journals, name, entries, None, None) for name, entries in appends.items() if entries]
        self.size += sum([len(part) for part in arguments if not isinstance(part, int)])
        self.size += sum([append.size for append in self.appends])

    def arguments_of(self, group: Sequence[Any]) -> Sequence[Argument]:
        keys, head, entries = self.journals.arguments_of(self.tag, self.appends)
        keys += self.keys
        timed = self.now, len(self.changes)
        return (b"EVALSHA", COMMIT, len(keys), *keys, *head, *timed, *self.arguments, *entries)

    def read_response(self, group: Sequence[Any], response: Sequence[int]) -> None:
        self.result = bool(response)
        if self.result:
            for records, change in self.changes:
                records.announce(change.space, change.changes)
            if self.appends:
                self.appends[0].read_response(self.appends, response)
        # The subscribers have the entries before the caller goes on.
        announced = asyncio.gather(*(append.future for append in self.appends if self.result))
        announced.add_done_callback(lambda _: self.settle())
