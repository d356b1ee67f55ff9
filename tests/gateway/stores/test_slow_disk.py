"""A gateway whose disk takes long to sync: everything arrives, in order, and nobody is cut off."""

from __future__ import annotations

import http.client
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Caller
from tests.gateway.stores.conftest import Hook
from tests.kept_folder import kept_contents
from toolkit_gateway import Gateway
from toolkit_gateway.http.limits import LIMITS

HEARTBEAT = b":\n\n"
EVENTS = "Accept: text/event-stream\r\n"


class Poster(threading.Thread):
    """Posts numbers on one connection until it is told to stop."""

    def __init__(self, port: int, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.port, self.number, self.stop = port, number, stop
        self.acknowledged: list[list[int]] = []
        self.failure: Exception | None = None

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.connect()
        connection.auto_open = 0  # a connection that is closed is a failure
        try:
            while not self.stop.is_set():
                content = [self.number, len(self.acknowledged)]
                connection.request("POST", "/dweet/for/busy", json.dumps(content))
                assert json.loads(connection.getresponse().read())["this"] == "succeeded"
                self.acknowledged.append(content)
        except Exception as error:
            self.failure = error
        finally:
            connection.close()


def contents_in(events: bytes) -> list[Any]:
    lines = [line for line in events.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line.removeprefix(b"data: "))["content"] for line in lines]


def test_slow_syncs_close_no_connection_and_lose_nothing(
    tmp_path: Path, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "heartbeat_seconds", 0.05)
    hook("on_sync", lambda: time.sleep(0.5))
    stop, heard = threading.Event(), list[Any]()
    with Gateway(tmp_path) as gateway:
        call, port = Caller(gateway), int(gateway.base_url.rpartition(":")[2])
        posters = [Poster(port, number, stop) for number in range(4)]
        with (
            call.stream("/listen/for/dweets/from/quiet", EVENTS) as quiet,
            call.stream("/listen/for/dweets/from/busy", EVENTS) as busy,
        ):
            for poster in posters:
                poster.start()
            for _ in range(3):
                while quiet.chunk() != HEARTBEAT:  # also a silent listener hears that it is connected
                    pass
            stop.set()
            for poster in posters:
                poster.join(60)
            assert [poster.failure for poster in posters if poster.failure] == []
            acknowledged = [content for poster in posters for content in poster.acknowledged]
            call.post("busy", "end")
            call.post("quiet", "end")
            while not heard or heard[-1] != "end":
                heard += contents_in(busy.chunk())
            while not (rest := contents_in(quiet.chunk())):
                pass
            assert rest == ["end"]
    kept = kept_contents(tmp_path, "busy")
    assert heard == kept, "a listener hears all, once, in the order in which it is kept"
    assert sorted(kept[:-1]) == sorted(acknowledged)
    for poster in posters:
        assert [content for content in kept if content[0] == poster.number] == poster.acknowledged, "in its order"
