"""The parts of LiveDweets that are no widgets: threads that read the last dweets of things, and the latest values."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from toolkit.dweets.client.listening import Listener
from toolkit.dweets.content_leaves import leaf_columns
from toolkit.errors import ToolkitError

DweetDict = dict[str, Any]

#: Seconds over which the rate of a field is computed.
_RATE_WINDOW_SECONDS = 60.0
#: The times of so many arrivals are kept; with more arrivals in a minute, the rate is that of a shorter time.
_MOST_ARRIVALS = 200
#: At most this many fields of all things are kept, because a thing may send new names with each dweet.
_MOST_READINGS = 1_000
_MOST_ROWS, _LONGEST_TEXT = 60, 60
_SECONDS_A_MINUTE = 60.0


class LiveReader:
    """Listen to things and keep the last `keep` dweets of each; other threads wait for `changed`."""

    def __init__(self, listen: Callable[[str, int | None], Listener], keep: int) -> None:
        self._listen = listen
        self._keep = keep
        self.changed = threading.Condition()
        #: Called by a thread when its connection is lost or back, and when the thread ends.
        self.on_state: Callable[[], object] = lambda: None
        #: How many dweets have arrived.
        self.seen = 0
        #: The error that ended the stream of a thing, by thing.
        self.failures: dict[str, ToolkitError] = {}
        self._records: dict[str, deque[DweetDict]] = {}
        self._new_records: list[DweetDict] = []
        self._listeners: dict[str, tuple[Listener, threading.Thread]] = {}
        self._positions: dict[str, int | None] = {}

    @property
    def is_running(self) -> bool:
        """Whether the reader listens to any thing."""
        return bool(self._listeners)

    @property
    def has_lost_connection(self) -> bool:
        """Whether one of the listeners has no connection at the moment."""
        with self.changed:
            return not all(listener.is_connected for listener, _ in self._listeners.values())

    def follow(self, things: Iterable[str], *, resume: bool = False) -> None:
        """Listen to exactly these things; with `resume`, first read the dweets since `stop`."""
        wanted = list(things)
        self._end([thing for thing in self._listeners if thing not in wanted])
        with self.changed:
            self._records = {thing: self._records.get(thing) or deque(maxlen=self._keep) for thing in wanted}
            self.failures = {}
        for thing in wanted:
            if thing not in self._listeners:
                self._begin(thing, self._positions.get(thing) if resume else None)

    def stop(self) -> None:
        """End all threads, and keep the received dweets."""
        self._end(list(self._listeners))

    def last_records(self, things: Iterable[str], count: int | None = None) -> list[DweetDict]:
        """Return the last dweets of each of these things, one thing after the other."""
        with self.changed:
            found = [list(self._records.get(thing, ()))[-(count or self._keep) :] for thing in things]
        return [record for records in found for record in records]

    def take_new_records(self) -> list[DweetDict]:
        """Return the records that have arrived since the last call."""
        with self.changed:
            fresh, self._new_records = self._new_records, []
            return fresh

    def wait_for_dweets(self, dweets: int, timeout: float | None = None) -> bool:
        """Wait until `dweets` dweets have arrived, or the reader has stopped; return whether they have arrived."""
        with self.changed:
            self.changed.wait_for(lambda: self.seen >= dweets or not self._listeners, timeout)
            return self.seen >= dweets

    def _begin(self, thing: str, since: int | None) -> None:
        try:
            listener = self._listen(thing, since)
        except ToolkitError as error:
            self.failures[thing] = error
            return
        listener.on_connection = lambda _is_connected: self.on_state()
        thread = threading.Thread(target=self._read, args=(thing, listener), name="live-dweets-reader", daemon=True)
        with self.changed:
            self._listeners[thing] = listener, thread
        thread.start()

    def _read(self, thing: str, listener: Listener) -> None:
        try:
            for dweet in listener:
                record = dweet.record()
                with self.changed:
                    self._records[thing].append(record)
                    self._new_records.append(record)
                    self.seen += 1
                    self.changed.notify_all()
        except ToolkitError as error:  # nobody sees what a thread raises
            self.failures[thing] = error
        finally:
            with self.changed:
                self._positions[thing] = listener.position
                self._listeners.pop(thing, None)
                self.changed.notify_all()
            self.on_state()

    def _end(self, things: Iterable[str]) -> None:
        with self.changed:
            ending = [self._listeners[thing] for thing in things]
        for listener, _ in ending:
            listener.close()
        for _, thread in ending:
            if thread is not threading.current_thread():  # `on_state` may run in a reading thread
                thread.join()


class _Reading:
    def __init__(self) -> None:
        self.value: Any = None
        self._arrivals: deque[tuple[float, int]] = deque(maxlen=_MOST_ARRIVALS)

    def add(self, values: Sequence[Any], now: float) -> None:
        self.value = values[-1]
        self._arrivals.append((now, len(values)))

    def rate(self, now: float) -> str:
        """Return how many values arrived per second, or per minute if they are few."""
        while len(self._arrivals) > 2 and now - self._arrivals[1][0] > _RATE_WINDOW_SECONDS:
            self._arrivals.popleft()
        (first, _), *later = self._arrivals
        if not later or now <= first:
            return "–"
        a_second = sum(count for _, count in later) / (now - first)
        return f"{a_second:.1f} / s" if a_second >= 1 else f"{a_second * _SECONDS_A_MINUTE:.1f} / min"


class LiveReadings:
    """The latest value of each field of each thing, and the times of arrival."""

    def __init__(self) -> None:
        self._readings: dict[tuple[str, str], _Reading] = {}

    @property
    def fields(self) -> dict[str, Any]:
        """The latest value of each field, of any thing; fields are in the order of their first arrival."""
        return {field: reading.value for (_, field), reading in self._readings.items()}

    def add(self, records: Iterable[DweetDict], now: float) -> None:
        """Take the values of new records, which arrived at the time `now` (in seconds)."""
        contents: dict[str, list[Any]] = {}
        for record in records:
            contents.setdefault(record["thing"], []).append(record["content"])
        for thing, each in contents.items():
            for field, column in leaf_columns(each)[0].items():
                values = [value for value in column if value is not None]
                if values and ((thing, field) in self._readings or len(self._readings) < _MOST_READINGS):
                    self._readings.setdefault((thing, field), _Reading()).add(values, now)

    def html(self, things: Sequence[str], now: float) -> str:
        """Return the HTML table of these things; with several things, each row has the name of its thing."""
        rows = [(key, reading) for key, reading in self._readings.items() if key[0] in things]
        if not rows:
            return ""
        names = ("Thing", "Field", "Latest value", "Rate")[len(things) == 1 :]
        head = "".join(f"<th>{name}</th>" for name in names)
        body = "".join(_html_row(key[len(things) == 1 :], reading, now) for key, reading in rows[:_MOST_ROWS])
        more = f"<div>and {len(rows) - _MOST_ROWS:,} more</div>" if len(rows) > _MOST_ROWS else ""
        return (
            f'<div class="jp-RenderedHTMLCommon toolkit-readings"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>{more}</div>"
        )


def _html_row(names: Sequence[str], reading: _Reading, now: float) -> str:
    named = "".join(f"<td>{_shortened_html(name)}</td>" for name in names)
    return f"<tr>{named}<td><b>{_shortened_html(_value_text(reading.value))}</b></td><td>{reading.rate(now)}</td></tr>"


def _value_text(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:,.12g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return json.dumps(value, ensure_ascii=False)


def _shortened_html(text: str) -> str:
    if len(text) <= _LONGEST_TEXT:
        return escape(text)
    return f'<span title="{escape(text[:1_000])}">{escape(text[:_LONGEST_TEXT])}…</span>'
