"""`GET /` and `GET /follow/{thing}` for browsers, and the files that they load: what is escaped, refused and cached."""

from __future__ import annotations

import html
import json
import re
import threading
from urllib.parse import quote

import pytest

import toolkit
from tests.conftest import RawReply, raw_call, raw_exchange
from toolkit_gateway import Gateway

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
EVIL = "<script>alert(1)</script>\"'&\u202e"
KEY = "correct-horse-battery"
NOT_FOUND = {"this": "failed", "with": 404, "because": "we couldn't find this"}


def page_of(gateway: Gateway, path: str = "/", accept: str = BROWSER, method: str = "GET") -> RawReply:
    return raw_call(gateway.base_url, method, path, headers=f"Accept: {accept}\r\n")


def things_on(page: RawReply) -> list[str]:
    found = re.findall(r"<h3>(.*?)</h3>", page.body.decode())
    return [html.unescape(re.sub(r"<[^>]*>", "", one)) for one in found]


def test_a_browser_sees_public_things_and_their_values(tk: toolkit.Connection, gateway: Gateway) -> None:
    assert "No public thing has posted yet." in page_of(gateway).body.decode()
    tk.dweets.post("a/b c", {"celsius": 20, "air": {"humidity": 48, "on": True}})
    tk.dweets.post("kitchen", "only a text")
    tk.dweets.post("a/b c", {"celsius": 21.5, "air": {"humidity": 48, "on": True}})
    page = page_of(gateway)
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert things_on(page) == ["a/b c", "kitchen"]
    values = re.findall(r"<dt><bdi>(.*?)</bdi></dt><dd><bdi>(.*?)</bdi></dd>", page.body.decode())
    assert values == [("celsius", "21.5"), ("air.humidity", "48"), ("air.on", "true"), ("content", "only a text")]
    assert 'href="/follow/a%2Fb%20c"' in page.body.decode()
    assert "http://127.0.0.1/dweet/for/kitchen" in page.body.decode()


@pytest.mark.parametrize("path", ["/", "/?a=1", "/readme"])
def test_json_clients_get_the_json_answer(path: str, shared: Gateway) -> None:
    for accept in (
        "*/*",
        "",
        "application/json",
        "application/json, text/html;q=0.9",
        "text/*",
        "text/htmlx",
        ",;,=;q",
    ):
        answer, unknown = page_of(shared, path, accept), page_of(shared, "/nowhere", accept)
        assert (answer.status, json.loads(answer.body)) == (404, NOT_FOUND), accept
        assert answer == unknown
        assert "vary" not in answer.headers
    for accept in ("text/html", "TEXT/HTML; charset=utf-8", "text/html;q=0.1, */*"):
        assert page_of(shared, path, accept).status == 200, accept


def test_a_browser_finds_the_way_home_from_a_wrong_address(shared: Gateway) -> None:
    for path in ("/nowhere", "/get/nothing/at/all", "/follow", "/follow/a/b", "/static/0/x.js", "/%3Cb%3E"):
        page, head = page_of(shared, path), page_of(shared, path, method="HEAD")
        assert (page.status, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert (head.status, head.headers, head.body) == (404, page.headers, b"")
        assert '<a href="/">' in page.body.decode()
        assert b"<b>" not in page.body
        assert "text/html" not in page_of(shared, path, accept="application/json").headers["content-type"]


def test_the_page_names_all_four_services(tk: toolkit.Connection, gateway: Gateway) -> None:
    page = page_of(gateway).body.decode()
    assert re.findall(r'<h2 id="(.*?)">', page) == ["messages", "handwriting", "rewards", "identity"]
    assert page.count("<pre>") == 4
    tk.dweets.post("kitchen", 1)
    seen = re.search(r'data-now="(.*?)".*data-bytes="1".*datetime="(.*?)"', page_of(gateway).body.decode(), re.DOTALL)
    assert seen is not None
    assert seen[1] >= seen[2], "the age of a dweet is a time of the gateway's clock"


def test_other_methods_are_not_found(shared: Gateway) -> None:
    page, head = page_of(shared), page_of(shared, method="HEAD")
    assert (head.status, head.headers, head.body) == (200, page.headers, b"")
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert page_of(shared, method=method) == page_of(shared, "/nowhere", method=method)
        assert page_of(shared, method=method).status == 404


def test_hostile_texts_stay_texts(tk: toolkit.Connection, gateway: Gateway) -> None:
    tk.dweets.post(EVIL, {EVIL: EVIL, "list": [EVIL], "$base_url": "$things"})
    page = page_of(gateway).body.decode()
    assert "<script>" not in page
    assert page.count(html.escape(EVIL)) == 4
    assert things_on(page_of(gateway)) == [EVIL]
    assert "$things" in page
    evil_host = f"GET / HTTP/1.1\r\nHost: localhost'><b>\r\nAccept: {BROWSER}\r\nConnection: close\r\n\r\n"
    assert b"<b>" not in raw_exchange(gateway.base_url, evil_host.encode())


def test_a_page_of_large_contents_is_small(tk: toolkit.Connection, gateway: Gateway) -> None:
    nested = 1_000 * b"[" + 1_000 * b"]"
    large = json.dumps({f"name {n} {'x' * 80}": "y" * 60 for n in range(100)}).encode()
    for number in range(120):
        raw_call(gateway.base_url, "POST", f"/dweet/for/thing-{number}{'%C3%BC' * 100}", large)
    deep = b'{"a":{"b":%b},"c":%b}' % (nested, b'{"d":' * 900 + b"1" + b"}" * 900)
    raw_call(gateway.base_url, "POST", "/dweet/for/deep", deep)
    page = page_of(gateway)
    assert len(page.body) < 400_000
    assert len(things_on(page)) == 100
    assert "and more" in page.body.decode()
    assert "nested too deeply to be shown" in page.body.decode()


def test_content_above_16_kib_is_shown_as_its_size(tk: toolkit.Connection, gateway: Gateway) -> None:
    tk.dweets.post("busy", {f"name {number}": {"value": number} for number in range(2_000)})
    tk.dweets.post("wide", {f"name {number}": number for number in range(9)})
    body = page_of(gateway).body.decode()
    assert "<dt><bdi>content</bdi></dt><dd><bdi>50 KiB of JSON</bdi></dd>" in body
    assert body.count("and more") == 1


def test_a_locked_thing_never_appears() -> None:
    with Gateway(locks={"door": KEY}) as gateway, toolkit.connect(gateway) as tk:
        for thing in ("kitchen", "vault"):
            tk.dweets.post(thing, {"code": "secret-code"} if thing == "vault" else {})
        assert things_on(page_of(gateway)) == ["vault", "kitchen"]
        tk.dweets.lock("vault", lock="door", key=KEY)
        tk.dweets.post("vault", {"code": "secret-code"}, key=KEY)
        page = page_of(gateway, f"/?key={KEY}")
        assert things_on(page) == ["kitchen"]
        assert b"vault" not in page.body
        assert b"secret-code" not in page.body
        tk.dweets.unlock("vault", key=KEY)
        assert "vault" in things_on(page_of(gateway))


def test_no_page_shows_a_thing_once_it_is_locked() -> None:
    with Gateway(locks={"door": KEY}) as gateway, toolkit.connect(gateway) as tk:
        tk.dweets.post("vault", 1)
        pages: list[RawReply] = []
        is_locked = threading.Event()

        def look() -> None:
            while not is_locked.is_set():
                page_of(gateway)
            pages.append(page_of(gateway))

        readers = [threading.Thread(target=look) for _ in range(4)]
        for reader in readers:
            reader.start()
        tk.dweets.lock("vault", lock="door", key=KEY)
        is_locked.set()
        for reader in readers:
            reader.join(60)
        assert [(page.status, things_on(page)) for page in pages] == [(200, [])] * 4


@pytest.mark.parametrize(("path", "scripts"), [("/nowhere", None), ("/", "'self'"), ("/follow/kitchen", "'self'")])
def test_a_page_loads_files_of_its_gateway_only(path: str, scripts: str | None, shared: Gateway) -> None:
    headers = page_of(shared, path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert (policy.pop("script-src", None), policy.pop("connect-src", None)) == (scripts, scripts)
    assert policy == {
        "default-src": "'none'",
        "style-src": "'self'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert headers["vary"] == "accept"
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


def test_readme_is_served_as_text(shared: Gateway) -> None:
    answer = page_of(shared, "/readme")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert answer.body.decode().startswith("# gateway-toolkit")


# -- the page that follows a thing -------------------------------------------------------------------------


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
