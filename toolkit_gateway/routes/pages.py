"""The pages for browsers, which JSON clients never see, and the styles and scripts that these pages load.

Strangers may have written the texts in the landing page, so every text is escaped.
"""

import hashlib
import importlib.metadata
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from html import escape
from itertools import islice
from pathlib import Path
from string import Template
from urllib.parse import quote

import orjson

from toolkit.charts.assets import chart_module, chart_styles
from toolkit.dweets import wire
from toolkit.endpoint import Endpoint
from toolkit.errors import NotFound, ServiceError
from toolkit_gateway.dweets.contents import content_of
from toolkit_gateway.dweets.dweets import DweetService
from toolkit_gateway.http.exchange import Header, Request, Response, Route, Routes
from toolkit_gateway.runtime import Clock

LANDING = Endpoint("GET", "/")
README = Endpoint("GET", "/readme")
FOLLOW = Endpoint("GET", "/follow/{thing}")
STATIC = Endpoint("GET", "/static/{version}/{name}")

# Limits for each thing, so that the landing page is small and takes milliseconds even for a hundred large contents.
MAX_VALUES_PER_THING = 8
MAX_TEXT_CHARACTERS = 80
MAX_CONTENT_BYTES = 16 * 1024
_MAX_SPLIT_DEPTH = 20  # objects below this depth are shown as JSON

_TEXT = b"text/plain; charset=utf-8"
_HTML = b"text/html; charset=utf-8"
_IMMUTABLE: Header = (b"cache-control", b"public, max-age=31536000, immutable")
_NO_STORE: Header = (b"cache-control", b"no-store")
_PAGE_HEADERS: tuple[Header, ...] = (_NO_STORE, (b"vary", b"accept"), (b"referrer-policy", b"no-referrer"))
_FOLDER = Path(__file__).parent
_CONTENT_TYPES = {".css": b"text/css; charset=utf-8", ".js": b"text/javascript; charset=utf-8"}
_TAGS = {".css": '<link rel="stylesheet" href="{}">', ".js": '<script type="module" src="{}"></script>'}


class PageRoutes(Routes):
    first_segments = frozenset({b"static"})
    headers = ()  # without the default no-store: browsers may cache files; pages set `_PAGE_HEADERS` themselves

    def __init__(self, service: DweetService, clock: Clock) -> None:
        self._service, self._clock = service, clock
        self.table = [
            Route(LANDING, self._landing, for_browsers=True),
            Route(README, self._readme, for_browsers=True),
            Route(FOLLOW, self._follow, for_browsers=True),
            Route(STATIC, _static_file),
        ]

    def error_response(self, error: ServiceError, request: Request) -> Response:
        """Return the error as a page with a way home, or as plain text for callers who do not ask for HTML."""
        if request.wants_page:
            path = escape(request.raw_path[:MAX_TEXT_CHARACTERS].decode("ascii", "replace"))
            body = _template("error_page").substitute(problem=escape(error.message.capitalize()), path=path)
            return replace(_page(f"{error.status}: {error.message}", body), status=error.status)
        return Response(error.status, error.message.encode("utf-8", "replace"), _TEXT)

    async def _landing(self, request: Request) -> Response:
        things = "\n".join([_card(newest) for _, newest in await self._service.active_things()])
        now = f"{datetime.fromtimestamp(self._clock.now() / 1000, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        base_url = escape(request.base_url or "http://HOST:PORT")
        body = _template("landing_page").substitute(things=things, now=now, base_url=base_url)
        return _page("Gateway: public things", body, "landing.js")

    def _follow(self, request: Request) -> Response:
        # The page of a locked thing is like any other page: the script fetches the dweets and asks for a key.
        thing = wire.checked_thing(request.values["thing"])
        body = _template("follow_page").substitute(thing=escape(thing), path=quote(thing, safe=""))
        return _page(f"{thing}: live", body, "chart.css", "follow.js")

    def _readme(self, request: Request) -> Response:
        try:
            text = importlib.metadata.metadata("gateway-toolkit")["Description"]
        except importlib.metadata.PackageNotFoundError:
            raise NotFound("this toolkit is not installed as a package: read README.md in its source folder") from None
        return Response(200, text.encode("utf-8"), _TEXT, _PAGE_HEADERS)


def _static_file(request: Request) -> Response:
    version, files = _static_files()
    if request.values["name"] not in files:
        raise NotFound("there is no such file", status=404)
    content_type, body = files[request.values["name"]]
    # Another version is served too: during an update, a page of one gateway may load files from another gateway.
    return Response(200, body, content_type, (_IMMUTABLE if request.values["version"] == version else _NO_STORE,))


@cache
def _static_files() -> tuple[str, dict[str, tuple[bytes, bytes]]]:
    """Return the version of the static files, and the content type and body of each file by name."""
    # All files have one version, since scripts import each other by URLs relative to /static/VERSION/.
    texts = {path.name: path.read_text("utf-8") for path in (_FOLDER / "static").iterdir()}
    texts |= {"chart.js": chart_module(), "chart.css": chart_styles()}
    version = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]
    return version, {name: (_CONTENT_TYPES[Path(name).suffix], text.encode("utf-8")) for name, text in texts.items()}


@cache
def _template(name: str) -> Template:
    return Template((_FOLDER / f"{name}.html").read_text("utf-8"))


def _page(title: str, body: str, *file_names: str) -> Response:
    """Return the page with this HTML body; the page loads page.css and these static files."""
    scripts = "script-src 'self'; connect-src 'self'; " if file_names else ""
    # Only files of this gateway, nothing inline, and no other page may frame this page.
    policy = (
        f"default-src 'none'; {scripts}style-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    base = f"/static/{_static_files()[0]}"
    links = "\n".join(_TAGS[Path(name).suffix].format(f"{base}/{name}") for name in ("page.css", *file_names))
    html = _template("page_frame").substitute(title=escape(title), links=links, body=body)
    headers = *_PAGE_HEADERS, (b"content-security-policy", policy.encode("ascii"))
    return Response(200, html.encode("utf-8"), _HTML, headers)


def _card(dweet_json: bytes) -> str:
    content = content_of(dweet_json)
    # The content is the last field; without it, parsing is fast.
    dweet = orjson.loads(dweet_json[: -len(content) - 1] + b"null}")
    thing, created = dweet["thing"], escape(dweet["created"])
    is_large = len(content) > MAX_CONTENT_BYTES
    shown_content = f"{len(content) // 1024} KiB of JSON" if is_large else orjson.loads(content)
    # Not by `frequent_leaf_columns`: it visits all leaves: half a second for a hundred contents of an attacker.
    leaves = list(islice(_leaves(shown_content), MAX_VALUES_PER_THING + 1))
    shown = leaves[:MAX_VALUES_PER_THING]
    values = "".join(f"<dt>{_short_html(name)}</dt><dd>{_short_html(_value_text(value))}</dd>" for name, value in shown)
    rest = '<p class="more">and more</p>' if len(leaves) > MAX_VALUES_PER_THING else ""
    return (
        f'<li data-thing="{escape(thing)}" data-bytes="{len(content)}"><h3>{_thing_link(thing)}</h3>'
        f'<time datetime="{created}">{created[:19].replace("T", " ")} UTC</time>'
        f"<dl>{values}</dl>{rest}</li>"
    )


def _leaves(value: object, name: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    if type(value) is dict and value and depth < _MAX_SPLIT_DEPTH:
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if depth else key, depth + 1)
    else:
        yield name if depth else "content", value


def _thing_link(thing: str) -> str:
    if thing in (".", ".."):  # browsers treat these as parts of a relative path, even if encoded
        return _short_html(thing)
    return f'<a href="/follow/{quote(thing, safe="")}">{_short_html(thing)}</a>'


def _value_text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode("utf-8")
    except orjson.JSONEncodeError:
        return "nested too deeply to be shown"


def _short_html(text: str) -> str:
    # <bdi>: a right-to-left text must not change the order of the text around it.
    short = text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[:MAX_TEXT_CHARACTERS]}…"
    return f"<bdi>{escape(short)}</bdi>"
