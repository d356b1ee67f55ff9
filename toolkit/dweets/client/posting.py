"""Post the rows of a frame: at once, to one thing or to those named in a column, or played back as a live thing."""

import math
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from toolkit.argument_checks import checked_arguments
from toolkit.dweets.checked_values import Key, checked_name, checked_times
from toolkit.dweets.client.calls import DweetCalls
from toolkit.dweets.frame_rows import ROWS_PER_REQUEST, batches, row_contents
from toolkit.dweets.frame_time import timed_rows, warn_of_differences
from toolkit.errors import InvalidArgument, TimedOut, counted, warn_caller
from toolkit.frames import check_columns_differ
from toolkit.public_api import Closable, PublicNames
from toolkit.system.nearest_name import missing_names

Receipt = dict[str, Any]


def post_rows(
    calls: DweetCalls,
    thing: str | None,
    frame: pd.DataFrame | None,
    thing_column: str | None,
    time_field: str | None,
    key: Key,
    progress: bool,
) -> list[Receipt]:
    """Send the rows and return the receipts in the order of the frame; all rows are checked before one is sent."""
    if frame is None:
        raise InvalidArgument("give a frame: post_frame(thing, frame)")
    rows_of_frame, names = _split_names(thing, frame, thing_column)
    timed = timed_rows(rows_of_frame, time_field)
    parts = [(name, timed.fields.iloc[indices], indices) for name, indices in names.items()]
    if unsendable := {".", ".."}.intersection(names):  # `HttpSession` would refuse in the middle
        raise InvalidArgument(f"thing cannot be {min(unsendable)!r}")
    requests = [(checked_name(name), batch) for name, rows, _ in parts for batch in batches(row_contents(rows))]
    warn_of_differences(timed)
    receipts: list[Receipt] = []
    for name, batch in tqdm(requests, desc=thing, unit="request", disable=not progress or len(requests) < 2):
        receipts += calls.post_rows(name, batch, key)
    too_many = {name: len(rows) for name, rows, _ in parts if len(rows) > (calls.retention or math.inf)}
    if too_many:
        name, count = max(too_many.items(), key=itemgetter(1))
        more = f", the most of {len(too_many):,} things" if len(too_many) > 1 else ""
        warn_caller(
            f"{count:,} dweets were sent to {name!r}{more}, but the gateway keeps little more than the last "
            f"{calls.retention:,} dweets of a thing. Keep more with Gateway(keep=...) or --keep, or use an archive"
        )
    order = np.argsort(np.concatenate([indices for _, _, indices in parts])) if len(parts) > 1 else range(len(receipts))
    return [receipts[index] for index in order]


def _split_names(
    thing: str | None, frame: pd.DataFrame, thing_column: str | None
) -> tuple[pd.DataFrame, dict[str, np.ndarray[Any, Any]]]:
    """Return the frame without the names of things, and the positions of the rows of each thing."""
    if (thing is None) == (thing_column is None):
        raise InvalidArgument("name either a thing or a column of things: post_frame(frame=df, thing_column='thing')")
    if thing is not None:
        return frame, {thing: np.arange(len(frame))}
    check_columns_differ(frame)
    if thing_column not in list(frame.columns):
        known = list(map(str, frame.columns))
        raise InvalidArgument(missing_names("the frame does not have", "column", [str(thing_column)], 1, known))
    names = frame[thing_column]
    if not names.map(lambda name: isinstance(name, str)).all():
        raise InvalidArgument(f"every row of the column {thing_column!r} must be the name of a thing")
    by_name = pd.Series(np.arange(len(frame))).groupby(names.to_numpy(), sort=False).indices
    rest = frame.drop(columns=thing_column)
    return rest, {str(name): np.asarray(indices) for name, indices in by_name.items()}


@checked_arguments
class Playback(PublicNames, Closable):
    """Sends rows in the background, each when it is due. Returned by ``tk.dweets.replay``.

    Attributes
    ----------
    sent : int
        How many rows have been sent so far.

    Examples
    --------
    >>> import toolkit
    >>> times = pd.date_range("2026-01-01", periods=3, freq="h", name="measured")
    >>> with toolkit.connect() as tk:
    ...     tk.dweets.replay("roof", pd.DataFrame({"celsius": [1, 2, 3]}, index=times), speed=1e9).wait()
    3
    """

    def __init__(
        self, frame: pd.DataFrame, time_field: str | None, speed: float, post: Callable[[Sequence[bytes]], object]
    ) -> None:
        rows = timed_rows(frame, time_field)
        times = checked_times(rows.times)
        if not speed > 0:
            raise InvalidArgument(f"speed must be above 0, not {speed}")
        self._contents = row_contents(rows.fields)
        due = (times - times[:1].min()).total_seconds() / speed
        self._due_seconds = np.minimum(due, threading.TIMEOUT_MAX).tolist()
        self._post = post
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        self.sent = 0
        self._thread = threading.Thread(target=self._play, name="dweet-playback", daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the playback ends, and return `sent`; raise TimedOut, or the error that ended the playback."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimedOut(f"{self.sent:,} of {counted(len(self._due_seconds), 'row')} sent after {timeout:g} s")
        if self._failure is not None:
            raise self._failure
        return self.sent

    def close(self) -> int:
        """Stop the playback now and return how many rows were sent."""
        self._stopped.set()
        return self.wait(timeout=60)

    def __repr__(self) -> str:
        state = "playing" if self._thread.is_alive() else "ended"
        return f"<Playback of {counted(len(self._due_seconds), 'row')}, {self.sent:,} sent, {state}>"

    def _play(self) -> None:
        started = time.monotonic()
        try:
            while self.sent < len(self._contents):
                if self._stopped.wait(max(0.0, self._due_seconds[self.sent] - (time.monotonic() - started))):
                    return
                ready = max(bisect_right(self._due_seconds, time.monotonic() - started), self.sent + 1)
                batch = next(batches(self._contents[self.sent : min(ready, self.sent + ROWS_PER_REQUEST)]))
                self._post(batch)
                self.sent += len(batch)
        except Exception as error:  # raised again by wait(), in the thread of the caller
            self._failure = error
