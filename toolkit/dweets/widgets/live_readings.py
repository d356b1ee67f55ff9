"""The table of LiveDweets: the latest value of each field, and how often one arrives."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from toolkit.dweets.content_leaves import leaf_columns
from toolkit.dweets.widgets.live_reader import Record

#: Seconds over which values are counted.
_WINDOW = 60.0
#: Arrivals whose times are kept; at more than that in a minute, the window is shorter.
_MOST_TIMES = 200
#: Fields of all things; a thing may make up new names with each dweet.
_MOST_READINGS = 1_000
_MOST_ROWS, _LONGEST_TEXT = 60, 60
_A_MINUTE = 60.0


class _Reading:
    def __init__(self) -> None:
        self.value: Any = None
        self._arrivals: deque[tuple[float, int]] = deque(maxlen=_MOST_TIMES)

    def take(self, values: Sequence[Any], now: float) -> None:
        self.value = values[-1]
        self._arrivals.append((now, len(values)))

    def rate(self, now: float) -> str:
        """Return how many values came a second, or a minute if they are few."""
        while len(self._arrivals) > 2 and now - self._arrivals[1][0] > _WINDOW:
            self._arrivals.popleft()
        (first, _), *later = self._arrivals
        if not later or now <= first:
            return "–"
        a_second = sum(count for _, count in later) / (now - first)
        return f"{a_second:.1f} / s" if a_second >= 1 else f"{a_second * _A_MINUTE:.1f} / min"


class LiveReadings:
    """The latest values of all things, and when values arrived."""

    def __init__(self) -> None:
        self._readings: dict[tuple[str, str], _Reading] = {}

    @property
    def fields(self) -> dict[str, Any]:
        """The latest value of each field, of any thing, in the order of their first arrival."""
        return {field: reading.value for (_, field), reading in self._readings.items()}

    def take(self, records: Iterable[Record], now: float) -> None:
        """Count records that arrived about now (in seconds)."""
        contents: dict[str, list[Any]] = {}
        for record in records:
            contents.setdefault(record["thing"], []).append(record["content"])
        for thing, each in contents.items():
            for field, column in leaf_columns(each)[0].items():
                values = [value for value in column if value is not None]
                if values and ((thing, field) in self._readings or len(self._readings) < _MOST_READINGS):
                    self._readings.setdefault((thing, field), _Reading()).take(values, now)

    def html(self, things: Sequence[str], now: float) -> str:
        """Return the table of these things; with several, each row names its thing."""
        rows = [(key, reading) for key, reading in self._readings.items() if key[0] in things]
        if not rows:
            return ""
        names = ("Thing", "Field", "Latest value", "Rate")[len(things) == 1 :]
        head = "".join(f"<th>{name}</th>" for name in names)
        body = "".join(_row(key[len(things) == 1 :], reading, now) for key, reading in rows[:_MOST_ROWS])
        more = f"<div>and {len(rows) - _MOST_ROWS:,} more</div>" if len(rows) > _MOST_ROWS else ""
        return (
            f'<div class="jp-RenderedHTMLCommon toolkit-readings"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>{more}</div>"
        )


def _row(names: Sequence[str], reading: _Reading, now: float) -> str:
    named = "".join(f"<td>{_short(name)}</td>" for name in names)
    return f"<tr>{named}<td><b>{_short(_text(reading.value))}</b></td><td>{reading.rate(now)}</td></tr>"


def _text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:,.12g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return json.dumps(value, ensure_ascii=False)


def _short(text: str) -> str:
    if len(text) <= _LONGEST_TEXT:
        return escape(text)
    return f'<span title="{escape(text[:1_000])}">{escape(text[:_LONGEST_TEXT])}…</span>'
