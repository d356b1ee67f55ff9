"""The data behind LiveDweets: the new dweets of things, which threads receive, and the latest value of each field."""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import pairwise
from statistics import median
from typing import Any

from toolkit.dweets.client.listening import Listener
from toolkit.dweets.content_leaves import frequent_leaf_columns
from toolkit.errors import ToolkitError

DweetDict = dict[str, Any]

#: A thing is silent after this many seconds, and after this many times its usual pause.
_LEAST_SILENCE, _PAUSES = 10.0, 3.0
#: Seconds over which the rate of a field is computed.
_RATE_WINDOW_SECONDS = 60.0
#: At most this many arrivals are kept per field; with more in a minute, the rate is computed over a shorter time.
_MOST_ARRIVALS = 200
#: At most this many fields of all things are kept, because a thing may send new names with each dweet.
_MOST_READINGS = 1_000
_MOST_ROWS, _LONGEST_TEXT = 60, 60
_SECONDS_PER_MINUTE = 60.0


class LiveReader:
    """Listens to things and keeps the last `keep` dweets of each; other threads wait for `changed`."""

    def __init__(self, listen: Callable[[str, int | None], Listener], keep: int) -> None:
        self._listen = listen
        self._keep = keep
        self.changed = threading.Condition()
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
        """Whether the reader listens to a thing."""
        return bool(self._listeners)

    @property
    def has_lost_connection(self) -> bool:
        """Whether one of the streams has no connection at the moment."""
        with self.changed:
            return not all(listener.is_connected for listener, _ in self._listeners.values())

    @property
    def connection_problem(self) -> ToolkitError | None:
        """Why one of the streams cannot be opened at the moment."""
        with self.changed:
            return next(filter(None, (listener.problem for listener, _ in self._listeners.values())), None)

    def follow(self, things: Iterable[str], *, resume: bool = False) -> None:
        """Listen to exactly these things; with `resume`, first read the dweets since `stop`."""
        wanted = list(things)
        self._stop_listeners(set(self._listeners).difference(wanted))
        with self.changed:
            self._records = {thing: self._records.get(thing) or deque(maxlen=self._keep) for thing in wanted}
            self.failures = {}
        for thing in wanted:
            if thing not in self._listeners:
                self._start_listener(thing, self._positions.get(thing) if resume else None)

    def stop(self) -> None:
        """End all threads, and keep the received dweets."""
        self._stop_listeners(self._listeners)

    def last_records(self, things: Iterable[str], count: int | None = None) -> list[DweetDict]:
        """Return the last `count` dweets (None: all that are kept) of each of these things, thing by thing."""
        with self.changed:
            by_thing = [list(self._records.get(thing, ()))[-(count or self._keep) :] for thing in things]
        return [record for records in by_thing for record in records]

    def take_new_records(self) -> list[DweetDict]:
        """Return the records that have arrived since the last call."""
        with self.changed:
            new_records, self._new_records = self._new_records, []
            return new_records

    def wait_for_dweets(self, dweets: int, timeout: float | None = None) -> bool:
        """Wait until `dweets` dweets have arrived, or the reader has stopped; return whether they have arrived."""
        with self.changed:
            self.changed.wait_for(lambda: self.seen >= dweets or not self._listeners, timeout)
            return self.seen >= dweets

    def _start_listener(self, thing: str, since: int | None) -> None:
        try:
            listener = self._listen(thing, since)
        except ToolkitError as error:
            self.failures[thing] = error
            return
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

    def _stop_listeners(self, things: Iterable[str]) -> None:
        with self.changed:
            ending = [self._listeners[thing] for thing in things if thing in self._listeners]
        for listener, _ in ending:
            listener.close()
        for _, thread in ending:
            thread.join()


class LiveReadings:
    """The latest value of each field of each thing, and the times of arrival."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], Any] = {}
        #: Times in seconds, and how many values arrived at each.
        self._arrivals: dict[tuple[str, str], deque[tuple[float, int]]] = {}

    @property
    def fields(self) -> dict[str, Any]:
        """Each field, in order of first arrival, with the latest value from one of the things that send it."""
        return {field: value for (_, field), value in self._values.items()}

    def add(self, records: Iterable[DweetDict], now: float) -> None:
        """Take the values of new records, which arrived at the time `now` (in seconds)."""
        contents: dict[str, list[Any]] = {}
        for record in records:
            contents.setdefault(record["thing"], []).append(record["content"])
        for thing, new_contents in contents.items():
            for field, column in frequent_leaf_columns(new_contents)[0].items():
                key, values = (thing, field), [value for value in column if value is not None]
                if values and (key in self._values or len(self._values) < _MOST_READINGS):
                    self._values[key] = values[-1]
                    self._arrivals.setdefault(key, deque(maxlen=_MOST_ARRIVALS)).append((now, len(values)))

    def silent(self, things: Sequence[str], now: float) -> list[str]:
        """Return those of these things that have sent something, but nothing for longer than usual."""
        by_thing = {thing: [key for key in self._values if key[0] == thing] for thing in things}
        return [
            thing
            for thing, keys in by_thing.items()
            if keys and all(_is_silent(self._arrivals[key], now) for key in keys)
        ]

    def html(self, things: Sequence[str], now: float | None) -> str:
        """Return the HTML table of these things, in their order; without a time `now`, nothing is being received.

        With several things, each row has the name of its thing.
        """
        keys = sorted((key for key in self._values if key[0] in things), key=lambda key: things.index(key[0]))
        if not keys:
            return ""
        first = int(len(things) == 1)
        head = "".join(f"<th>{name}</th>" for name in ("Thing", "Field", "Latest value", "Last seen", "Rate")[first:])
        body = ""
        for key in keys[:_MOST_ROWS]:
            names = "".join(f"<td>{_shortened_html(name)}</td>" for name in key[first:])
            value = _shortened_html(_value_text(self._values[key]))
            age, rate = (
                ("–", "–")
                if now is None
                else (_age_html(self._arrivals[key], now), _rate_text(self._arrivals[key], now))
            )
            body += f"<tr>{names}<td><b>{value}</b></td><td>{age}</td><td>{rate}</td></tr>"
        more = f"<div>and {len(keys) - _MOST_ROWS:,} more</div>" if len(keys) > _MOST_ROWS else ""
        return (
            f'<div class="jp-RenderedHTMLCommon toolkit-readings"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>{more}</div>"
        )


def _is_silent(arrivals: deque[tuple[float, int]], now: float) -> bool:
    times = [time for time, _ in arrivals]
    usual = median(after - before for before, after in pairwise(times)) if len(times) > 1 else 0.0
    return now - times[-1] > max(_LEAST_SILENCE, _PAUSES * usual)


def _age_html(arrivals: deque[tuple[float, int]], now: float) -> str:
    """Return how long ago the last value came; with a green dot if more are to be expected."""
    dot = "○" if _is_silent(arrivals, now) else '<span class="toolkit-good">●</span>'
    return f"{dot} {age_text(now - arrivals[-1][0])}"


def age_text(seconds: float) -> str:
    """Return how long ago something was, in the words of ``ages.js``."""
    if seconds < 1.5:
        return "just now"
    for name, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:,.0f} {name} ago"
    return f"{seconds:.0f} s ago"


def _rate_text(arrivals: deque[tuple[float, int]], now: float) -> str:
    """Return the rate of values per second, or per minute if they are few; drop old arrivals from `arrivals`."""
    if _is_silent(arrivals, now):
        return "0 / s"
    while len(arrivals) > 2 and now - arrivals[1][0] > _RATE_WINDOW_SECONDS:
        arrivals.popleft()
    (first, _), *later = arrivals
    if not later or now <= first:
        return "–"
    per_second = sum(count for _, count in later) / (now - first)
    return f"{per_second:.1f} / s" if per_second >= 1 else f"{per_second * _SECONDS_PER_MINUTE:.1f} / min"


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
