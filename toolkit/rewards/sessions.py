"""Sessions: a device came online; it is live until some time after its last call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson

from toolkit.gateway.stores import Draft, Entry, Store
from toolkit.rewards.device_state import Session
from toolkit.rewards.engine import Moment

JOURNAL = "rewards:sessions"
_LIVE = "reward-sessions"
_NUMBERS = "reward-numbers"


# Sessions at hand; when there are more, all are forgotten and read again as they are needed.
_AT_HAND = 20_000
# The store hears of a session's last call when the one it knows is older than this part of a session's life. Here
# a session lives exactly as long as it should; for another gateway it may end earlier by this part.
_PART_UNHEARD = 100


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
        self._at_hand: dict[str, Session] = {}
        self._heard: dict[str, int] = {}

    async def start(self, app: str, device: str, at: int, *, test: bool) -> Session:
        """Start a session; it takes the place of the device's earlier one."""
        number = await self._store.records.count(_NUMBERS, "session")
        session = Session(f"s-{number:04d}", at, at)
        line = {"session_id": session.id, "at": at, "app_key_sha256": app, "device": device, "test": test}
        await asyncio.gather(
            self._store.journals.append(JOURNAL, [Draft(at, session.id, orjson.dumps(line))]),
            *self.keep(app, device, session),
        )
        return session

    async def live(self, moments: Sequence[Moment]) -> list[Session | None]:
        """Return the live session of each moment's device.

        What is at hand is not read again: another gateway can only have made it live longer, or started a new one.
        """
        missing = {_key(moment.app, moment.device) for moment in moments if self._at_hand_for(moment) is None}
        found = dict(zip(missing, await asyncio.gather(*(self._read(key) for key in missing)), strict=True))
        return [found.get(_key(moment.app, moment.device)) or self._at_hand_for(moment) for moment in moments]

    def keep(self, app: str, device: str, session: Session) -> list[asyncio.Future[None]]:
        """Let the session live on from its last call; return what has to be waited for."""
        key = _key(app, device)
        known = self._at_hand.get(key)
        self._at_hand[key] = session
        is_new = known is None or known.id != session.id
        if not is_new and session.last - self._heard.get(key, 0) < self._life // _PART_UNHEARD:
            return []
        self._heard[key] = session.last
        return [self._store.fleeting.put(_LIVE, key, orjson.dumps(list(session)), session.last + self._life)]

    async def started(self) -> list[dict[str, Any]]:
        """Return all sessions that were ever started, oldest first."""
        entries: list[Entry] = await self._store.journals.after(JOURNAL, 0)
        return [orjson.loads(entry.data) for entry in entries]

    def _at_hand_for(self, moment: Moment) -> Session | None:
        session = self._at_hand.get(_key(moment.app, moment.device))
        return session if session is not None and moment.at < session.last + self._life else None

    async def _read(self, key: str) -> Session | None:
        data = await self._store.fleeting.get(_LIVE, key)
        if len(self._at_hand) >= _AT_HAND:
            self._at_hand.clear()
            self._heard.clear()
        if data is None:
            self._at_hand.pop(key, None)
            return None
        self._at_hand[key] = session = Session(*orjson.loads(data))
        return session


def _key(app: str, device: str) -> str:
    return f"{app} {device}"
