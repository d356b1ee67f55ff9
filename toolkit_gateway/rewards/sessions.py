"""Sessions: a session starts when a device comes online and expires a fixed time after its start or last moment."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from toolkit.rewards.engine import Moment
from toolkit_gateway.stores import NewEntry, Store

SESSIONS_JOURNAL = "rewards:sessions"
_LIVE_SPACE = "reward-sessions"
_COUNTERS_SPACE = "reward-numbers"


class Session(NamedTuple):
    """A live session; times in milliseconds since the epoch; `last_moment` is the start if there was no moment yet."""

    id: str
    start: int
    last_moment: int

    def age_s(self, at: int) -> float:
        return max(at - self.start, 0) / 1000


class SessionRepository:
    def __init__(self, store: Store, minutes: float) -> None:
        self._store = store
        self._ttl_ms = round(minutes * 60_000)

    async def start(self, app: str, device: str, at: int, *, test: bool) -> None:
        # The new session replaces the device's earlier session.
        number = await self._store.records.increment(_COUNTERS_SPACE, "session")
        session = Session(f"s-{number:04d}", at, at)
        entry = {"session_id": session.id, "at": at, "app_key_sha256": app, "device": device, "test": test}
        await asyncio.gather(
            self._store.journals.append(SESSIONS_JOURNAL, [NewEntry(at, session.id, msgspec.json.encode(entry))]),
            self._store.ephemeral.put(_LIVE_SPACE, f"{app} {device}", msgspec.json.encode(session), at + self._ttl_ms),
        )

    async def live_sessions(self, moments: Sequence[Moment]) -> list[Session | None]:
        keys = [f"{moment.app} {moment.device}" for moment in moments]
        stored = await asyncio.gather(*(self._store.ephemeral.get(_LIVE_SPACE, key) for key in keys))
        return [None if data is None else msgspec.json.decode(data, type=Session) for data in stored]

    async def extend(self, app: str, device: str, session: Session, at: int) -> None:
        """Extend a live session, unless another request has extended it or the device has started a new session."""
        if at > session.last_moment:
            key, later = f"{app} {device}", session._replace(last_moment=at)
            before, after = msgspec.json.encode(session), msgspec.json.encode(later)
            await self._store.ephemeral.compare_and_set(_LIVE_SPACE, {key: before}, {key: after}, at + self._ttl_ms)

    async def started_sessions(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(entry.data) for entry in await self._store.journals.after(SESSIONS_JOURNAL, 0)]
