"""Sessions: a device came online; it is live until some time after its last call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

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


class _AtHand(NamedTuple):
    """A session as this gateway knows it, and what the store held of it when it was last read or written."""

    session: Session
    stored: bytes | None


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
        self._at_hand: dict[str, _AtHand] = {}

    async def start(self, app: str, device: str, at: int, *, test: bool) -> Session:
        """Start a session; it takes the place of the device's earlier one."""
        number = await self._store.records.count(_NUMBERS, "session")
        session = Session(f"s-{number:04d}", at, at)
        line = {"session_id": session.id, "at": at, "app_key_sha256": app, "device": device, "test": test}
        key, data = _key(app, device), _written(session)
        self._at_hand[key] = _AtHand(session, data)
        await asyncio.gather(
            self._store.journals.append(JOURNAL, [Draft(at, session.id, orjson.dumps(line))]),
            self._store.fleeting.put(_LIVE, key, data, at + self._life),
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

    def keep(self, app: str, device: str, session: Session) -> list[asyncio.Future[bool]]:
        """Let the session live on from its last call; return what has to be waited for.

        Nothing is written where the store holds another session by now: that one is newer.
        """
        key = _key(app, device)
        known = self._at_hand.get(key)
        if known is None or known.session.id != session.id or session.last < known.session.last:
            return []
        heard = 0 if known.stored is None else Session(*orjson.loads(known.stored)).last
        if session.last - heard < self._life // _PART_UNHEARD:
            self._at_hand[key] = _AtHand(session, known.stored)
            return []
        data = _written(session)
        self._at_hand[key] = _AtHand(session, data)
        return [self._store.fleeting.swap(_LIVE, {key: known.stored}, {key: data}, session.last + self._life)]

    async def started(self) -> list[dict[str, Any]]:
        """Return all sessions that were ever started, oldest first."""
        entries: list[Entry] = await self._store.journals.after(JOURNAL, 0)
        return [orjson.loads(entry.data) for entry in entries]

    async def _read(self, key: str) -> Session | None:
        data = await self._store.fleeting.get(_LIVE, key)
        known = self._at_hand.get(key)
        if data is None:
            if known is None:
                return None
            # Run out in the store, which has not heard of the last calls: it may live on, and be written again.
            self._at_hand[key] = _AtHand(known.session, None)
            return known.session
        if len(self._at_hand) >= _AT_HAND:
            self._at_hand.clear()
        session = Session(*orjson.loads(data))
        if known is not None and known.session.id == session.id and known.session.last > session.last:
            session = known.session
        self._at_hand[key] = _AtHand(session, data)
        return session


def _written(session: Session) -> bytes:
    return orjson.dumps(list(session))


def _key(app: str, device: str) -> str:
    return f"{app} {device}"
