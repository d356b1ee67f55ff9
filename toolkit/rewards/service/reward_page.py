"""The reward page: HTML with escaped texts, and a content security policy that allows its own script only."""

from __future__ import annotations

import html
import secrets
from functools import cache
from importlib.resources import files
from string import Template
from typing import NamedTuple

from toolkit.rewards.service.views import View


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
