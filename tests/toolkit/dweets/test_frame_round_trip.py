"""Any frame that is posted comes back from ``history(time=...)``, or a warning names what differs."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolkit
from toolkit.errors import DataWarning, InvalidArgument
from toolkit_gateway import Gateway

THINGS = (f"thing-{number}" for number in itertools.count())
NAMES = [
    "celsius",
    "created",
    "thing",
    "content",
    "time",
    "content.created",
    "content.content.thing",
    "a.b",
    "a",
    "ü 🙂",
]
NAMES += [" celsius", "", ".", "a.", "created.at", "Created"]
TIMES = st.datetimes(pd.Timestamp("0001-01-02").to_pydatetime(), pd.Timestamp("9999-12-30").to_pydatetime())
ZONES = st.sampled_from([None, "UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu"])
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(max_size=8)
VALUES = {
    "floats": st.floats(allow_infinity=False),
    "integers": st.integers(-(2**63), 2**63 - 1),
    "booleans": st.booleans(),
    "texts": st.none() | TEXTS,
    "times": st.just(pd.NaT) | TIMES.map(pd.Timestamp),
    "objects": st.none() | st.booleans() | NUMBERS | TEXTS | st.lists(st.integers(0, 9), max_size=2),
    "nested": st.none() | st.dictionaries(st.sampled_from("xy"), st.integers(0, 9), max_size=2),
    "missing": st.none(),
}
QUICK = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    rows = draw(st.integers(1, 6))
    times = draw(st.lists(st.just(pd.NaT) | TIMES, min_size=rows, max_size=rows))
    if draw(st.booleans()):
        times = sorted(time for time in times if time is not pd.NaT)
    index = pd.DatetimeIndex(times, dtype="datetime64[us]", name=draw(st.sampled_from([None, "measured", *NAMES])))
    if (zone := draw(ZONES)) is not None:
        index = index.tz_localize("UTC").tz_convert(zone)
    columns = {}
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=4)):
        kind = draw(st.sampled_from(sorted(VALUES)))
        values = draw(st.lists(VALUES[kind], min_size=len(index), max_size=len(index)))
        columns[name] = pd.Series(values, index, dtype="object" if kind in ("objects", "nested") else None)
    return pd.DataFrame(columns, index=index)


@pytest.fixture(scope="module")
def tk() -> Iterator[toolkit.Connection]:
    with Gateway() as gateway, toolkit.connect(gateway) as connection:
        yield connection


def posted(tk: toolkit.Connection, thing: str, frame: pd.DataFrame) -> str:
    """Post a frame and return its warning."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        tk.dweets.post_frame(thing, frame, progress=False)
    assert len(said) <= 1
    assert all(issubclass(warning.category, DataWarning) for warning in said)
    return "".join(str(warning.message) for warning in said)


def check_round_trip(tk: toolkit.Connection, frame: pd.DataFrame) -> None:
    thing = next(THINGS)
    try:
        told = posted(tk, thing, frame)
    except InvalidArgument:
        return  # nothing was sent
    name = "time" if frame.index.name in (None, "created") else str(frame.index.name)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        back = tk.dweets.history(thing, time=name)
    told += "".join(str(warning.message) for warning in said)

    utc = frame.index.tz_localize("UTC") if frame.index.tz is None else frame.index.tz_convert("UTC")
    kept = [row for row in range(len(frame)) if not pd.isna(utc[row])]
    assert len(kept) == len(frame) or "have no time in" in told
    if not utc[kept].is_monotonic_increasing:
        assert "sorted by" in told
        kept.sort(key=lambda row: utc[row])
    times = back.index.tz_localize("UTC") if back.index.tz is None else back.index
    assert times.tolist() == utc[kept].tolist()
    assert (back.index.tz is None) == (frame.index.tz is None) or not len(back)
    for column in frame.columns:
        for row, value in enumerate(frame[column].iloc[kept]):
            assert is_same(back, column, row, value) or repr(column) in told or "as a key and as nested keys" in told
    for column in map(str, back.columns.difference(["created", *frame.columns])):  # parts of nested values
        outer = [name for name in frame.columns if column == name or column.startswith(f"{name}.")]
        assert repr(column) in told or any(repr(name) in told for name in outer), column

    back.reset_index()
    again = next(THINGS)
    posted(tk, again, back)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert tk.dweets.history(again, time=str(back.index.name)).index.tolist() == back.index.tolist()


def is_same(back: pd.DataFrame, column: str, row: int, value: Any) -> bool:
    read = back[column].iloc[row] if column in back.columns else None
    if value is None or value is pd.NaT or value is pd.NA or value != value:
        return read is None or read is pd.NA or read != read
    return bool(read == value) and isinstance(read, str) == isinstance(value, str)


@QUICK
@given(frame=frames())
def test_a_posted_frame_comes_back(tk: toolkit.Connection, frame: pd.DataFrame) -> None:
    check_round_trip(tk, frame)


@pytest.mark.long
@settings(QUICK, max_examples=3_000)
@given(frame=frames())
def test_a_posted_frame_comes_back_at_depth(tk: toolkit.Connection, frame: pd.DataFrame) -> None:
    check_round_trip(tk, frame)
