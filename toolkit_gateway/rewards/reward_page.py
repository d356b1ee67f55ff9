"""The HTML of reward pages and notices, with the content security policy of each page."""

import html
import secrets
from functools import cache
from importlib.resources import files
from string import Template
from typing import NamedTuple

from toolkit_gateway.rewards.views import View


class Document(NamedTuple):
    html: bytes
    csp: str


def render_page(view: View, *, claimed: bool) -> Document:
    """Return the page of a view; it stays hidden until ``#show`` is in the URL or the parent page posts ``show``."""
    values = {
        "view_id": view.id,
        "title": view.title,
        "message": view.message,
        "action": "Claimed" if claimed else "Claim",
        "state": "claimed" if claimed else "open",
    }
    return _filled_template("reward_page.html", values, "connect-src 'self'; ")


def render_notice(text: str) -> Document:
    """Return a page with one sentence, for example for an expired reward."""
    return _filled_template("notice_page.html", {"text": text}, "")


def _filled_template(name: str, values: dict[str, str], more_policy: str) -> Document:
    nonce = secrets.token_urlsafe(16)
    escaped = {key: html.escape(value, quote=True) for key, value in values.items()}
    return Document(
        _template(name).substitute(escaped, nonce=nonce).encode("utf-8", "replace"),
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; {more_policy}"
        "base-uri 'none'; form-action 'none'",
    )


@cache
def _template(name: str) -> Template:
    return Template(files("toolkit_gateway.rewards").joinpath(name).read_text("utf-8"))
