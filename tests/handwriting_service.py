"""Raw calls to the handwriting service of a gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

import toolkit
from tests.conftest import RawReply, raw_call
from toolkit_gateway import Gateway

MOLLY = "2D5QW0F80001"
BASIC = "Authorization: Basic a2V5OnNlY3JldA==\r\n"  # key:secret


class Service(NamedTuple):
    base_url: str

    def get(self, path: str, query: str = "apikey=k", *, method: str = "GET", headers: str = "") -> RawReply:
        return raw_call(self.base_url, method, f"{path}?{query}", headers=headers)

    def render(self, kind: str = "png", *, basic: bool = False, **given: str) -> RawReply:
        """Render with these parameters, percent-encoded here, text and hand given unless they are overridden."""
        full = {"handwriting_id": MOLLY, "text": "Hello", **given}
        pairs = [f"{name}={quote(value, safe='')}" for name, value in full.items()]
        query = "&".join(pairs if basic else ["apikey=k", *pairs])
        return self.get(f"/render/{kind}", query, headers=BASIC if basic else "")


def errors_of(reply: RawReply) -> list[dict[str, Any]]:
    assert reply.headers["content-type"] == "application/json; charset=utf-8"
    body = json.loads(reply.body)
    assert list(body) == ["errors"]
    errors: list[dict[str, Any]] = body["errors"]
    return errors


@pytest.fixture(scope="session")
def running() -> Iterator[Gateway]:
    # The fuzz is faster than any client; the limit is tested elsewhere.
    with Gateway(config={"handwriting": {"burst": 1_000_000, "calls_a_second": 1e6, "renderers": 2}}) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def service(running: Gateway) -> Service:
    return Service(running.base_url)


@pytest.fixture(scope="session")
def hands(running: Gateway) -> Iterator[toolkit.Connection]:
    with toolkit.connect(running) as connection:
        yield connection
