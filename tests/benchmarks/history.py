"""A typed DataFrame from 500 nested dweets: ``python -m tests.benchmarks.history [--rounds N]``.

Ours: ``tk.dweets.history`` of the newest 500; without ``n`` it also reads older days. The peer, as one would write it
by hand: requests, json.loads, pd.json_normalize and pd.to_datetime. Both over the same gateway and a kept connection.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import pandas as pd
import requests

import toolkit

THING = "station"


def by_hand(session: requests.Session, url: str) -> pd.DataFrame:
    """Return the same frame with the usual tools."""
    records = json.loads(session.get(url, timeout=10).text)["with"]
    frame = pd.json_normalize(records)
    frame["created"] = pd.to_datetime(frame["created"])
    frame.columns = frame.columns.str.removeprefix("content.")
    return frame.drop(columns="thing").set_index("created").sort_index(kind="stable")


def content(number: int) -> dict[str, object]:
    """Return a nested reading of a weather station."""
    return {
        "celsius": 20 + number % 70 / 10,
        "humidity": 40 + number % 30,
        "wind": {"speed": number % 12 + 0.5, "direction": {"degrees": number * 7 % 360, "name": "NNE"}},
        "battery": {"volts": 3.7, "charging": number % 2 == 0},
        "firmware": "1.4.2",
    }


def seconds(run: Callable[[], pd.DataFrame]) -> float:
    """Return the time of one call."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def main() -> None:
    """Measure in turn and print medians."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    with toolkit.connect() as tk, requests.Session() as session:
        tk.dweets.post_frame(THING, pd.json_normalize([content(number) for number in range(500)]))
        url = f"{tk.base_url}/get/dweets/for/{THING}"
        ours, hand = tk.dweets.history(THING, n=500), by_hand(session, url)
        if list(ours.columns) != list(hand.columns) or not (ours.index == hand.index).all():
            raise SystemExit("the two frames differ")
        calls = (lambda: tk.dweets.history(THING, n=500), lambda: by_hand(session, url))
        pairs = [(seconds(calls[0]), seconds(calls[1])) for _ in range(rounds)]
    mine, peer = (statistics.median(column) * 1000 for column in zip(*pairs, strict=True))
    print(f"500 nested dweets to a typed frame, medians of {rounds} pairs:")
    print(f"tk.dweets.history {mine:.2f} ms, by hand {peer:.2f} ms, {peer / mine:.1f} x faster")


if __name__ == "__main__":
    main()
