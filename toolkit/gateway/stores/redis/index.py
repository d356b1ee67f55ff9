"""Which journals there are, by the time of their last line: one sorted set.

On a single server the script that appends writes it in the same step. In a cluster it lies on one node, so it is
written right after: a name that is new to this gateway is in it before its first line is acknowledged, a name that
is known moves up a moment later. It costs one small write for each journal of a batch, and a name stays for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from toolkit.gateway.stores.redis.calls import Call, FutureCall
from toolkit.gateway.stores.redis.link import Argument
from toolkit.gateway.stores.redis.servers import Servers

_NAMES_A_PIECE = 1_000
_NAMES_KNOWN = 100_000


class NameIndex:
    """The names of all journals.

    Parameters
    ----------
    servers
        Where it lies.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers
        self.key = f"{servers.address.prefix}journals"
        self._known: set[str] = set()
        self._gathering: _IndexCall | None = None
        self._unwritten: dict[str, int] = {}

    def note(self, name: str, at: int, done: Callable[[], None]) -> None:
        """Move a name up; call `done` at once where it is in the index already, else when it is."""
        if self._gathering is None:
            self._gathering = _IndexCall(self, self._unwritten)
            self._unwritten = {}
            self._servers.writing(self._servers.place(self.key)).submit(self._gathering)
        call = self._gathering
        if call is None:  # the store is closing
            done()
            return
        call.times[name] = max(at, call.times.get(name, at))
        if name in self._known:
            done()
        else:
            call.waiting.append(done)

    def sent(self) -> None:
        """Gather what comes from now on in another call."""
        self._gathering = None

    def written(self, times: dict[str, int]) -> None:
        """Take note of names that are in the index."""
        if len(self._known) > _NAMES_KNOWN:
            self._known.clear()
        self._known.update(times)

    def not_written(self, times: dict[str, int]) -> None:
        """Write these with the next ones: their lines are committed, and only the order of names is older."""
        self._gathering = None
        if len(self._unwritten) < _NAMES_KNOWN:
            self._unwritten |= times

    async def names(self, prefix: str, count: int) -> list[str]:
        """Return the names with this prefix, the most recently written first."""
        found: list[tuple[float, str]] = []
        start, wanted = 0, min(max(count, 100), _NAMES_A_PIECE)
        while len(found) < count:
            rows = await self._rows(start, start + wanted - 1)
            found += [(-at, name) for name, at in rows if name.startswith(prefix)]
            start += len(rows)
            if len(rows) < wanted:
                break
            wanted = _NAMES_A_PIECE
        return [name for _, name in sorted(found)[:count]]

    async def _rows(self, start: int, stop: int) -> list[tuple[str, float]]:
        # In the lane of the writes, so that it comes after what this gateway has noted.
        call = FutureCall(b"ZREVRANGE", self.key, start, stop, b"WITHSCORES", read=_rows_of)
        self._servers.writing(self._servers.place(self.key)).submit(call)
        rows: list[tuple[str, float]] = await call.future
        return rows


class _IndexCall(Call):
    """All names of one turn."""

    __slots__ = ("_index", "times", "waiting")

    def __init__(self, index: NameIndex, times: dict[str, int]) -> None:
        super().__init__(writes=False)
        self._index = index
        self.times = times
        self.waiting: list[Callable[[], None]] = []

    def command(self) -> tuple[Argument, ...]:
        """Return the command."""
        self._index.sent()
        return b"ZADD", self._index.key, b"GT", *[field for name, at in self.times.items() for field in (at, name)]

    def on_answer(self, answer: Any) -> None:  # noqa: ANN401
        """Let those go on who waited for their name."""
        self._index.written(self.times)
        self._go_on()

    def on_failure(self, error: Exception) -> None:
        """Let them go on all the same: their lines are committed."""
        self._index.not_written(self.times)
        self._go_on()

    def _go_on(self) -> None:
        for done in self.waiting:
            done()


def _rows_of(answer: list[bytes]) -> list[tuple[str, float]]:
    return [(name.decode("utf-8"), float(at)) for name, at in zip(answer[::2], answer[1::2], strict=True)]
