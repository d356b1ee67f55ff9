"""Reward pages: who may see a page, the events of the reader, and the HTML with the content security policy."""

import asyncio
import hmac
import html
import secrets
from functools import cache
from importlib.resources import files
from string import Template
from typing import NamedTuple

import msgspec

from toolkit.rewards import wire
from toolkit.stores import Records

_VIEWS_SPACE = "reward-views"
_EVENTS_SPACE = "reward-engagements"
# A view is stored longer than it is valid, so that the page can say that the reward has expired.
_VIEW_STORED_SECONDS = 30 * wire.VIEW_SECONDS


class View(msgspec.Struct, frozen=True):
    """A reward page; ``at`` is the time of the decision (milliseconds since the epoch); ``test`` views log no event."""

    id: str
    token: str
    title: str
    message: str
    at: int
    test: bool


class ViewRepository:
    def __init__(self, records: Records) -> None:
        self._records = records

    def save(self, view: View) -> asyncio.Future[None]:
        expires = view.at + _VIEW_STORED_SECONDS * 1000
        return self._records.put(_VIEWS_SPACE, view.id, msgspec.json.encode(view), expires)

    async def find(self, view_id: str, token: str, now: int) -> View:
        """Return the view, or raise NotFound: no view has this token (404), or the view has expired (410)."""
        data = await self._records.get(_VIEWS_SPACE, view_id) if view_id.isascii() else None
        view = None if data is None else msgspec.json.decode(data, type=View)
        # Tokens are compared in constant time; a wrong token gets the same error as an unknown view.
        given = token.encode("utf-8", "surrogatepass")
        if view is None or not hmac.compare_digest(view.token.encode("ascii"), given):
            raise wire.refusal("unknown_reward")
        if now >= view.at + wire.VIEW_SECONDS * 1000:
            raise wire.refusal("reward_expired")
        return view

    async def record_event(self, view: View, event: str, at: int) -> None:
        # Only the first event of a kind counts.
        if not view.test:
            key = f"{view.id} {event}"
            await self._records.compare_and_set(_EVENTS_SPACE, {key: None}, {key: b"%d" % at})

    async def has_event(self, view: View, event: str) -> bool:
        return await self._records.get(_EVENTS_SPACE, f"{view.id} {event}") is not None

    async def event_times(self) -> dict[str, dict[str, int]]:
        """Return the times of all events (milliseconds since the epoch) by view id and event."""
        found: dict[str, dict[str, int]] = {}
        for key, at in (await self._records.scan(_EVENTS_SPACE)).items():
            view_id, _, event = key.partition(" ")
            found.setdefault(view_id, {})[event] = int(at)
        return found


class Document(NamedTuple):
    html: bytes
    csp: str


def page(view: View, *, claimed: bool) -> Document:
    """Return the page of a view; it stays hidden until ``#show`` is in the URL or the parent page posts ``show``."""
    words = {
        "view_id": view.id,
        "title": view.title,
        "message": view.message,
        "action": "Claimed" if claimed else "Claim",
        "state": "claimed" if claimed else "open",
    }
    return _filled_template("reward_page.html", words, "connect-src 'self'; ")


def notice(text: str) -> Document:
    """Return a page with one sentence, for example for an expired reward."""
    return _filled_template("notice_page.html", {"text": text}, "")


def _filled_template(name: str, words: dict[str, str], policy: str) -> Document:
    nonce = secrets.token_urlsafe(16)
    safe = {key: html.escape(value, quote=True) for key, value in words.items()}
    return Document(
        _template(name).substitute(safe, nonce=nonce).encode("utf-8", "replace"),
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; {policy}"
        "base-uri 'none'; form-action 'none'",
    )


@cache
def _template(name: str) -> Template:
    return Template(files("toolkit.rewards.service").joinpath(name).read_text("utf-8"))
