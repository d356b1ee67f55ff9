"""The pages for browsers, which JSON clients never see, and the styles and scripts that these pages load.

Every text in the landing page may be a stranger's.
"""

import hashlib
import importlib.metadata
from collections.abc import Iterator
from functools import cache
from html import escape
from itertools import islice
from pathlib import Path
from string import Template
from urllib.parse import quote

import orjson

from toolkit.charts.assets import chart_module, chart_styles
from toolkit.dweets import wire
from toolkit.dweets.content import content_of
from toolkit.dweets.service.dweets import DweetService
from toolkit.endpoint import Endpoint
from toolkit.errors import NotFound, ServiceError
from toolkit.gateway.exchange import Header, Request, Response, Route, Routes

LANDING = Endpoint("GET", "/")
README = Endpoint("GET", "/readme")
FOLLOW = Endpoint("GET", "/follow/{thing}")
STATIC = Endpoint("GET", "/static/{version}/{name}")

# Of a thing, so that a page of a hundred large contents takes a few milliseconds and stays small.
MOST_VALUES = 8
LONGEST_TEXT = 80
LARGEST_CONTENT = 16 * 1024
_DEEPEST = 20

_TEXT = b"text/plain; charset=utf-8"
_HTML = b"text/html; charset=utf-8"
_A_YEAR: Header = (b"cache-control", b"public, max-age=31536000, immutable")
_NEVER: Header = (b"cache-control", b"no-store")
_OF_PAGES: tuple[Header, ...] = (_NEVER, (b"vary", b"accept"), (b"referrer-policy", b"no-referrer"))
_TEMPLATES = Path(__file__).parents[1]
_KINDS = {".css": b"text/css; charset=utf-8", ".js": b"text/javascript; charset=utf-8"}
_LINKS = {".css": '<link rel="stylesheet" href="{}">', ".js": '<script type="module" src="{}"></script>'}


class PageRoutes(Routes):
    segments = frozenset({b"static"})
    headers = ()  # a file may be stored, a page not

    def __init__(self, service: DweetService) -> None:
        self._service = service
        self.table = [
            Route(LANDING, self._landing, for_browsers=True),
            Route(README, self._readme, for_browsers=True),
            Route(FOLLOW, self._follow, for_browsers=True),
            Route(STATIC, _static_file),
        ]

    def refuse(self, error: ServiceError, request: Request) -> Response:
        """Answer with a sentence for a person, not with JSON."""
        headers = _OF_PAGES if request.route is not None and request.route.for_browsers else ()
        return Response(error.status, error.message.encode("utf-8", "replace"), _TEXT, headers)

    async def _landing(self, request: Request) -> Response:
        items = "\n".join([_item(newest) for _, newest in await self._service.active_things()])
        things = f'<ul class="cards">\n{items}\n</ul>' if items else "<p>No public thing has posted yet.</p>"
        base_url = escape(request.base_url or "http://HOST:PORT")
        return _page("Gateway: public things", _template("landing_page").substitute(things=things, base_url=base_url))

    def _follow(self, request: Request) -> Response:
        # The page of a locked thing is the same as any other: its script reads everything, and asks for a key.
        thing = wire.checked_thing(request.values["thing"])
        body = _template("follow_page").substitute(thing=escape(thing), path=quote(thing, safe=""))
        return _page(f"{thing}: live", body, "chart.css", "follow.js")

    def _readme(self, request: Request) -> Response:
        try:
            text = importlib.metadata.metadata("gateway-toolkit")["Description"]
        except importlib.metadata.PackageNotFoundError:
            raise NotFound("this toolkit runs from its sources: README.md lies beside them") from None
        return Response(200, text.encode("utf-8"), _TEXT, _OF_PAGES)


def _static_file(request: Request) -> Response:
    version, files = _static_files()
    if request.values["name"] not in files:
        raise NotFound("there is no such file", status=404)
    content_type, body = files[request.values["name"]]
    # While gateways behind a balancer are updated, a page of one may load a file from another.
    return Response(200, body, content_type, (_A_YEAR if request.values["version"] == version else _NEVER,))


@cache
def _static_files() -> tuple[str, dict[str, tuple[bytes, bytes]]]:
    """Return their version, and the type and the content of each by its name.

    The version changes with any of them, since scripts import each other by relative names.
    """
    texts = {path.name: path.read_text("utf-8") for path in (_TEMPLATES / "static").iterdir()}
    texts |= {"chart.js": chart_module(), "chart.css": chart_styles()}
    version = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:16]
    return version, {name: (_KINDS[Path(name).suffix], text.encode("utf-8")) for name, text in texts.items()}


@cache
def _template(name: str) -> Template:
    return Template((_TEMPLATES / f"{name}.html").read_text("utf-8"))


def _page(title: str, body: str, *loaded: str) -> Response:
    """Return the page with this body, which is HTML; `loaded` are the static files that it needs besides the styles."""
    scripts = "script-src 'self'; connect-src 'self'; " if loaded else ""
    # Files of this gateway only, nothing inline, no frame around it.
    policy = (
        f"default-src 'none'; {scripts}style-src 'self'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    base = f"/static/{_static_files()[0]}"
    links = "\n".join(_LINKS[Path(one).suffix].format(f"{base}/{one}") for one in ("page.css", *loaded))
    html = _template("page_frame").substitute(title=escape(title), links=links, body=body)
    headers = *_OF_PAGES, (b"content-security-policy", policy.encode("ascii"))
    return Response(200, html.encode("utf-8"), _HTML, headers)


def _item(record: bytes) -> str:
    content = content_of(record)
    dweet = orjson.loads(record[: -len(content) - 1] + b"null}")
    thing, created = dweet["thing"], escape(dweet["created"])
    is_large = len(content) > LARGEST_CONTENT
    value = f"{len(content) // 1024} KiB of JSON" if is_large else orjson.loads(content)
    # Not by `leaf_columns`, which names all leaves: of a hundred contents that are made for it, that takes a second.
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
