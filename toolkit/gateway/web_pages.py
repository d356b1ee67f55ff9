"""The pages of the gateway itself: their common frame, and the styles and scripts that they load from it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import NamedTuple
from urllib.parse import quote

from toolkit.charts.assets import chart_module, chart_styles

_STATIC = Path(__file__).parent / "static"
_KINDS = {".css": b"text/css; charset=utf-8", ".js": b"text/javascript; charset=utf-8"}
_LINKS = {".css": '<link rel="stylesheet" href="{}">', ".js": '<script type="module" src="{}"></script>'}


class StaticFile(NamedTuple):
    content_type: bytes
    body: bytes


class StaticFiles(NamedTuple):
    #: Changes with the content of any file: scripts import each other by relative names.
    version: str
    by_name: Mapping[str, StaticFile]


@cache
def static_files() -> StaticFiles:
    texts = {path.name: path.read_text("utf-8") for path in _STATIC.iterdir()}
    texts |= {"chart.js": chart_module(), "chart.css": chart_styles()}
    found = {name: StaticFile(_KINDS[Path(name).suffix], text.encode("utf-8")) for name, text in texts.items()}
    return StaticFiles(hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16], found)


def policy(*, scripts: bool = False) -> bytes:
    """Return the content security policy: files of this gateway only, nothing inline, no frame around it."""
    running = "script-src 'self'; connect-src 'self'; " if scripts else ""
    return (
        f"default-src 'none'; {running}style-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ).encode("ascii")


def page(title: str, name: str, words: Mapping[str, str], *loaded: str) -> bytes:
    """Return the page whose body is the template `name`, filled with `words`, which are HTML.

    `loaded` are the static files that it needs besides the common styles.
    """
    base = f"/static/{static_files().version}"
    body = _template(name).substitute(words)
    links = "\n".join(_LINKS[Path(one).suffix].format(f"{base}/{one}") for one in ("page.css", *loaded))
    return _template("page_frame.html").substitute(title=escape(title), links=links, body=body).encode("utf-8")


def follow_page(thing: str) -> bytes:
    """Return the page that follows a thing; everything it shows, its script reads."""
    words = {"thing": escape(thing), "path": quote(thing, safe="")}
    return page(f"{thing}: live", "follow_page.html", words, "chart.css", "follow.js")


@cache
def _template(name: str) -> Template:
    return Template(Path(__file__).with_name(name).read_text("utf-8"))
