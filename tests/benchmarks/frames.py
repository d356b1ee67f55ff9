"""Frames against the usual tools, in turn: ``python -m tests.benchmarks.frames [--rounds N]``.

`history` of 500 nested dweets against requests, json.loads, pd.json_normalize and pd.to_datetime, over one gateway and
kept connections; `Archive.add_frame` against pyarrow's `write_table` on the same frame with a column of JSON beside it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import requests

import toolkit
from toolkit.dweets.frame_rows import row_texts

THING, ROWS = "station", 200_000


def history_by_hand(session: requests.Session, url: str) -> pd.DataFrame:
    records = json.loads(session.get(url, timeout=10).text)["with"]
    frame = pd.json_normalize(records)
    frame["created"] = pd.to_datetime(frame["created"])
    frame.columns = frame.columns.str.removeprefix("content.")
    return frame.drop(columns="thing").set_index("created").sort_index(kind="stable")


def reading(number: int) -> dict[str, object]:
    """Return a nested reading of a weather station."""
    return {
        "celsius": 20 + number % 70 / 10,
        "humidity": 40 + number % 30,
        "wind": {"speed": number % 12 + 0.5, "direction": {"degrees": number * 7 % 360, "name": "NNE"}},
        "battery": {"volts": 3.7, "charging": number % 2 == 0},
        "firmware": "1.4.2",
    }


def frame_of_all_kinds() -> pd.DataFrame:
    """Return a frame as devices send it: three floats with gaps, a truth value, a text and a nested number."""
    chance = np.random.default_rng(1)
    values: dict[str, object] = {}
    for name in ("celsius", "humidity", "pressure"):
        values[name] = np.where(chance.random(ROWS) < 0.01, np.nan, chance.normal(15, 5, ROWS).round(2))
    values |= {"open": chance.random(ROWS) < 0.5, "state": chance.choice(["idle", "heating", "off"], ROWS)}
    values["air.quality"] = chance.integers(0, 500, ROWS)
    return pd.DataFrame(values, index=pd.date_range("2025-01-01", periods=ROWS, freq="s", tz="UTC"))


def seconds(call: Callable[[], object], clock: Callable[[], float]) -> float:
    started = clock()
    call()
    return clock() - started


def medians(
    ours: Callable[[], object], by_hand: Callable[[], object], rounds: int, clock: Callable[[], float]
) -> tuple[float, float]:
    """Return the seconds of both, called in turn."""
    pairs = [(seconds(ours, clock), seconds(by_hand, clock)) for _ in range(rounds)]
    mine, peer = (statistics.median(column) for column in zip(*pairs, strict=True))
    return mine, peer


def measure_history(rounds: int) -> None:
    with toolkit.connect() as tk, requests.Session() as session:
        tk.dweets.post_frame(THING, pd.json_normalize([reading(number) for number in range(500)]))
        url = f"{tk.base_url}/get/dweets/for/{THING}"
        ours, hand = tk.dweets.history(THING, n=500), history_by_hand(session, url)
        if list(ours.columns) != list(hand.columns) or not (ours.index == hand.index).all():
            raise SystemExit("the two frames differ")
        mine, peer = medians(
            lambda: tk.dweets.history(THING, n=500), lambda: history_by_hand(session, url), rounds, time.perf_counter
        )
    print(
        f"history of 500 nested dweets {1000 * mine:.2f} ms, by hand {1000 * peer:.2f} ms: {peer / mine:.1f} x faster"
    )


def measure_add_frame(rounds: int) -> None:
    """Measure CPU time: it hardly depends on what else runs."""
    frame = frame_of_all_kinds()
    with_texts = frame.assign(content=pd.Series(row_texts(frame).to_pylist(), frame.index, dtype="str"))
    with tempfile.TemporaryDirectory() as folder:
        numbers = iter(range(rounds))
        mine, peer = medians(
            lambda: toolkit.Archive(folder).add_frame(f"roof-{next(numbers)}", frame),
            lambda: pq.write_table(pa.Table.from_pandas(with_texts), f"{folder}/by-hand.parquet"),
            rounds,
            time.process_time,
        )
    print(f"add_frame {ROWS / mine:,.0f} rows a CPU second, {mine / peer:.2f} x the CPU time of pyarrow's write_table")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=60, help="a tenth of them for add_frame")
    rounds = parser.parse_args().rounds
    measure_history(rounds)
    measure_add_frame(1 + rounds // 10)


if __name__ == "__main__":
    main()
