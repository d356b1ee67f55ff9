"""Every warning is a DataWarning that comes once a call, has a count or an example, and can be made an error."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import toolkit
from tests.conftest import ROOT
from toolkit.errors import DataWarning
from toolkit.rewards import ab, made_up_moments
from toolkit_gateway import DEMO_START, SteppedClock

TIMES = pd.date_range("2026-01-01", periods=12, freq="h", tz="UTC", name="created")
FRAME = pd.DataFrame({"celsius": np.arange(12.0)}, index=TIMES)
MISSING = FRAME.assign(celsius=[None, None, *range(10)])
LOST = FRAME.set_axis(pd.DatetimeIndex([*TIMES[:-1], pd.NaT], name="created"))
ARMS = pd.DataFrame({"device": np.arange(30) % 7, "arm": list("ABC") * 10, "visits": np.arange(30.0)})
RULES = {"rewards": [{"id": "a", "title": "A", "stock": 0}], "moments": {"m": {"arms": {"A": {}, "B": {}}}}}
MOMENTS = made_up_moments(RULES, devices=5, days=2, seed=1)
REFUSED = MOMENTS.assign(device=range(len(MOMENTS)), rewarded=False, reason="NO_INVENTORY", arm="A")
REFUSED.loc[::2, "arm"] = "B"
TEXTS = pd.DataFrame({"celsius": ["21.5", "22.5", "n/a"]}, index=TIMES[:3])
BACKFILLED = FRAME.assign(measured=TIMES - pd.Timedelta(days=9)).set_axis(
    pd.DatetimeIndex([TIMES[0]] * 12, name="created")
)
LONG = "\n".join(["too much"] * 99)
GUESTS = pd.DataFrame({"name": ["Ada", None, None]})


class World:
    def __init__(self, tk: toolkit.Connection, folder: Path) -> None:
        self.tk, self.dweets, self.hands = tk, tk.dweets, tk.handwriting
        self.folder = folder


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    clock = SteppedClock(DEMO_START, timedelta(minutes=1))
    with toolkit.Gateway(keep=500, clock=clock) as gateway, toolkit.connect(gateway) as tk:
        made = World(tk, tmp_path_factory.mktemp("letters"))
        rows = pd.DataFrame({"n": range(1_200)})
        with pytest.warns(DataWarning):
            tk.dweets.post_frame(
                frame=pd.concat([rows.assign(thing=f"full-{n}") for n in (1, 2)]), thing_column="thing"
            )
        tk.dweets.post("wide", {f"c{n}": n for n in range(300)})
        tk.dweets.post("dotted", {"a.b": 1, "a": {"b": 2}})
        issued = tk.operator.issue_lock()
        tk.dweets.lock("safe", lock=issued.lock, key=issued.master_key)
        tk.dweets.post("safe", {"n": 1}, key=issued.master_key)
        made.key = issued.master_key  # type: ignore[attr-defined]
        yield made


def set_alert(world: World) -> object:
    key = world.key  # type: ignore[attr-defined]
    return world.dweets.set_alert("safe", who="a@b.example", condition="dweet.x > 1", key=key)


def write_letters(world: World) -> object:
    return world.hands.letters(GUESTS, "Dear {name}", "Molly", world.folder, page="A6", margin="1cm", progress=False)


#: The call, and the text of its only warning. Those of unknown names are in `test_unknown_names.py`.
WARNINGS: dict[str, tuple[Callable[[World], object], str]] = {
    "gaps of rows without a time": (lambda w: LOST.dweets.gaps(), "1 of 12 rows have no time"),
    "gaps of missing values": (lambda w: MISSING.dweets.gaps(), "2 missing values, most of them in 'celsius'"),
    "a time axis with a missing time": (lambda w: LOST.dweets.on("created"), "1 of 12 rows have no time"),
    "a picture of nothing": (lambda w: FRAME[:0].dweets.plot(), "the picture shows no dweets: the frame has 0 rows"),
    "texts among numbers": (lambda w: TEXTS.dweets.numeric(), "1 of 3 values"),
    "days of arrival": (lambda w: BACKFILLED.dweets.resample("1D"), "use .on\\('measured'\\)"),
    "a condition that cannot work": (
        lambda w: w.dweets.backtest(FRAME, "dweet.x.y > 1"),
        "field 'x.y'.*failed at every dweet",
    ),
    "deleted dweets": (
        lambda w: w.dweets.history(["full-1", "full-2"]),
        "deleted 700 dweets of 'full-1', the most of 2 things",
    ),
    "an alert without a mail server": (
        set_alert,
        "no dweet has the field 'x'; known: 'n'; the gateway has no mail server",
    ),
    "more rows than are kept": (
        lambda w: w.dweets.post_frame(
            frame=pd.DataFrame({"thing": ["p", "q"] * 1_200, "n": range(2_400)}), thing_column="thing", progress=False
        ),
        "1,200 dweets were sent to 'p', the most of 2 things",
    ),
    "more names than columns": (lambda w: w.dweets.history("wide"), "100 of the 300 names"),
    "a name twice": (lambda w: w.dweets.history("dotted"), "'a.b' as a key and as nested keys"),
    "letters that fail": (write_letters, "2 of 3 letters could not be written, such as that of row 1"),
    "ink that is cut off": (
        lambda w: w.hands.png(LONG, "Molly", height=200),
        "some ink was cut off, from the line 'too much' on",
    ),
    "skipped characters": (
        lambda w: w.hands.png("Hi \u05d0", "Molly", missing="skip"),
        "no hand has these characters of the text: '\u05d0'",
    ),
    "a comparison of missing values": (
        lambda w: ab(ARMS.assign(device=range(30), visits=[None, *range(29)]), "visits"),
        "visits: 1 of 30 values are missing",
    ),
    "a comparison of refused moments": (
        lambda w: ab(REFUSED, "rewarded"),
        "100.0 % of the moments were refused",
    ),
    "units in both arms": (
        lambda w: ab(ARMS, "visits"),
        "7 units are in both arms A and B, the most of 3 pairs of arms",
    ),
    "decisions of unknown devices": (
        lambda w: w.tk.operator.decisions(devices=pd.Series(["a", "b", "a"])),
        "no decision is of these 2 devices",
    ),
}


@pytest.mark.parametrize("name", WARNINGS)
def test_a_call_warns_once_and_can_raise_instead(name: str, world: World) -> None:
    call, said = WARNINGS[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(world)
    assert [(warning.category, warning.filename) for warning in caught] == [(DataWarning, __file__)]
    text = str(caught[0].message)
    assert re.search(said, text)
    assert re.search(r"\d|'.+'", text), "a count or an example"
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        with pytest.raises(DataWarning, match=said):
            call(world)


def test_no_module_warns_in_another_way() -> None:
    sources = [*(ROOT / "toolkit").rglob("*.py"), *(ROOT / "toolkit_gateway").rglob("*.py")]
    warning = [path.name for path in sources if "warnings.warn(" in path.read_text("utf-8")]
    assert warning == ["errors.py"]
