"""A stream read by a thread of its own into a bounded memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any

import pandas as pd

from toolkit.dweets.client.history_frame import history_frame
from toolkit.dweets.client.listening import Listener
from toolkit.errors import ToolkitError


class LiveStream:
    """Keep the last dweets of a listener, for whoever looks and whenever.

    Parameters
    ----------
    listener
        Read until it ends, or until `close`.
    keep
        Dweets kept; older ones are forgotten.
    on_connection
        Called in the reader's thread with False when the connection is lost, with True when it is there again.
    """

    def __init__(self, listener: Listener, keep: int, on_connection: Callable[[bool], object]) -> None:
        self._listener = listener
        listener.on_connection = on_connection
        self._records: deque[dict[str, Any]] = deque(maxlen=keep)
        self._changed = threading.Condition()
        self.seen = 0
        self.running = True
        self.failure: ToolkitError | None = None
        self._reader = threading.Thread(target=self._read, name="live-dweets-reader", daemon=True)
        self._reader.start()

    def frame(self, last: int | None = None) -> pd.DataFrame:
        """Return the last dweets (None: all that are kept) as `history` does, oldest first."""
        with self._changed:
            start = 0 if last is None else max(0, len(self._records) - last)
            records = list(islice(self._records, start, None))
        return history_frame(records)

    def wait_beyond(self, seen: int) -> bool:
        """Wait until more than `seen` dweets have come; False where no more will."""
        with self._changed:
            self._changed.wait_for(lambda: self.seen > seen or not self.running)
            return self.seen > seen

    def wait_for(self, dweets: int, timeout: float) -> bool:
        """Wait until so many have come; False where they have not in time, or never will."""
        with self._changed:
            self._changed.wait_for(lambda: self.seen >= dweets or not self.running, timeout)
            return self.seen >= dweets

    def close(self) -> None:
        """End the stream and its thread."""
        self._listener.close()
        self._reader.join()

    def _read(self) -> None:
        try:
            for dweet in self._listener:
                record = {"thing": dweet.thing, "created": dweet.created, "content": dweet.content}
                with self._changed:
                    self._records.append(record)
                    self.seen += 1
                    self._changed.notify_all()
        except ToolkitError as error:  # whoever looks says it: nobody sees what a thread raises
            self.failure = error
        finally:
            with self._changed:
                self.running = False
                self._changed.notify_all()
