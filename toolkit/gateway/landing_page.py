"""The page that a browser gets from a gateway: its public things. Every text in it may be a stranger's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import islice
from urllib.parse import quote

import orjson

from toolkit.dweets.content import content_of
from toolkit.gateway.web_pages import page

# Of a thing, so that a page of a hundred large contents takes a few milliseconds and stays small.
MOST_VALUES = 8
LONGEST_TEXT = 80
LARGEST_CONTENT = 16 * 1024
_DEEPEST = 20


def landing_page(dweets: Sequence[bytes], base_url: str) -> bytes:
    """Return the page with these dweets, one a thing."""
    items = "\n".join(map(_item, dweets))
    things = f'<ul class="cards">\n{items}\n</ul>' if items else "<p>No public thing has posted yet.</p>"
    words = {"things": things, "base_url": escape(base_url)}
    return page("Gateway: public things", "landing_page.html", words)


def _item(record: bytes) -> str:
    content = content_of(record)
    dweet = orjson.loads(record[: -len(content) - 1] + b"null}")
    thing, created = dweet["thing"], escape(dweet["created"])
    is_large = len(content) > LARGEST_CONTENT
    value = f"{len(content) // 1024} KiB of JSON" if is_large else orjson.loads(content)
    leaves = list(islice(_leaves(value), MOST_VALUES + 1))
    shown = leaves[:MOST_VALUES]
    values = "".join(f"<dt>{_isolated(name)}</dt><dd>{_isolated(_text(value))}</dd>" for name, value in shown)
    rest = '<p class="more">and more</p>' if len(leaves) > MOST_VALUES else ""
    return (
        f'<li><h3>{_linked(thing)}</h3><time datetime="{created}">{created[:19].replace("T", " ")} UTC</time>'
        f"<dl>{values}</dl>{rest}</li>"
    )


def _leaves(value: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    if type(value) is dict and value and depth < _DEEPEST:
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if depth else key, depth + 1)
    else:
        yield name if depth else "content", value


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
