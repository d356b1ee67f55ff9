"""Views: the stored reward pages, the check of their tokens, and the events of the reader."""

import hmac
from collections.abc import Sequence

import msgspec

from toolkit_gateway.rewards.refusals import refusal
from toolkit_gateway.stores import CompareAndSet, Records

_VIEWS_SPACE = "{rewards}views"
_EVENTS_SPACE = "{rewards}events"
# A view is stored longer than it is valid, so that the page can say that the reward has expired.
VIEW_LIFETIME_SECONDS = 24 * 3600
_VIEW_STORED_SECONDS = 30 * VIEW_LIFETIME_SECONDS


class View(msgspec.Struct, frozen=True):
    """A reward page; `at` is the time of the decision (milliseconds since the epoch); `test` pages store no events."""

    id: str
    token: str
    title: str
    message: str
    at: int
    test: bool


def stored_views(views: Sequence[View]) -> CompareAndSet:
    """Return the change that stores new views."""
    expires = max(view.at for view in views) + _VIEW_STORED_SECONDS * 1000
    return CompareAndSet(_VIEWS_SPACE, {}, {view.id: msgspec.json.encode(view) for view in views}, expires)


class ViewRepository:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def find(self, view_id: str, token: str, now: int) -> View:
        """Return the view, or raise NotFound: no view has this token (404), or the view has expired (410)."""
        data = await self._records.get(_VIEWS_SPACE, view_id) if view_id.isascii() else None
        view = None if data is None else msgspec.json.decode(data, type=View)
        # Tokens are compared in constant time; a wrong token gets the same error as an unknown view.
        sent_token = token.encode("utf-8", "surrogatepass")
        if view is None or not hmac.compare_digest(view.token.encode("ascii"), sent_token):
            raise refusal("unknown_reward")
        if now >= view.at + VIEW_LIFETIME_SECONDS * 1000:
            raise refusal("reward_expired")
        return view

    async def record_event(self, view: View, event: str, at: int) -> None:
        # Only the first event with each name counts.
        if not view.test:
            key = f"{view.id} {event}"
            await self._records.compare_and_set(_EVENTS_SPACE, {key: None}, {key: b"%d" % at})

    async def has_event(self, view: View, event: str) -> bool:
        return await self._records.get(_EVENTS_SPACE, f"{view.id} {event}") is not None

    async def event_times(self) -> dict[str, dict[str, int]]:
        """Return the times of all events (milliseconds since the epoch) by view id and event."""
        times: dict[str, dict[str, int]] = {}
        for key, at in (await self._records.scan(_EVENTS_SPACE)).items():
            view_id, _, event = key.partition(" ")
            times.setdefault(view_id, {})[event] = int(at)
        return times
