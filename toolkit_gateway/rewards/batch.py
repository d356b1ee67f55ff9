"""One batch of the ledger: the state that it reads, and what it changes in one commit."""

import asyncio
from asyncio import Future
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from toolkit.rewards.engine import DeviceState
from toolkit_gateway.rewards.views import View, stored_views
from toolkit_gateway.stores import CompareAndSet, NewEntry, Store, Values

DECISIONS_JOURNAL, SESSIONS_JOURNAL = "{rewards}decisions", "{rewards}sessions"
# Devices by their key, and the totals. Live sessions have the keys of their devices too.
_STATE_SPACE, _SESSIONS_SPACE = "{rewards}state", "{rewards}sessions"
_TOTALS_KEY = "totals"

T = TypeVar("T")


class Session(NamedTuple):
    """A session; times in milliseconds since the epoch; `last_moment` is the start if there was no moment yet."""

    id: str
    start: int
    last_moment: int

    def age_s(self, at: int) -> float:
        return max(at - self.start, 0) / 1000


class Totals(msgspec.Struct):
    """Units spent by reward id, and how many decisions and sessions there are."""

    spent: dict[str, int] = {}
    decisions: int = 0
    sessions: int = 0


class Batch:
    """Requests read and change the state here; `commit` makes the changes if the store still has what was read."""

    def __init__(self, store: Store, session_ms: int) -> None:
        self._store = store
        self._session_ms = session_ms
        self.totals = Totals()
        #: The devices whose state or session cannot be read: their requests fail alone.
        self.damaged: set[str] = set()
        self.devices: dict[str, DeviceState] = {}
        self.views: list[View] = []
        self.sessions: dict[str, Session | None] = {}
        self._entries: dict[str, list[NewEntry]] = {DECISIONS_JOURNAL: [], SESSIONS_JOURNAL: []}

    async def read(self, devices: Collection[str]) -> None:
        """Read the totals, and the state and the session of each device."""
        self._state_read, self._sessions_read = await asyncio.gather(
            self._store.records.get_many(_STATE_SPACE, [_TOTALS_KEY, *devices]),
            self._store.ephemeral.get_many(_SESSIONS_SPACE, devices),
        )
        self.totals = _decoded(self._state_read[_TOTALS_KEY], Totals)
        for device, data in self._sessions_read.items():
            try:
                self.sessions[device] = None if data is None else msgspec.json.decode(data, type=Session)
                self.devices[device] = _decoded(self._state_read[device], DeviceState)
            except (msgspec.DecodeError, UnicodeDecodeError):
                self.sessions.pop(device, None)
                self.damaged.add(device)

    def live_session(self, device: str, at: int) -> Session | None:
        session = self.sessions[device]
        return session if session is not None and at < session.last_moment + self._session_ms else None

    def append(self, journal: str, at: int, id: str, record: Mapping[str, Any]) -> None:  # noqa: A002
        self._entries[journal].append(NewEntry(at, id, msgspec.json.encode(record)))

    def commit(self) -> Future[bool]:
        """Make all changes and append all entries, or do nothing and return False if another gateway was faster."""
        # A device without rewards and draws is not stored: a session alone would add one.
        devices = {key: device for key, device in self.devices.items() if device.draws or self._state_read[key]}
        state = {_TOTALS_KEY: self.totals, **devices}
        # All sessions of a batch expire with the newest, so some are stored a little longer than they live.
        expires = self._session_ms + max(entry.at for entries in self._entries.values() for entry in entries)
        changes = [
            CompareAndSet(_STATE_SPACE, self._state_read, _changed(self._state_read, state)),
            CompareAndSet(
                _SESSIONS_SPACE,
                self._sessions_read,
                _changed(self._sessions_read, self.sessions),
                expires,
                is_ephemeral=True,
            ),
        ]
        if self.views:
            changes.append(stored_views(self.views))
        return self._store.commit(changes, self._entries)


def _changed(before: Values, after: Mapping[str, object | None]) -> dict[str, bytes | None]:
    encoded = {key: value if value is None else msgspec.json.encode(value) for key, value in after.items()}
    return {key: value for key, value in encoded.items() if value != before[key]}


def _decoded(data: bytes | None, record_type: type[T]) -> T:
    return record_type() if data is None else msgspec.json.decode(data, type=record_type)
