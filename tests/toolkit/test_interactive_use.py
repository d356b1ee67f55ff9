"""Interactive use: names that Tab offers, reprs, and gateways that end with their cell."""

from __future__ import annotations

import gc
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import pytest

import toolkit
from tests.mail_server import eventually
from toolkit.widgets.cell_runs import CellRun
from toolkit_gateway import Gateway


@pytest.fixture(scope="module")
def world() -> Iterator[toolkit.Connection]:
    with Gateway.demo() as gateway, toolkit.connect(gateway) as tk:
        yield tk


PARTS: dict[str, Callable[[toolkit.Connection], object]] = {
    "toolkit": lambda tk: toolkit,
    "tk": lambda tk: tk,
    "tk.dweets": lambda tk: tk.dweets,
    "tk.handwriting": lambda tk: tk.handwriting,
    "tk.rewards": lambda tk: tk.rewards,
    "tk.identity": lambda tk: tk.identity,
    "gateway": lambda tk: tk.gateway,
}


@pytest.mark.parametrize("part", PARTS)
def test_tab_offers_public_names_only(part: str, world: toolkit.Connection) -> None:
    names = dir(PARTS[part](world))
    assert len(names) >= 5
    assert [name for name in names if name.startswith("_")] == []
    assert all(hasattr(PARTS[part](world), name) for name in names)


VALUES: dict[str, tuple[Callable[[toolkit.Connection], object], str]] = {
    "connection": (lambda tk: tk, "<Connection to http://127.0.0.1:"),
    "gateway": (lambda tk: tk.gateway, "<Gateway at http://127.0.0.1:"),
    "dweets": (lambda tk: tk.dweets, "<Thing messaging at http://127.0.0.1:"),
    "handwriting": (lambda tk: tk.handwriting, "<Handwriting at http://127.0.0.1:"),
    "rewards": (lambda tk: tk.rewards, "<Mobile rewards at http://127.0.0.1:"),
    "identity": (lambda tk: tk.identity, "<Mobile identity at http://127.0.0.1:"),
    "clock": (lambda tk: tk.gateway.clock, "<SteppedClock at 2026-01-01 09:0"),
    "handset": (lambda tk: tk.gateway.handset("happy"), "Handset(name='happy'"),
    "lock": (lambda tk: tk.operator.issue_lock(), "IssuedLock(lock='lock-"),
    "credentials": (lambda tk: tk.gateway.credentials, "{'gatewaykey': Secret(sha256:"),
    "picture": (lambda tk: tk.handwriting.png("Hi", "Molly", random_seed=1), "<PNG by Molly, 504 x "),
    "session": (lambda tk: tk.identity.session(), "<identity session: new>"),
    "transaction": (lambda tk: tk.identity.start_authentication(tk.gateway.handset()), "<transaction "),
    "listener": (lambda tk: tk.dweets.listen("roof"), "<Listener, connected>"),
    "playback": (
        lambda tk: tk.dweets.replay("cellar", pd.DataFrame({"n": [1]}, index=pd.to_datetime(["2026-01-01"]))),
        "<Playback of 1 row",
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_every_repr_is_informative_and_shows_no_key(name: str, world: toolkit.Connection) -> None:
    make, words = VALUES[name]
    value = make(world)
    said = repr(value)
    assert said.startswith(words)
    assert " object at 0x" not in said
    assert world.gateway is not None
    # Read where only a test may look: what must not be shown.
    raw = [key.reveal() for key in world.gateway.credentials.values()]
    raw += [key.reveal() for key in value[1:]] if name == "lock" else []
    assert not [key for key in raw if key in said]
    if hasattr(value, "close") and value not in (world, world.gateway):
        value.close()


def answers(url: str) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex(("127.0.0.1", urlsplit(url).port)) == 0


def test_unreferenced_gateway_stops() -> None:
    gateway = Gateway()
    first = gateway.base_url
    gateway = Gateway()  # as when a cell of a notebook runs again
    gc.collect()
    eventually(lambda: not answers(first))
    assert answers(gateway.base_url)
    gateway.close()


def test_rerunning_a_cell_stops_its_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    def started_in(cell: str, run: str) -> Gateway:
        monkeypatch.setattr("toolkit.widgets.cell_runs.current_cell_run", lambda: CellRun(cell, run))
        return Gateway()

    # All are held, as by the list of outputs of a notebook.
    gateways = [started_in(*made) for made in (("a", "1"), ("a", "1"), ("b", "2"), ("", "3"), ("", "4"), ("a", "5"))]
    assert [answers(gateway.base_url) for gateway in gateways] == [False, False, True, True, True, True]
    for gateway in gateways:
        gateway.close()


def test_client_keeps_its_gateway_alive() -> None:
    tk = toolkit.connect()
    url, dweets = tk.base_url, tk.dweets
    del tk
    gc.collect()
    assert len(dweets.post("kitchen", {"celsius": 21.5})) == 1
    del dweets
    gc.collect()
    eventually(lambda: not answers(url))


_ENDS_WITHOUT_STOP = """
import sys, toolkit
gateway = toolkit.Gateway(sys.argv[1])
tk = toolkit.connect(gateway)
tk.dweets.post("kitchen", {"celsius": 21.5})
tk.handwriting.png("Hello", "Molly")
"""


def test_process_exit_stops_its_gateway_silently(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", _ENDS_WITHOUT_STOP, tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    with Gateway(tmp_path) as gateway, toolkit.connect(gateway) as tk:
        assert tk.dweets.latest("kitchen")["celsius"].tolist() == [21.5]
