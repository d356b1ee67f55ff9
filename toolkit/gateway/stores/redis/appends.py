"""Appends that travel together: as one call of one script for each slot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolkit.gateway.stores.redis.calls import Call
from toolkit.gateway.stores.redis.lines import packed_line
from toolkit.gateway.stores.redis.link import Argument
from toolkit.gateway.stores.redis.scripts import APPEND
from toolkit.gateway.stores.redis.waiting_append import WaitingAppend

# What one call of the script takes at most, so that the others on its server do not wait long for it.
_LINES_A_CALL, _BYTES_A_CALL = 1_000, 1024 * 1024


class Append(WaitingAppend):
    """An append on its way to Redis."""

    __slots__ = ()

    def check(self) -> None:
        """Raise UnicodeEncodeError where a text cannot be sent: it must not cost the others of its call theirs."""
        self.name.encode("utf-8")
        for draft in self.drafts:
            draft.id.encode("utf-8")


class Appender(Protocol):
    """What a call needs of the journals that it belongs to."""

    def key(self, name: str) -> str:
        """Return the key of a journal's stream."""
        ...

    def index_key(self) -> str | None:
        """Return the key of the index that is written in the same step."""
        ...

    def used(self, name: str) -> int:
        """Return the highest number that may be used."""
        ...

    def sent(self, call: AppendCall) -> None:
        """Take note that nothing more can be added."""
        ...

    def over(self, call: AppendCall) -> None:
        """Take note that it has its answer, or will have none."""
        ...

    def appended(self, name: str, appends: Sequence[Append], before: int, last: int) -> None:
        """Take note of the numbers of a journal's last line, and of the line before these."""
        ...


class AppendCall(Call):
    """All appends to one slot that travel together.

    Parameters
    ----------
    journals, slot
        Where they go.
    """

    __slots__ = ("_bytes", "_by_name", "_journals", "_lines", "slot")

    def __init__(self, journals: Appender, slot: int) -> None:
        super().__init__(writes=True)
        self.slot = slot
        self._journals = journals
        self._by_name: dict[str, list[Append]] = {}
        self._lines = self._bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether a further append should travel with the next call."""
        return self._lines >= _LINES_A_CALL or self._bytes >= _BYTES_A_CALL

    def add(self, append: Append) -> int:
        """Take one more; returns how many bytes it has."""
        appends = self._by_name.get(append.name)
        if appends is None:
            self._by_name[append.name] = [append]
        else:
            appends.append(append)
        self._lines += len(append.drafts)
        size = sum([len(draft.data) for draft in append.drafts])
        self._bytes += size
        return size

    def leave(self) -> int:
        """Return how many bytes it has held, once."""
        size, self._bytes = self._bytes, 0
        return size

    def command(self) -> tuple[Argument, ...]:
        """Return the command."""
        self._journals.sent(self)
        keys: list[Argument] = [self._journals.key(name) for name in self._by_name]
        arguments: list[Argument] = [len(keys)]
        for name, appends in self._by_name.items():
            lines = [packed_line(draft) for append in appends for draft in append.drafts]
            bounds = _keep_of(appends), _floor_of(appends)
            arguments += (name, self._journals.used(name), *bounds, len(lines), *lines)
        index = self._journals.index_key()
        if index is not None:
            keys.append(index)
        return b"EVALSHA", APPEND.digest, len(keys), *keys, *arguments

    def on_answer(self, answer: list[int]) -> None:
        """Give the lines of every journal their numbers."""
        self._journals.over(self)
        for (name, appends), before, last in zip(self._by_name.items(), answer[::2], answer[1::2], strict=True):
            self._journals.appended(name, appends, before, last)

    def on_failure(self, error: Exception) -> None:
        """Tell every caller."""
        self._journals.sent(self)
        self._journals.over(self)
        for appends in self._by_name.values():
            for append in appends:
                append.fail(error)


def _keep_of(appends: Sequence[Append]) -> Argument:
    keeps = [append.keep for append in appends if append.keep is not None]
    return max(keeps) if len(keeps) == len(appends) else b""


def _floor_of(appends: Sequence[Append]) -> Argument:
    return min([append.floor for append in appends if append.floor is not None], default=b"")
