"""Two gateways on one Redis behind a real nginx and behind HAProxy, configured as in docs/deploy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import toolkit
from tests.conftest import ROOT, RawStream, raw_call, raw_exchange, required_program
from tests.ports import free_port
from tests.redis_servers import fresh_url, wait_until
from toolkit_gateway import Gateway

SITE = (ROOT / "docs/deploy/nginx.conf").read_text("utf-8")
MAIN = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    {site}
}}
"""


class Proxied(NamedTuple):
    url: str
    gateways: list[Gateway]


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    store, config = fresh_url(), {"gateway": {"allow_hosts": ["dweet.invalid"]}}
    with Gateway(store=store, config=config) as one, Gateway(store=store, config=config) as other:
        with behind_nginx([one, other], tmp_path_factory.mktemp("nginx")) as url:
            yield Proxied(url, [one, other])


@contextmanager
def behind_nginx(gateways: list[Gateway], folder: Path) -> Iterator[str]:
    """Run nginx with docs/deploy/nginx.conf in front of the gateways; gives its address."""
    nginx, port = required_program("nginx"), free_port()
    site = with_addresses(SITE, gateways, "listen 80;", f"listen 127.0.0.1:{port};")
    (folder / "nginx.conf").write_text(MAIN.format(folder=folder, site=site), "utf-8")
    with running([nginx, "-c", str(folder / "nginx.conf"), "-e", str(folder / "log")], port) as url:
        yield url


@contextmanager
def behind_haproxy(gateways: list[Gateway], folder: Path) -> Iterator[str]:
    """Run HAProxy with docs/deploy/haproxy.cfg in front of the gateways; gives its address."""
    haproxy, port = required_program("haproxy"), free_port()
    configuration = (ROOT / "docs/deploy/haproxy.cfg").read_text("utf-8")
    configuration = with_addresses(configuration, gateways, "bind :80", f"bind 127.0.0.1:{port}")
    (folder / "haproxy.cfg").write_text(configuration, "utf-8")
    with running([haproxy, "-db", "-f", str(folder / "haproxy.cfg")], port) as url:
        yield url


def with_addresses(configuration: str, gateways: list[Gateway], written_bind: str, real_bind: str) -> str:
    """Return a file of docs/deploy with the addresses of these gateways, and of the proxy itself."""
    written = ["127.0.0.1:8787", "127.0.0.1:8788", written_bind]
    for text, real in zip(written, [*(g.base_url.removeprefix("http://") for g in gateways), real_bind], strict=True):
        assert text in configuration
        configuration = configuration.replace(text, real)
    return configuration


@contextmanager
def running(command: list[str], port: int) -> Iterator[str]:
    """Run a proxy in the block; it ends also where this process is killed."""
    process = subprocess.Popen(command)
    watchdog = subprocess.Popen(["sh", "-c", "cat > /dev/null; kill $0", str(process.pid)], stdin=subprocess.PIPE)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: answers(url), f"it did not start: {command}")
        yield url
    finally:
        watchdog.communicate(b"")
        process.wait(60)


def answers(url: str) -> bool:
    try:
        return raw_call(url, "GET", "/get/stats").status == 200
    except OSError:
        return False


def posted(url: str, thing: str, content: object) -> Any:
    return json.loads(raw_call(url, "POST", f"/dweet/for/{thing}", json.dumps(content).encode()).body)


def test_posts_through_either_gateway_are_shared(proxied: Proxied) -> None:
    for number in range(20):
        assert posted(proxied.url, "kitchen", number)["this"] == "succeeded"
    for gateway in proxied.gateways:
        history = json.loads(raw_call(gateway.base_url, "GET", "/get/dweets/for/kitchen").body)["with"]
        assert [dweet["content"] for dweet in history] == list(range(19, -1, -1))


def test_streams_are_not_buffered_by_the_proxy(proxied: Proxied) -> None:
    streams = [RawStream(proxied.url, "/listen/for/dweets/from/hall?since=0") for _ in range(4)]
    for number in range(5):
        assert posted(proxied.url, "hall", number)["this"] == "succeeded"
        for stream in streams:  # each dweet before the next is posted: nothing is held back
            frame = stream.chunk()
            assert json.loads(json.loads(frame.split(b"\r\n")[1]))["content"] == number
    for stream in streams:
        stream.close()


def test_an_encoded_slash_stays_in_the_name(proxied: Proxied) -> None:
    assert posted(proxied.url, "a%2Fb%20c%25d", 1)["with"]["thing"] == "a/b c%d"
    for gateway in proxied.gateways:
        latest = raw_call(gateway.base_url, "GET", "/get/latest/dweet/for/a%2Fb%20c%25d").body
        assert json.loads(latest)["with"][0]["thing"] == "a/b c%d"


def test_absolute_request_target_is_served(proxied: Proxied) -> None:
    request = (
        b"GET http://dweet.invalid/dweet/for/x%2Fy%3Fz?n=1 HTTP/1.1\r\nHost: dweet.invalid\r\nConnection: close\r\n\r\n"
    )
    body = raw_exchange(proxied.url, request).partition(b"\r\n\r\n")[2]
    assert b'"thing":"x/y?z"' in body
    assert b'"content":{"n":1}' in body


def test_unknown_host_name_is_refused(proxied: Proxied) -> None:
    for host, succeeds in (("dweet.invalid", True), ("127.0.0.1", True), ("evil.example", False), ("a.b", False)):
        request = f"GET /get/stats HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
        answer = raw_exchange(proxied.url, request.encode())
        assert (b'"this":"succeeded"' in answer, b" 421 " in answer.splitlines()[0]) == (succeeds, not succeeds)


def test_landing_page_shows_the_address_of_the_request(proxied: Proxied) -> None:
    """The compose file publishes port 80 of nginx as 8080."""
    request = b"GET / HTTP/1.1\r\nHost: dweet.invalid:8080\r\nAccept: text/html\r\nConnection: close\r\n\r\n"
    assert b"http://dweet.invalid:8080/dweet/for/kitchen" in raw_exchange(proxied.url, request)


def test_a_large_body_gets_the_error_of_the_gateway(proxied: Proxied) -> None:
    reply = raw_call(proxied.url, "POST", "/dweet/for/large", b'"%b"' % (b"x" * 2_000_000))
    assert (reply.status, json.loads(reply.body)["with"]) == (200, 413)


def test_listeners_resume_when_one_gateway_stops(proxied: Proxied) -> None:
    """The last test that uses both: one of them stops. Nginx answers one of the reconnections with its own 502."""
    with toolkit.connect(proxied.url) as tk, ExitStack() as stack:
        listeners = [stack.enter_context(tk.dweets.listen("attic", since=0)) for _ in range(4)]  # two at each gateway
        assert posted(proxied.gateways[1].base_url, "attic", 1)["this"] == "succeeded"
        assert [next(listener).content for listener in listeners] == [1] * 4
        proxied.gateways[0].close()
        assert posted(proxied.gateways[1].base_url, "attic", 2)["this"] == "succeeded"
        assert [next(listener).content for listener in listeners] == [2] * 4


def test_haproxy_avoids_a_stopped_gateway(tmp_path: Path) -> None:
    store = fresh_url()
    with Gateway(store=store) as one, Gateway(store=store) as other:
        with behind_haproxy([one, other], tmp_path) as url:
            one.close()
            # The health checks do not know this yet.
            assert [posted(url, "kitchen", number)["this"] for number in range(8)] == ["succeeded"] * 8
            history = json.loads(raw_call(url, "GET", "/get/dweets/for/kitchen").body)["with"]
            assert [dweet["content"] for dweet in history] == list(range(7, -1, -1))
