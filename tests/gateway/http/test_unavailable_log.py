"""While the disk is full or Redis is away, the log does not get one line a request."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.conftest import raw_call
from toolkit.errors import StoreUnavailable
from toolkit_gateway import Gateway
from toolkit_gateway.http import app
from toolkit_gateway.stores import embedded_journals


def test_a_store_that_is_away_is_one_line_a_minute(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(app, "monotonic", lambda: now[0])
    caplog.set_level(logging.ERROR, "toolkit_gateway")

    def fail(*_: object, **__: object) -> asyncio.Future[object]:
        raise StoreUnavailable("the disk is full")

    with Gateway() as gateway:
        monkeypatch.setattr(embedded_journals.EmbeddedJournals, "append", fail)
        for seconds in (0.0, 0.0, 59.0, 61.0, 61.0):
            now[0] = 1_000.0 + seconds
            assert b"503" in raw_call(gateway.base_url, "POST", "/dweet/for/roof", b"1").body
    assert [record.getMessage() for record in caplog.records] == [
        "the disk is full",
        "the disk is full (2 more errors before)",
    ]
