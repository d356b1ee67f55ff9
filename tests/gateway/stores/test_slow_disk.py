"""A gateway whose disk takes long to sync: everything arrives, in order, and nobody is cut off."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Caller
from tests.gateway.stores.conftest import Hook
from tests.kept_folder import kept_contents
from tests.soak.callers import Poster
from toolkit_gateway import Gateway
from toolkit_gateway.http.limits import LIMITS

HEARTBEAT = b":\n\n"
EVENTS = "Accept: text/event-stream\r\n"


def contents_in(events: bytes) -> list[Any]:
    lines = [line for line in events.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line.removeprefix(b"data: "))["content"] for line in lines]


def test_slow_syncs_close_no_connection_and_lose_nothing(
    tmp_path: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "heartbeat_seconds", 0.05)
    hook("on_sync", lambda: time.sleep(0.5))
    heard: list[Any] = []
    with Gateway(tmp_path) as gateway:
        call, port = Caller(gateway), int(gateway.base_url.rpartition(":")[2])
        posters = [Poster(number) for number in range(4)]
        threads = [threading.Thread(target=poster.work, args=(port, lambda: None)) for poster in posters]
        with (
            call.stream("/listen/for/dweets/from/quiet", EVENTS) as quiet,
            call.stream("/listen/for/dweets/from/all", EVENTS) as busy,
        ):
            for thread in threads:
                thread.start()
            for _ in range(3):
                while quiet.chunk() != HEARTBEAT:  # also a silent listener hears that it is connected
                    pass
            for poster in posters:
                poster.is_over.set()
            for thread in threads:
                thread.join(60)
            assert not any(poster.failure or poster.is_cut_off for poster in posters)
            call.post("all", "end")
            call.post("quiet", "end")
            while not heard or heard[-1] != "end":
                heard += contents_in(busy.chunk())
            while not (rest := contents_in(quiet.chunk())):
                pass
            assert rest == ["end"]
    kept = kept_contents(tmp_path, "all")
    assert heard == kept, "a listener hears all, once, in the order in which it is kept"
    for poster in posters:
        own = [number for who, number in kept[:-1] if who == poster.number]
        assert own == poster.acknowledged, "all, once, in its order"
