"""Sessions: a device came online; it is live until some time after its last call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from toolkit.rewards.device_state import Session
from toolkit.rewards.engine import Moment
from toolkit.stores import Draft, Entry, Store

JOURNAL = "rewards:sessions"
_LIVE = "reward-sessions"
_NUMBERS = "reward-numbers"


class Sessions:
    """The live sessions, which a restart ends, and the record of all that were started.

    Parameters
    ----------
    store
        Where they are kept.
    minutes
        How long one lives after its last call.
    """

    def __init__(self, store: Store, minutes: float) -> None:
        self._store = store
        self._life = round(minutes * 60_000)

    async def start(self, app: str, device: str, at: int, *, test: bool) -> Session:
        """Start a session; it takes the place of the device's earlier one."""
        number = await self._store.records.count(_NUMBERS, "session")
        session = Session(f"s-{number:04d}", at, at)
        line = {"session_id": session.id, "at": at, "app_key_sha256": app, "device": device, "test": test}
        await asyncio.gather(
            self._store.journals.append(JOURNAL, [Draft(at, session.id, msgspec.json.encode(line))]),
            self._store.fleeting.put(_LIVE, _key(app, device), msgspec.json.encode(session), at + self._life),
        )
        return session

    async def live(self, moments: Sequence[Moment]) -> list[Session | None]:
        """Return the live session of each moment's device.

        The store is asked each time: another gateway may have started a new one.
        """
        keys = list({_key(moment.app, moment.device) for moment in moments})
        found = dict(zip(keys, await asyncio.gather(*(self._read(key) for key in keys)), strict=True))
        sessions = [found[_key(moment.app, moment.device)] for moment in moments]
        return [
            session if session is not None and moment.at < session.last + self._life else None
            for moment, session in zip(moments, sessions, strict=True)
        ]

    async def extend(self, app: str, device: str, session: Session, at: int) -> None:
        """Let a session, as `live` returned it, live on from a call at `at`; nothing happens if it has changed since.

        Then another call has extended it, or the device has started a new one.
        """
        if at > session.last:
            key, later = _key(app, device), session._replace(last=at)
            before, after = msgspec.json.encode(session), msgspec.json.encode(later)
            await self._store.fleeting.swap(_LIVE, {key: before}, {key: after}, at + self._life)

    async def started(self) -> list[dict[str, Any]]:
        """Return all sessions that were ever started, oldest first."""
        entries: list[Entry] = await self._store.journals.after(JOURNAL, 0)
        return [msgspec.json.decode(entry.data) for entry in entries]

    async def _read(self, key: str) -> Session | None:
        data = await self._store.fleeting.get(_LIVE, key)
        return None if data is None else msgspec.json.decode(data, type=Session)


def _key(app: str, device: str) -> str:
    return f"{app} {device}"
