"""The reward page: HTML with escaped texts, and a content security policy that allows its own script only."""

from __future__ import annotations

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

_VIEWS = "reward-views"
_ENGAGEMENTS = "reward-engagements"
# A view stays known after its life, so that its page can say that it has expired.
_KNOWN_SECONDS = 30 * wire.VIEW_SECONDS


class View(msgspec.Struct, frozen=True):
    """A reward page: ``at`` is when it was issued (milliseconds), ``test`` marks one that is never counted."""

    id: str
    token: str
    title: str
    message: str
    at: int
    test: bool


class Views:
    def __init__(self, records: Records) -> None:
        self._records = records

    def keep(self, view: View) -> asyncio.Future[None]:
        expires = view.at + _KNOWN_SECONDS * 1000
        return self._records.put(_VIEWS, view.id, msgspec.json.encode(view), expires)

    async def find(self, view_id: str, token: str, now: int) -> View:
        """Return the view; NotFound where there is none with this token (404), or it has expired (410)."""
        data = await self._records.get(_VIEWS, view_id) if view_id.isascii() else None
        view = None if data is None else msgspec.json.decode(data, type=View)
        # Compared in constant time, and the same answer for a wrong token as for a view that never was.
        given = token.encode("utf-8", "surrogatepass")
        if view is None or not hmac.compare_digest(view.token.encode("ascii"), given):
            raise wire.refusal("unknown_reward")
        if now >= view.at + wire.VIEW_SECONDS * 1000:
            raise wire.refusal("reward_expired")
        return view

    async def engage(self, view: View, event: str, at: int) -> None:
        # The first one counts, and none of a test.
        if not view.test:
            key = f"{view.id} {event}"
            await self._records.compare_and_set(_ENGAGEMENTS, {key: None}, {key: b"%d" % at})

    async def has(self, view: View, event: str) -> bool:
        return await self._records.get(_ENGAGEMENTS, f"{view.id} {event}") is not None

    async def engagements(self) -> dict[str, dict[str, int]]:
        """Return milliseconds since the epoch by event, by view id."""
        found: dict[str, dict[str, int]] = {}
        for key, at in (await self._records.scan(_ENGAGEMENTS)).items():
            view_id, _, event = key.partition(" ")
            found.setdefault(view_id, {})[event] = int(at)
        return found


class Document(NamedTuple):
    html: bytes
    policy: str


def page(view: View, *, claimed: bool) -> Document:
    """Return the page of a view. It stays hidden until ``#show``, or until its frame's owner posts ``show``."""
    words = {
        "view_id": view.id,
        "title": view.title,
        "message": view.message,
        "action": "Claimed" if claimed else "Claim",
        "state": "claimed" if claimed else "open",
    }
    return _filled("reward_page.html", words, "connect-src 'self'; ")


def notice(text: str) -> Document:
    """Return a page with one sentence, as for a reward that has expired."""
    return _filled("notice_page.html", {"text": text}, "")


def _filled(name: str, words: dict[str, str], policy: str) -> Document:
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
