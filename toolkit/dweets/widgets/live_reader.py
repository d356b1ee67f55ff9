"""What LiveDweets reads: a thread for each thing, and the last dweets of each. No widget."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from toolkit.dweets.client.listening import Listener
from toolkit.errors import ToolkitError

Record = dict[str, Any]


class LiveReader:
    """Listen to things and keep the last `keep` dweets of each; other threads wait for `changed`."""

    def __init__(self, listen: Callable[[str, int | None], Listener], keep: int) -> None:
        self._listen = listen
        self._keep = keep
        self.changed = threading.Condition()
        #: Called by its threads when a connection is lost or back, and when one of them ends.
        self.on_state: Callable[[], object] = lambda: None
        #: How many dweets have arrived.
        self.seen = 0
        #: Why a thing is not listened to.
        self.failures: dict[str, ToolkitError] = {}
        self._records: dict[str, deque[Record]] = {}
        self._fresh: list[Record] = []
        self._listeners: dict[str, Listener] = {}
        self._threads: dict[Listener, threading.Thread] = {}
        self._positions: dict[str, int | None] = {}

    @property
    def is_running(self) -> bool:
        """Whether it listens to any thing."""
        return bool(self._listeners)

    @property
    def has_lost_connection(self) -> bool:
        """Whether one of its listeners has no connection for the moment."""
        with self.changed:
            return not all(listener.is_connected for listener in self._listeners.values())

    def follow(self, things: Iterable[str], *, resume: bool = False) -> None:
        """Listen to exactly these things; with `resume`, first to what came since `stop`."""
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

    def last_records(self, things: Iterable[str], count: int | None = None) -> list[Record]:
        """Return the last dweets of each of these things, one thing after the other."""
        with self.changed:
            found = [list(self._records.get(thing, ()))[-(count or self._keep) :] for thing in things]
        return [record for records in found for record in records]

    def take_fresh(self) -> list[Record]:
        """Return what has arrived since the last call."""
        with self.changed:
            fresh, self._fresh = self._fresh, []
            return fresh

    def has_come(self, dweets: int, timeout: float | None = None) -> bool:
        """Wait until so many dweets have arrived, or it has stopped."""
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
            self._listeners[thing] = listener
            self._threads[listener] = thread
        thread.start()

    def _read(self, thing: str, listener: Listener) -> None:
        try:
            for dweet in listener:
                record = dweet.record()
                with self.changed:
                    self._records[thing].append(record)
                    self._fresh.append(record)
                    self.seen += 1
                    self.changed.notify_all()
        except ToolkitError as error:  # nobody sees what a thread raises
            self.failures[thing] = error
        finally:
            with self.changed:
                self._positions[thing] = listener.position
                self._listeners.pop(thing, None)
                self._threads.pop(listener, None)
                self.changed.notify_all()
            self.on_state()

    def _end(self, things: Iterable[str]) -> None:
        with self.changed:
            ending = [self._listeners[thing] for thing in things]
            threads = [self._threads[listener] for listener in ending]
        for listener in ending:
            listener.close()
        for thread in threads:
            if thread is not threading.current_thread():  # as in an observer of what is drawn
                thread.join()
