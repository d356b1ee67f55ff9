"""Play a recorded frame back as a live thing."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence

import pandas as pd

from toolkit.dweets.arguments import checked_times
from toolkit.dweets.content_json import ROWS_A_REQUEST, batches, row_contents
from toolkit.errors import InvalidArgument, TimedOut


class Playback:
    """Sends rows in the background, each when it is due. Made by ``tk.dweets.replay``.

    Attributes
    ----------
    sent : int
        How many rows were sent so far.

    Examples
    --------
    >>> import toolkit
    >>> times = pd.date_range("2026-01-01", periods=3, freq="h", name="measured")
    >>> with toolkit.connect() as tk:
    ...     tk.dweets.replay("roof", pd.DataFrame({"celsius": [1, 2, 3]}, index=times), speed=1e9).wait()
    3
    """

    def __init__(self, frame: pd.DataFrame, speed: float, post: Callable[[Sequence[bytes]], object]) -> None:
        index = checked_times(frame)
        if not speed > 0:
            raise InvalidArgument("speed must be above 0")
        self._contents = row_contents(frame)
        self._due = ((index - index[0]).total_seconds() / speed).tolist() if len(index) else []
        self._post = post
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        self.sent = 0
        self._thread = threading.Thread(target=self._play, name="dweet-playback", daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all rows are sent and return their number; raise TimedOut, or the error of the sending."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimedOut(f"{self.sent} of {len(self._due)} rows sent after {timeout} seconds")
        if self._failure is not None:
            raise self._failure
        return self.sent

    def close(self) -> int:
        """Stop now and return how many rows were sent."""
        self._stopped.set()
        return self.wait(timeout=60)

    def __enter__(self) -> Playback:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "playing" if self._thread.is_alive() else "ended"
        return f"<Playback of {len(self._due)} rows, {self.sent} sent, {state}>"

    def _play(self) -> None:
        started = time.monotonic()
        try:
            while self.sent < len(self._contents):
                if self._stopped.wait(max(0.0, self._due[self.sent] - (time.monotonic() - started))):
                    return
                ready = max(bisect_right(self._due, time.monotonic() - started), self.sent + 1)
                batch = next(batches(self._contents[self.sent : min(ready, self.sent + ROWS_A_REQUEST)]))
                self._post(batch)
                self.sent += len(batch)
        except Exception as error:  # raised again by wait(), in the thread of the caller
            self._failure = error
