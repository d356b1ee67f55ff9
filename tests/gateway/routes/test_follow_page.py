"""`GET /follow/{thing}` for browsers and the files it loads: what is escaped, refused and cached."""

from __future__ import annotations

import html
import json
import re
from urllib.parse import quote

import toolkit
from tests.conftest import raw_call
from tests.gateway.routes.test_landing_page import EVIL, KEY, NOT_FOUND, page_of
from toolkit_gateway import Gateway


def test_the_page_of_any_thing_is_the_same(shared: Gateway) -> None:
    for thing in ("kitchen", "a/b c", EVIL, "$thing", "ü" * 128, "..."):
        page = page_of(shared, f"/follow/{quote(thing, safe='')}")
        assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert f'data-thing="{html.escape(thing)}"' in page.body.decode()
        assert f'href="/get/dweets/for/{quote(thing, safe="")}"' in page.body.decode()
        assert "<script>alert" not in page.body.decode()
        assert page.headers["cache-control"] == "no-store"


def test_invalid_thing_name_is_refused(shared: Gateway) -> None:
    for name in ("%00", "%FF", "%ED%A0%80", "x" * 257, "a%0Ab"):
        answer = page_of(shared, f"/follow/{name}")
        assert (answer.status, answer.headers["content-type"]) == (400, "text/html; charset=utf-8")
        assert b"A thing&#x27;s name must have" in answer.body


def test_json_clients_get_no_follow_page(shared: Gateway) -> None:
    answer = page_of(shared, "/follow/kitchen", accept="application/json")
    assert (answer.status, json.loads(answer.body)) == (404, NOT_FOUND)


def test_the_page_of_a_locked_thing_tells_nothing() -> None:
    with Gateway(locks={"door": KEY}) as gateway, toolkit.connect(gateway) as tk:
        tk.dweets.post("vault", {"code": "secret-code"})
        before = page_of(gateway, "/follow/vault")
        tk.dweets.lock("vault", lock="door", key=KEY)
        assert page_of(gateway, "/follow/vault") == before
        assert b"secret-code" not in before.body


def test_static_files_are_cached_until_they_change(gateway: Gateway) -> None:
    paths = re.findall(r'(?:href|src)="(/static/[^"]+)"', page_of(gateway, "/follow/kitchen").body.decode())
    assert [path.rpartition("/")[2] for path in paths] == ["page.css", "chart.css", "follow.js"]
    for path in paths:
        file = raw_call(gateway.base_url, "GET", path)
        kind = "text/css" if path.endswith("css") else "text/javascript"
        assert (file.status, file.headers["content-type"]) == (200, f"{kind}; charset=utf-8")
        assert file.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert file.headers["x-content-type-options"] == "nosniff"
        other_version = re.sub("/static/[^/]+", "/static/0", path)
        other = raw_call(gateway.base_url, "GET", other_version)
        assert (other.body, other.headers["cache-control"]) == (file.body, "no-store")


def test_unknown_static_file_is_404(shared: Gateway) -> None:
    for path in ("/static/0/nothing.js", "/static/0/..%2Fapp.py", "/static/x", "/static/0/a/b"):
        assert raw_call(shared.base_url, "GET", path).status == 404, path
