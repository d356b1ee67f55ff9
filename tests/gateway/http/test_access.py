"""Web pages, proxies and foreign host names: which requests are answered, and whose address counts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import RawReply, raw_exchange
from tests.identity_lab import ACCOUNT
from toolkit.errors import InvalidArgument
from toolkit_gateway import Gateway
from toolkit_gateway.http.access import Proxies
from toolkit_gateway.http.exchange import Request

EVIL = "evil.example:8787"
# A call of each service, as a page reaches it whose name points at this machine, and the refusal in its dialect.
CALLS: dict[str, tuple[str, str, str, str]] = {
    "dweets": ("GET", "/get/latest/dweet/for/attic", "*/*", '"with":421'),
    "posting": ("POST", "/dweet/for/rebound", "*/*", "--allow-host"),
    "handwriting": ("GET", "/handwritings?apikey=any", "*/*", '"errors"'),
    "rewards": ("POST", "/2.0/web/moment/?gatewaykey=any", "*/*", '"wrong_host"'),
    "reward page": ("GET", "/reward/any?k=any", "*/*", "<html"),
    "identity": ("POST", ACCOUNT + "accountEcho", "*/*", '"Status":2,'),
    "nothing": ("GET", "/", "*/*", '"with":421'),
    "landing page": ("GET", "/", "text/html", "--allow-host"),
    "follow page": ("GET", "/follow/kitchen", "text/html", "--allow-host"),
    "file of a page": ("GET", "/static/0/page.css", "text/css", "--allow-host"),
    "preflight": ("OPTIONS", "/dweet/for/attic", "*/*", '"with":421'),
}


@pytest.fixture(scope="module")
def running() -> Iterator[Gateway]:
    with Gateway(config={"gateway": {"allow_hosts": ["Old-Name.example", "192.0.2.7"]}}) as gateway:
        yield gateway


def call(
    gateway: Gateway, method: str, target: str, host: str | None, version: str = "1.1", more: str = ""
) -> RawReply:
    line = "" if host is None else f"Host: {host}\r\n"
    head = f"{method} {target} HTTP/{version}\r\n{line}{more}Content-Length: 2\r\nConnection: close\r\n\r\n{{}}"
    top, _, body = raw_exchange(gateway.base_url, head.encode("latin-1")).partition(b"\r\n\r\n")
    status, *lines = top.decode("latin-1").split("\r\n")
    return RawReply(int(status.split()[1]), dict(line.split(": ", 1) for line in lines), body)


@pytest.mark.parametrize(("method", "target", "accept", "refusal"), CALLS.values(), ids=CALLS)
def test_a_rebound_name_reaches_no_service(
    running: Gateway, method: str, target: str, accept: str, refusal: str
) -> None:
    reply = call(running, method, target, EVIL, more=f"Accept: {accept}\r\n")
    assert reply.status == 421
    assert b"host" in reply.body.lower()
    assert refusal.encode() in reply.body
    assert b'"with":404' in call(running, "GET", "/get/latest/dweet/for/rebound", "localhost").body, "nothing is posted"


def test_loopback_and_allowed_names_are_served(running: Gateway) -> None:
    allowed = ("old-name.example", "192.0.2.7:80")
    for host in ("localhost", "LocalHost:1", "127.0.0.1", "127.8.9.10:80", "[::1]", "[::1]:8787", *allowed):
        for _ in range(2):  # the second time the name is known
            assert b'"this":"succeeded"' in call(running, "GET", "/get/stats", host).body, host


def test_other_names_are_refused(running: Gateway) -> None:
    for host in (
        *("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "old-name.example.evil.example"),
        *("localhost@evil.example", "evil.example/localhost", "localhost ,evil.example"),
        *("127.1", "2130706433", "0x7f.0.0.1", "0.0.0.0", "[::]", "[::ffff:192.0.2.1]"),
        *("::1", "localhost:", "localhost:123456", "\xff", ""),
    ):
        assert call(running, "GET", "/get/stats", host).status == 421, host


def test_old_clients_using_the_gateway_as_proxy_are_served(running: Gateway) -> None:
    """They name the server in the request line, which a page of another name cannot do."""
    reply = call(running, "GET", "http://dweet.example/dweet/for/proxied?n=1", "dweet.example")
    assert b'"this":"succeeded"' in reply.body
    assert b'"this":"succeeded"' in call(running, "GET", "/get/stats", None, version="1.0").body


def test_many_spellings_of_a_name_use_bounded_memory(running: Gateway) -> None:
    request = "GET /get/stats HTTP/1.1\r\nHost: localhost:{}\r\n\r\n"
    pipeline = "".join(request.format(port) for port in range(1_000))
    last = request.format(1).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n")
    raw = raw_exchange(running.base_url, (pipeline + last).encode())
    assert raw.count(b'"this":"succeeded"') == 1_001


def test_exposed_gateway_serves_any_name_unless_some_are_given() -> None:
    with Gateway(host="0.0.0.0", exposed=True) as anybody:  # noqa: S104
        assert call(anybody, "GET", "/get/stats", "gateway.example").status == 200
    with Gateway(config={"gateway": {"host": "0.0.0.0", "allow_hosts": ["gateway.example"]}}) as named:
        assert call(named, "GET", "/get/stats", "gateway.example:8787").status == 200
        assert call(named, "GET", "/get/stats", "localhost").status == 200
        assert call(named, "GET", "/get/stats", "evil.example").status == 421


@pytest.mark.parametrize("name", ["", "http://a.example", "a.example:80", "a b", "a/b", "*"])
def test_invalid_host_name_cannot_be_allowed(name: str) -> None:
    with pytest.raises(InvalidArgument, match="host name"):
        Gateway(config={"gateway": {"allow_hosts": [name]}})


# -- pages of other origins --------------------------------------------------------------------------------


def test_web_pages_may_read_dweets_unless_disabled() -> None:
    origin = "Origin: https://page.example\r\nAccess-Control-Request-Method: POST\r\n"
    scripts = (
        "/get/stats?callback=f",
        "/get/stored/dweets/for/a?date=2026-01-01&callback=f",
        "/get/alert/for/a?callback=f",
    )
    with Gateway() as usual, Gateway(config={"gateway": {"cors": False}}) as closed:
        for target in scripts:
            assert call(usual, "GET", target, "localhost").body.startswith(b"/**/f("), target
            reply = call(closed, "GET", target, "localhost")
            assert (reply.headers["content-type"][:16], reply.body[:8]) == ("application/json", b'{"this":'), target
        for target in ("/get/stats", "/handwritings?apikey=any", "/nothing"):
            reply = call(usual, "GET", target, "localhost", more=origin)
            assert reply.headers["access-control-allow-origin"] == "*"
            assert "access-control" not in str(call(closed, "GET", target, "localhost", more=origin).headers)
        preflight = call(usual, "OPTIONS", "/dweet/for/a", "localhost", more=origin)
        assert (preflight.status, preflight.body) == (204, b"")
        assert set(preflight.headers["access-control-allow-methods"].split(", ")) >= {"GET", "POST"}
        assert "content-type" in preflight.headers["access-control-allow-headers"]
        refused = call(closed, "OPTIONS", "/dweet/for/a", "localhost", more=origin)
        assert (refused.status, "access-control" in str(refused.headers)) == (405, False)


# -- proxies -----------------------------------------------------------------------------------------------


def caller(*headers: tuple[bytes, bytes], peer: str = "127.0.0.1") -> str:
    request = Request("GET", b"/", b"", dict(headers), peer)
    Proxies(["127.0.0.1", "10.0.0.0/8", "2001:db8::/64"]).resolve(request)
    return request.client


FOR, FORWARDED = b"x-forwarded-for", b"forwarded"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(FOR, b"203.0.113.9")], "203.0.113.9"),
        ([(FOR, b"6.6.6.6, 203.0.113.9")], "203.0.113.9"),
        ([(FOR, b"10.1.2.3, 10.1.2.4")], "10.1.2.3"),
        ([(FOR, b"203.0.113.9:4711")], "203.0.113.9"),
        ([(FOR, b"[2001:db8:1::9]:4711, 2001:db8::2")], "2001:db8:1::9"),
        ([(FOR, b"::ffff:203.0.113.9")], "203.0.113.9"),
        ([(FORWARDED, b"for=6.6.6.6, for=203.0.113.9;proto=https;by=10.0.0.1")], "203.0.113.9"),
        ([(FORWARDED, b'proto=https; For="[2001:db8:1::9]:4711"')], "2001:db8:1::9"),
        ([(FORWARDED, b"for=203.0.113.9"), (FOR, b"203.0.113.9")], "203.0.113.9"),
    ],
)
def test_trusted_proxy_names_the_caller_address(headers: list[tuple[bytes, bytes]], expected: str) -> None:
    assert caller(*headers) == expected


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b",,,", b"unknown", b"203.0.113.9, unknown", b"203.0.113.9, 999.1.1.1", b"\xff\x00", b"fe80::1%eth0"),
        *(b"for=_hidden", b"for=", b'for="203.0.113.9', b"for=203.0.113.9;for=6.6.6.6", b"by=203.0.113.9"),
        *(b'host="a,for=203.0.113.9"', b'host="a,for=203.0.113.9;b"', b'host="a,for=203.0.113.9;\\""'),
    ],
)
def test_malformed_forwarded_header_is_ignored(value: bytes) -> None:
    assert caller((FORWARDED if b"=" in value else FOR, value)) == "127.0.0.1"


def test_contradicting_forwarded_headers_are_ignored() -> None:
    """One is the proxy's, the other its caller's."""
    assert caller((FOR, b"203.0.113.9"), (FORWARDED, b"for=6.6.6.6")) == caller() == "127.0.0.1"


def test_only_trusted_proxies_are_believed() -> None:
    assert caller((FOR, b"203.0.113.9"), peer="198.51.100.1") == "198.51.100.1"
    assert caller((FOR, b"203.0.113.9"), peer="2001:db8::5") == "203.0.113.9"
    assert caller((FOR, b"203.0.113.9"), peer="") == ""


def test_long_forwarding_lists_are_cut() -> None:
    assert caller((FOR, b"10.0.0.1," * 20_000)) == "127.0.0.1"
    assert caller((FOR, b"6.6.6.6" + b",10.0.0.1" * 20_000)) == "10.0.0.1"
    assert caller((FORWARDED, b'"' * 200_000)) == "127.0.0.1"


@pytest.mark.parametrize("proxy", ["", "proxy.example", "10.0.0.1/8", "10.0.0.0/33", "*"])
def test_invalid_proxy_address_is_refused(proxy: str) -> None:
    with pytest.raises(InvalidArgument, match="proxy"):
        Gateway(config={"gateway": {"trusted_proxies": [proxy]}})
