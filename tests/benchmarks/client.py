"""Frames to a gateway and back, against the usual tools by hand: ``python -m tests.benchmarks.client [--rounds N]``.

``history``: nested dweets to a typed frame, the newest 500, and a day of 5,000 (by hand only that day is read); by hand
with requests, json.loads, pd.json_normalize and pd.to_datetime.
``post_frame``: 100,000 rows of five fields to a durable gateway of this process; by hand with to_dict, orjson and
requests, in batches. Each round runs both in turn; CPU times include the gateway.
``add_frame``: the archive of a frame with gaps, a text and a nested number; by hand with pyarrow's `write_table` on the
same frame with a column of JSON beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import requests

import toolkit
from toolkit.dweets.frame_rows import row_texts

THING = "station"
READINGS, ROWS, ROWS_PER_REQUEST = 5_000, 100_000, 1_000


def content(number: int) -> dict[str, object]:
    """Return a nested reading of a weather station."""
    return {
        "celsius": 20 + number % 70 / 10,
        "humidity": 40 + number % 30,
        "wind": {"speed": number % 12 + 0.5, "direction": {"degrees": number * 7 % 360, "name": "NNE"}},
        "battery": {"volts": 3.7, "charging": number % 2 == 0},
        "firmware": "1.4.2",
    }


def read_by_hand(session: requests.Session, url: str, query: dict[str, str]) -> pd.DataFrame:
    """Return what `history` returns."""
    records = json.loads(session.get(url, params=query, timeout=10).text)["with"]
    frame = pd.json_normalize(records)
    frame["created"] = pd.to_datetime(frame["created"])
    frame.columns = frame.columns.str.removeprefix("content.")
    return frame.drop(columns="thing").set_index("created").sort_index(kind="stable")


def five_fields() -> pd.DataFrame:
    """Return a frame as a sensor sends it."""
    random = np.random.default_rng(1)
    values: dict[str, object] = {
        "celsius": random.normal(20, 3, ROWS).round(2),
        "humidity": random.integers(0, 99, ROWS),
    }
    values |= {"open": random.random(ROWS) < 0.5, "state": random.choice(["idle", "heating", "off"], ROWS)}
    values["pressure"] = random.normal(1013, 9, ROWS).round(1)
    return pd.DataFrame(values, index=pd.date_range("2026-01-01", periods=ROWS, freq="s", tz="UTC", name="time"))


def post_by_hand(session: requests.Session, url: str, frame: pd.DataFrame) -> None:
    """Send what `post_frame` sends."""
    frame = frame.reset_index()
    frame["time"] = frame["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    for first in range(0, len(frame), ROWS_PER_REQUEST):
        rows = frame.iloc[first : first + ROWS_PER_REQUEST].to_dict("records")
        session.post(url, b"\n".join(map(orjson.dumps, rows)), timeout=60).raise_for_status()


def compare(title: str, rounds: int, ours: Callable[[], object], by_hand: Callable[[], object]) -> None:
    """Run both in turn and print medians and their ratios, on the clock and of CPU time."""
    runs = [[*_times(ours), *_times(by_hand)] for _ in range(rounds)]
    clock, cpu, clock_by_hand, cpu_by_hand = (1000 * statistics.median(column) for column in zip(*runs, strict=True))
    print(
        f"{title}, medians of {rounds}: {clock:.2f} ms, by hand {clock_by_hand:.2f} ms, {clock / clock_by_hand:.2f} x; "
        f"CPU {cpu:.2f} ms, by hand {cpu_by_hand:.2f} ms, {cpu / cpu_by_hand:.2f} x"
    )


def _times(run: Callable[[], object]) -> tuple[float, float]:
    started, used = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - started, time.process_time() - used


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with toolkit.connect() as tk, requests.Session() as session:
        readings = pd.json_normalize([content(number) for number in range(READINGS)])
        tk.dweets.post_frame(THING, readings, progress=False)
        day = {"date": f"{pd.Timestamp.now('UTC'):%Y-%m-%d}"}
        for rows, path, query in ((500, "/get/dweets/for", {}), (None, "/get/stored/dweets/for", day)):
            read = lambda n=rows: tk.dweets.history(THING, n=n)  # noqa: E731
            by_hand = lambda url=f"{tk.base_url}{path}/{THING}", query=query: read_by_hand(session, url, query)  # noqa: E731
            ours, hand = read(), by_hand()
            if list(ours.columns) != list(hand.columns) or not (ours.index == hand.index).all():
                raise SystemExit("the two frames differ")
            compare(f"history of {len(ours):,} nested dweets", 5 * rounds, read, by_hand)
    frame = five_fields()
    with (
        tempfile.TemporaryDirectory() as folder,
        toolkit.Gateway(folder, keep=ROWS) as gateway,
        toolkit.connect(gateway) as tk,
        requests.Session() as session,
    ):
        url = f"{tk.base_url}/dweets/for/by-hand"
        post = lambda: tk.dweets.post_frame("frame", frame, progress=False)  # noqa: E731
        compare(f"post_frame of {ROWS:,} rows", rounds, post, lambda: post_by_hand(session, url, frame))
    compare_add_frame(rounds)


def compare_add_frame(rounds: int) -> None:
    """Compare archiving a frame as devices send it: three floats with gaps, a truth value, a text, a nested number."""
    random = np.random.default_rng(1)
    names = ("celsius", "humidity", "pressure")
    values: dict[str, object] = {name: random.normal(15, 5, ROWS).round(2) for name in names}
    values |= {"open": random.random(ROWS) < 0.5, "state": random.choice(["idle", "heating", "off"], ROWS)}
    values["air.quality"] = random.integers(0, 500, ROWS)
    frame = pd.DataFrame(values, index=pd.date_range("2025-01-01", periods=ROWS, freq="s", tz="UTC"))
    frame[[*names]] = frame[[*names]].mask(random.random((ROWS, len(names))) < 0.01)
    texts = frame.assign(content=pd.Series(row_texts(frame).to_pylist(), frame.index, dtype="str"))
    with tempfile.TemporaryDirectory() as folder:
        archive, things = toolkit.Archive(folder), (f"roof-{number}" for number in range(rounds))
        add = lambda: archive.add_frame(next(things), frame)  # noqa: E731
        write = lambda: pq.write_table(pa.Table.from_pandas(texts), f"{folder}/by-hand.parquet")  # noqa: E731
        compare(f"add_frame of {ROWS:,} rows", rounds, add, write)


if __name__ == "__main__":
    main()
