"""Wrong calls of the public API: each raises an error that says what to do, or gives the right result."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterator
from datetime import date, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tqdm import tqdm

import toolkit
from toolkit.errors import InvalidArgument, ToolkitError

TIMES = pd.date_range("2026-01-01", periods=12, freq="h", name="at")
FRAME = pd.DataFrame({"celsius": np.arange(12.0)}, index=TIMES)
TWICE = pd.DataFrame(np.zeros((12, 2)), index=TIMES, columns=["celsius", "celsius"])
WITH_NAT = FRAME.set_axis([pd.NaT, *TIMES[1:]])
DECISIONS = pd.DataFrame({"device": ["a", "b"], "moment_id": "m", "rewarded": [True, False], "arm": ["x", "y"]})
DECISIONS["at"] = TIMES[:2].tz_localize("UTC")


class World:
    def __init__(self, tk: toolkit.Connection, archive: toolkit.Archive) -> None:
        self.dweets, self.hands, self.rewards, self.identity = tk.dweets, tk.handwriting, tk.rewards, tk.identity
        self.archive, self.operator, self.tk, self.gateway = archive, tk.operator, tk, tk.gateway
        self.walkthrough = toolkit.IdentityWalkthrough(tk)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with toolkit.Gateway.demo() as gateway, toolkit.connect(gateway) as tk:
        archive = toolkit.Archive(tmp_path_factory.mktemp("archive"))
        for thing in ("roof", "attic"):
            tk.dweets.post(thing, {"celsius": 20.5})
            archive.add_frame(thing, FRAME)
        yield World(tk, archive)


WRONG: dict[str, tuple[Callable[[World], object], str]] = {
    "post swapped": (
        lambda w: w.dweets.post({"a": 1}, "roof"),
        r"thing is a str or None, not a dict: post\(thing, content",
    ),
    "post NaT": (lambda w: w.dweets.post("roof", pd.NaT), "leave the value out, or send None"),
    "post a row of a frame": (lambda w: w.dweets.post("roof", FRAME.iloc[0]), r"holds a Series: send its to_dict\(\)"),
    "chart of numbered columns": (
        lambda w: FRAME.set_axis([0], axis="columns").dweets.chart(),
        r"name every column with text: frame.set_axis\(frame.columns.map\(str\), axis='columns'\)",
    ),
    "frame of lengths": (
        lambda w: w.dweets.post_frame("roof", FRAME.assign(long=pd.Timedelta("1h"))),
        "the column 'long' cannot be written as JSON: it holds a Timedelta: send a text or a number",
    ),
    "frame of huge numbers": (
        lambda w: w.dweets.post_frame("roof", FRAME.assign(n=1, huge=2**70)),
        "the column 'huge' cannot be written as JSON: Integer exceeds 64-bit range",
    ),
    "frame without a thing": (lambda w: w.dweets.post_frame(frame=FRAME), "thing_column='thing'"),
    "thing column missing": (
        lambda w: w.dweets.post_frame(frame=FRAME, thing_column="room"),
        "does not have the column 'room'; known: 'celsius'",
    ),
    "thing column of numbers": (lambda w: w.dweets.post_frame(frame=FRAME, thing_column="celsius"), "name of a thing"),
    "frame with a twin index": (
        lambda w: w.dweets.post_frame(
            "roof", FRAME.set_axis(pd.MultiIndex.from_tuples([(n, 2) for n in range(12)], names=["x", "x"]))
        ),
        "the index and a column have the same name",
    ),
    "frame with twin columns": (lambda w: w.dweets.post_frame("roof", TWICE), "two columns have the same name"),
    "backtest of twin things": (
        lambda w: w.dweets.backtest(TWICE.set_axis(["thing", "thing"], axis="columns"), "dweet.n > 1"),
        "two columns have the same name",
    ),
    "replay at speed NaN": (lambda w: w.dweets.replay("roof", FRAME, speed=math.nan), "speed must be above 0, not nan"),
    "history of None": (lambda w: w.dweets.history(None), "things is a str or a list of str, not None"),
    "history since by position": (
        lambda w: w.dweets.history("roof", "2026-01-01"),
        r"history\(things, \*, n=None, since=None",
    ),
    "history since 1.2.": (
        lambda w: w.dweets.history("roof", since="1.2.2026"),
        "since must be a time, such as 2026-01-31 or 2026-01-31T12:00Z, not 1.2.2026",
    ),
    "history of minus n": (lambda w: w.dweets.history("roof", n=-1), "n must be at least 1"),
    "collect backwards": (lambda w: w.dweets.collect("roof", seconds=-1), "seconds is a number of 0 or more, not -1"),
    "collect without end": (lambda w: w.dweets.collect("roof"), "say when to stop"),
    "archive query with one parameter": (lambda w: w.archive.sql("SELECT ?", "roof"), "is a list of values or a dict"),
    "resample twins": (lambda w: TWICE.dweets.resample("1D"), "two columns have the same name"),
    "on hours": (lambda w: FRAME.dweets.on("celsius", unit="h"), "unit is 's' or 'ms'"),
    "plot on a figure": (lambda w: FRAME.dweets.plot(ax="here"), "ax is a matplotlib Axes or None, not a str"),
    "a seed below 0": (lambda w: w.hands.png("Hi", "Molly", random_seed=-1), "random_seed is 0 or above"),
    "a page in a number": (lambda w: w.hands.letter("Hi", "Molly", page=5), "page is a str or a pair, not an int"),
    "two margins": (
        lambda w: w.hands.png("Hi", "Molly", margin=(1, 2)),
        "margin is a number or a str or 4 values or None",
    ),
    "a size without a unit": (
        lambda w: w.hands.png("Hi", "Molly", handwriting_size="20"),
        "handwriting_size has '20', which is no distance: write a unit, as in 20mm",
    ),
    "funnel without columns": (lambda w: toolkit.rewards.funnel(FRAME), "the decisions have no column device"),
    "what-if of no devices": (
        lambda w: toolkit.rewards.made_up_moments(devices=0, days=1),
        "devices and days are at least 1",
    ),
    **{
        f"a phone at {address!r}": (
            lambda w, address=address: toolkit.identity.Handset("mine", address=address),
            "address is the IP address of a phone, such as 203.0.113.7",
        )
        for address in ("n\no", " 203.0.113.7", "203.0.113.07", "Straße", "")
    },
    "a header that cannot be sent": (
        lambda w: w.identity.authenticate_device(
            w.identity.start_authentication(device_ip="203.0.113.7"),
            toolkit.identity.Handset("mine", address="fe80::1%日本"),
        ),
        "the header X-Simulated-Device-Ip must be printable ASCII, without spaces around it",
    ),
    "a phone, twice": (
        lambda w: w.identity.start_authentication(w.gateway.handset("happy"), device_ip="203.0.113.7"),
        "give either a handset, or device_ip and carrier_short_code",
    ),
    "try no attack": (lambda w: w.walkthrough.try_attack("brute force"), "there is no attack 'brute force'"),
    "connect with an unknown key": (
        lambda w: toolkit.connect("http://127.0.0.1:1", credentials={"apiKey": "odd"}),
        "credentials cannot have 'apiKey': did you mean 'apikey'",
    ),
    "archive of no name": (lambda w: toolkit.Archive(""), "a path must not be empty"),
    "gateway of an unknown user": (
        lambda w: toolkit.Gateway("~nobody-here"),
        "gateway.folder: expected the path of a f",
    ),
    "gateway at NUL": (lambda w: toolkit.Gateway("a\0b"), "gateway.folder: expected the path of a folder, got a text"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_call_error_says_what_to_do(name: str, world: World) -> None:
    call, said = WRONG[name]
    with pytest.raises(InvalidArgument, match=said):
        call(world)


RIGHT: dict[str, Callable[[World], object]] = {
    "a numpy text": lambda w: w.dweets.post(np.str_("roof"), np.int64(3)),
    "names in an array": lambda w: w.dweets.history(np.array(["roof", "attic"])),
    "names in a Series": lambda w: w.dweets.history(pd.Series(["roof", "attic"])),
    "names of a generator": lambda w: w.dweets.history(name for name in ["roof"]),
    "n of numpy": lambda w: w.dweets.history("roof", n=np.int64(3)),
    "a naive time": lambda w: w.dweets.history("roof", since=datetime(2026, 1, 1)),  # noqa: DTZ001
    "a day": lambda w: w.dweets.history("roof", since=date(2026, 1, 1), until=np.datetime64("2026-01-02")),
    "a zoned time": lambda w: w.archive.history("roof", since=pd.Timestamp("2026-01-01", tz="Asia/Tokyo")),
    "a day of Timestamp": lambda w: w.dweets.backtest("roof", "true", date=pd.Timestamp("2026-01-01")),
    "speed of numpy": lambda w: w.dweets.replay("roof", FRAME.head(0), speed=np.float32(5)).wait(60),
    "a path": lambda w: toolkit.Archive(Path(w.archive.folder)),
    "fields of an index": lambda w: FRAME.dweets.statistics(FRAME.columns),
    "a page as list": lambda w: w.hands.letter("Hi", "Molly", page=["8cm", "12cm"], random_seed=7),
    "a width of numpy": lambda w: w.hands.png("Hi", "Molly", width=np.int64(100), random_seed=np.int64(7)),
    "titles in an array": lambda w: w.hands.sweep("Hi", np.array(["Molly"]), random_seed=7, progress=False),
}


@pytest.mark.parametrize("name", RIGHT)
def test_pandas_and_numpy_values_are_accepted(name: str, world: World) -> None:
    RIGHT[name](world)


ODD: list[Any] = [None, 5, "odd", ["odd"], {"odd": 1}, lambda: 1, pd.NaT, math.nan, FRAME, TWICE, FRAME["celsius"]]
ODD += [np.arange(3), object()]
#: These wait for what never comes, or render many pictures.
SLOW = ("collect", "listen", "sweep", "add_frames")


def test_generator_with_progress_bar_is_read_once(world: World) -> None:
    frames = ((f"seen-{number}", FRAME) for number in range(3))
    assert world.archive.add_frames(tqdm(frames, total=3, disable=True)) == 36


PARTS: dict[str, Callable[[World], object]] = {
    **{part: attrgetter(part) for part in ("dweets", "archive", "hands", "rewards", "identity", "operator")},
    "frame.dweets": lambda w: FRAME.dweets,
    "toolkit": lambda w: toolkit,
    "toolkit.rewards": lambda w: toolkit.rewards,
    "toolkit.identity": lambda w: toolkit.identity,
}
#: A connection is made by `connect`; a gateway reads its arguments as the section of a configuration.
WITHOUT_CHECKS = (toolkit.Connection, toolkit.Gateway)


def calls_of(subject: object) -> Iterator[tuple[str, Callable[..., object], list[inspect.Parameter]]]:
    """Yield the public calls that have parameters, with their names and parameters."""
    for name in dir(subject):
        call = getattr(subject, name)
        if name.startswith("_") or not callable(call) or call in WITHOUT_CHECKS:
            continue
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        if parameters := [p for p in inspect.signature(call).parameters.values() if p.kind not in kinds]:
            yield name, call, parameters


@pytest.mark.parametrize("part", PARTS)
def test_every_call_says_which_argument_has_the_wrong_type(part: str, world: World) -> None:
    for _name, call, parameters in calls_of(PARTS[part](world)):
        with pytest.raises(InvalidArgument, match="^[a-z_ ]+ is .+, not an object"):
            call(**{parameter.name: object() for parameter in parameters})


@pytest.mark.parametrize("part", ["dweets", "archive", "hands", "rewards", "identity"])
def test_no_unusual_argument_gives_a_raw_error(part: str, world: World) -> None:
    raw = []
    for name, call, parameters in calls_of(getattr(world, part)):
        for odd in ODD if name not in SLOW else ():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    call(**{parameter.name: odd for parameter in parameters if parameter.default is parameter.empty})
                except ToolkitError:
                    continue
                except Exception as error:
                    raw.append(f"{name}({type(odd).__name__}): {error!r}")
    assert not raw
