"""The pages of the gateway itself, and the styles and scripts that they load from it.

Every text in the landing page may be a stranger's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import escape
from itertools import islice
from pathlib import Path
from string import Template
from urllib.parse import quote

import orjson

from toolkit.charts.assets import chart_module, chart_styles
from toolkit.dweets.content import content_of
from toolkit.gateway.exchange import Response

# Of a thing, so that a page of a hundred large contents takes a few milliseconds and stays small.
MOST_VALUES = 8
LONGEST_TEXT = 80
LARGEST_CONTENT = 16 * 1024
_DEEPEST = 20

_HTML = b"text/html; charset=utf-8"
_STATIC = Path(__file__).parent / "static"
_KINDS = {".css": b"text/css; charset=utf-8", ".js": b"text/javascript; charset=utf-8"}
_LINKS = {".css": '<link rel="stylesheet" href="{}">', ".js": '<script type="module" src="{}"></script>'}


@cache
def static_files() -> tuple[str, dict[str, tuple[bytes, bytes]]]:
    """Return their version, and the type and the content of each by its name.

    The version changes with any of them, since scripts import each other by relative names.
    """
    texts = {path.name: path.read_text("utf-8") for path in _STATIC.iterdir()}
    texts |= {"chart.js": chart_module(), "chart.css": chart_styles()}
    version = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]
    return version, {name: (_KINDS[Path(name).suffix], text.encode("utf-8")) for name, text in texts.items()}


def _page(title: str, name: str, words: Mapping[str, str], *loaded: str) -> Response:
    """Return the page whose body is the template `name`, filled with `words`, which are HTML.

    `loaded` are the static files that it needs besides the common styles.
    """
    scripts = "script-src 'self'; connect-src 'self'; " if loaded else ""
    # Files of this gateway only, nothing inline, no frame around it.
    policy = (
        f"default-src 'none'; {scripts}style-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    base = f"/static/{static_files()[0]}"
    body = _template(name).substitute(words)
    links = "\n".join(_LINKS[Path(one).suffix].format(f"{base}/{one}") for one in ("page.css", *loaded))
    html = _template("page_frame.html").substitute(title=escape(title), links=links, body=body)
    return Response(200, html.encode("utf-8"), _HTML, ((b"content-security-policy", policy.encode("ascii")),))


def follow_page(thing: str) -> Response:
    """Return the page that follows a thing; everything it shows, its script reads."""
    words = {"thing": escape(thing), "path": quote(thing, safe="")}
    return _page(f"{thing}: live", "follow_page.html", words, "chart.css", "follow.js")


@cache
def _template(name: str) -> Template:
    return Template(Path(__file__).with_name(name).read_text("utf-8"))


def landing_page(dweets: Sequence[bytes], base_url: str) -> Response:
    """Return the page with these dweets, one a thing."""
    items = "\n".join(map(_item, dweets))
    things = f'<ul class="cards">\n{items}\n</ul>' if items else "<p>No public thing has posted yet.</p>"
    words = {"things": things, "base_url": escape(base_url)}
    return _page("Gateway: public things", "landing_page.html", words)


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
