"""The page that a browser gets from a gateway: its public things. Every text in it may be a stranger's."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any
from urllib.parse import quote

import orjson

from toolkit.dweets.content_leaves import leaf_columns
from toolkit.gateway.web_pages import page

# Of a thing, so that a page of many large contents stays small.
MOST_VALUES = 8
LONGEST_TEXT = 80


def landing_page(dweets: Sequence[bytes], base_url: str) -> bytes:
    """Return the page with these dweets, one a thing."""
    items = "\n".join(_item(orjson.loads(dweet)) for dweet in dweets)
    things = f'<ul class="cards">\n{items}\n</ul>' if items else "<p>No public thing has posted yet.</p>"
    words = {"things": things, "base_url": escape(base_url)}
    return page("Gateway: public things", "landing_page.html", words)


def _item(dweet: dict[str, Any]) -> str:
    thing, created = dweet["thing"], escape(dweet["created"])
    leaves, left_out = leaf_columns([dweet["content"]])
    shown = list(leaves.items())[:MOST_VALUES]
    values = "".join(f"<dt>{_isolated(name)}</dt><dd>{_isolated(_text(value))}</dd>" for name, (value,) in shown)
    more = len(leaves) + left_out - len(shown)
    rest = f'<p class="more">and {more:,} more</p>' if more else ""
    return (
        f'<li><h3>{_linked(thing)}</h3><time datetime="{created}">{created[:19].replace("T", " ")} UTC</time>'
        f"<dl>{values}</dl>{rest}</li>"
    )


def _linked(thing: str) -> str:
    if thing in (".", ".."):  # a browser takes them for steps in the path, also where they are encoded
        return _isolated(thing)
    return f'<a href="/follow/{quote(thing, safe="")}">{_isolated(thing)}</a>'


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode("utf-8")
    except orjson.JSONEncodeError:
        return "nested too deeply to be shown"


def _isolated(text: str) -> str:
    # Isolated, so that a text from right to left turns nothing around it.
    short = text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
    return f"<bdi>{escape(short)}</bdi>"
