"""Play a recorded frame back as a live thing."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from types import TracebackType


class Playback:
    """Rows on their way, each when it is due. Made by ``tk.dweets.replay``.

    Parameters
    ----------
    due
        Seconds after the start at which each row is due, ascending.
    send
        Sends rows from one number to another (exclusive), in one request.
    largest
        Rows in one request at most.
    """

    def __init__(self, due: Sequence[float], send: Callable[[int, int], object], largest: int) -> None:
        self._due = due
        self._send = send
        self._largest = largest
        self._stopped = threading.Event()
        self._failure: Exception | None = None
        self.sent = 0
        self._thread = threading.Thread(target=self._play, name="dweet-playback", daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> int:
        """Wait until all rows are sent and return how many were; raises what sending raised.

        Raises
        ------
        TimeoutError
            They are not all sent within `timeout` seconds.
        """
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise TimeoutError(f"{self.sent} of {len(self._due)} rows sent after {timeout} seconds")
        if self._failure is not None:
            raise self._failure
        return self.sent

    def stop(self) -> int:
        """Stop now and return how many rows were sent."""
        self._stopped.set()
        return self.wait(timeout=60)

    def __enter__(self) -> Playback:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "playing" if self._thread.is_alive() else "ended"
        return f"<Playback of {len(self._due)} rows, {self.sent} sent, {state}>"

    def _play(self) -> None:
        started = time.monotonic()
        try:
            while self.sent < len(self._due):
                if self._stopped.wait(max(0.0, self._due[self.sent] - (time.monotonic() - started))):
                    return
                ready = bisect_right(self._due, time.monotonic() - started)
                end = min(max(ready, self.sent + 1), self.sent + self._largest)
                self._send(self.sent, end)
                self.sent = end
        except Exception as error:  # raised again by wait(), in the thread of the caller
            self._failure = error
