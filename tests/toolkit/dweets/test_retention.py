"""Deleted dweets are reported: by the gateway in headers, by the client as warnings."""

from __future__ import annotations

import http.client
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from urllib.parse import urlsplit

import pandas as pd
import pytest

import toolkit
from toolkit_gateway import DEMO_START, Gateway
from toolkit_gateway.runtime import SteppedClock

ROWS = 1_200
DAY = "2026-01-01"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """Keeps 500 dweets; each dweet comes a minute after the one before."""
    clock = SteppedClock(DEMO_START, timedelta(minutes=1))
    with Gateway(keep=500, clock=clock) as running:
        yield running


@pytest.fixture(scope="module")
def tk(gateway: Gateway) -> Iterator[toolkit.Connection]:
    """`full` has lost most of its dweets, `short` none."""
    with toolkit.connect(gateway) as connection:
        connection.dweets.post_frame("short", pd.DataFrame({"n": range(20)}), progress=False)
        with pytest.warns(UserWarning, match="1,200 dweets were sent to 'full', but .* the last 500 dweets of a thing"):
            connection.dweets.post_frame("full", pd.DataFrame({"n": range(ROWS)}), progress=False)
        yield connection


def headers(gateway: Gateway, path: str) -> http.client.HTTPMessage:
    address = urlsplit(gateway.base_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    connection.request("GET", path)
    response = connection.getresponse()
    response.read()
    connection.close()
    return response.headers


def test_stored_dweets_count_the_deleted_ones(gateway: Gateway, tk: toolkit.Connection) -> None:
    with pytest.warns(UserWarning, match="has deleted"):
        oldest = tk.dweets.history("full").index[0]
    for kind in ("json", "csv"):
        target = f"/get/stored/dweets/for/full?responseType={kind}&date="
        told = headers(gateway, target + DAY)["X-Dweet-Gone"]
        assert told == f"{ROWS - 500}; before={oldest:%Y-%m-%dT%H:%M:%S}.000Z"
        assert headers(gateway, target + "2026-01-02")["X-Dweet-Gone"] is None  # begins after the oldest that is kept
    for path in ("stored/dweets/for/short", "stored/dweets/for/nothing"):
        assert headers(gateway, f"/get/{path}?date={DAY}")["X-Dweet-Gone"] is None
    for path in ("latest/dweet/for/short", "dweets/for/short", "stats", "nothing"):
        assert headers(gateway, f"/get/{path}")["X-Dweet-Retention"] == "500"
    with Gateway() as usual:
        assert headers(usual, "/get/stats")["X-Dweet-Retention"] == "10000"


def test_large_stored_day_counts_the_deleted_ones() -> None:
    clock = SteppedClock(DEMO_START, timedelta(milliseconds=1))
    with Gateway(keep=500, clock=clock) as gateway, toolkit.connect(gateway) as tk:
        with pytest.warns(UserWarning, match="1,000 dweets were sent"):
            tk.dweets.post_frame("full", pd.DataFrame({"text": ["x" * 5_000] * 1_000}), progress=False)
        told = headers(gateway, f"/get/stored/dweets/for/full?date={DAY}")
        assert told["transfer-encoding"] == "chunked"
        assert told["X-Dweet-Gone"].startswith("500; before=2026-01-01T09:00:00.5")


CALLS: dict[str, Callable[[toolkit.Connection, str], pd.DataFrame]] = {
    "history of a day": lambda tk, thing: tk.dweets.history(thing, since=DAY, until="2026-01-02"),
    "backtest": lambda tk, thing: tk.dweets.backtest(thing, "dweet.n > 1000", date=DAY),
    "history": lambda tk, thing: tk.dweets.history(thing),
    "history of several": lambda tk, thing: tk.dweets.history([thing]),
    "history since": lambda tk, thing: tk.dweets.history(thing, since=f"{DAY}T12:00"),
    "history before": lambda tk, thing: tk.dweets.history(thing, until=f"{DAY}T12:00"),
    "history with too few": lambda tk, thing: tk.dweets.history(thing, n=501),
}


@pytest.mark.parametrize("call", CALLS)
def test_reading_warns_of_deleted_dweets(tk: toolkit.Connection, call: str) -> None:
    with pytest.warns(UserWarning, match="deleted 700 dweets of 'full', all before 2026-01-") as warned:
        CALLS[call](tk, "full")
    assert [warning.filename for warning in warned] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CALLS[call](tk, "short")


def test_history_within_the_retention_causes_no_warning(tk: toolkit.Connection) -> None:
    with pytest.warns(UserWarning, match="has deleted"):
        kept = tk.dweets.history("full")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tk.dweets.history("full", since=kept.index[0]).equals(kept)
        assert tk.dweets.history("full", n=500, until="2026-02-01").equals(kept)
        assert tk.dweets.history("full", since=kept.index[0], until=kept.index[1])["n"].tolist() == [ROWS - 500]
        assert tk.dweets.history("full", since="2026-01-02")["n"].iloc[-1] == ROWS - 1
        tk.dweets.post_frame("exactly", pd.DataFrame({"n": range(500)}), progress=False)
