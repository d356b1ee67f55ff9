"""Make the data of tutorial 7: three weeks of a sensor with planted faults, and the truth.

Run ``python -m data.tools.attic_sensor``; it writes the same bytes every time.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

FOLDER = Path(__file__).resolve().parents[1]
STEP = pd.Timedelta(minutes=10)
START, END = pd.Timestamp("2025-10-06"), pd.Timestamp("2025-10-27")

#: What is wrong, and from when to when; the end is the first reading that is right again.
FAULTS = {
    "°F instead of °C": (pd.Timestamp("2025-10-09 13:20"), pd.Timestamp("2025-10-09 19:40")),
    "never received": (pd.Timestamp("2025-10-13 02:00"), pd.Timestamp("2025-10-13 04:00")),
    "stuck": (pd.Timestamp("2025-10-17 00:00"), pd.Timestamp("2025-10-18 00:00")),
    "an hour late": (pd.Timestamp("2025-10-22 11:00"), END),
}
_TEXTS = ["n/a", "err 3", "--"]
_MANY_TEXTS, _SPIKES = 14, 3


def made() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what the sensor sent, indexed by its own clock, and its true readings, both each ten minutes."""
    chance = np.random.default_rng(20251006)
    times = pd.date_range(START, END, freq=STEP, inclusive="left", name="measured")
    hours = np.arange(len(times)) / 6
    weather = np.cumsum(chance.normal(0, 0.05, len(times)))
    weather -= np.linspace(0, weather[-1], len(times))
    celsius = 17 + 4.5 * np.sin((hours - 9) / 24 * 2 * np.pi) + weather + chance.normal(0, 0.08, len(times))
    humidity = 62 - 1.4 * (celsius - 17) + chance.normal(0, 0.6, len(times))
    true = pd.DataFrame({"celsius": celsius.round(2), "humidity": humidity.round(1)}, times)
    readings = celsius.round(2).astype(object)
    during = {fault: np.asarray((times >= start) & (times < end)) for fault, (start, end) in FAULTS.items()}
    readings[during["°F instead of °C"]] = [round(each * 1.8 + 32, 2) for each in readings[during["°F instead of °C"]]]
    readings[during["stuck"]] = readings[during["stuck"]][0]
    usual = ~(during["°F instead of °C"] | during["stuck"] | during["never received"])
    usual &= np.roll(usual, 1) & np.roll(usual, -1)  # no fault begins beside another
    places = chance.choice(np.flatnonzero(usual), _MANY_TEXTS + _SPIKES, replace=False)
    for number, place in enumerate(places):
        # 85 °C is what such a sensor sends when its power fails.
        readings[place] = _TEXTS[number % len(_TEXTS)] if number < _MANY_TEXTS else 85.0
    clock = times.to_numpy() + np.where(during["an hour late"], np.timedelta64(1, "h"), np.timedelta64(0, "h"))
    sent = pd.DataFrame({"n": np.arange(1, len(times) + 1), "celsius": readings, "humidity": true["humidity"].array})
    sent.index = pd.DatetimeIndex(clock, name="measured")
    return sent[~during["never received"]], true


def main() -> None:
    """Write the three files."""
    sent, true = made()
    lines = sent.reset_index().assign(measured=[f"{time:%Y-%m-%dT%H:%M}" for time in sent.index])
    lines.to_json(FOLDER / "attic_sensor.jsonl", orient="records", lines=True)
    true.to_csv(FOLDER / "attic_sensor_truth.csv")
    counts = {fault: (end - start) // STEP for fault, (start, end) in FAULTS.items()}
    planted = {**counts, "texts instead of numbers": _MANY_TEXTS, "spikes": _SPIKES}
    pd.Series(planted, name="readings").rename_axis("fault").to_csv(FOLDER / "attic_sensor_faults.csv")


if __name__ == "__main__":
    main()
