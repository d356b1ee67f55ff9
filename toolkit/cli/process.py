"""Signal handlers and log output of commands that run until a signal."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

#: Signals that end a command; Windows has no SIGHUP, the signal of a closed terminal.
END_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def at_end_signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in END_SIGNALS}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


@contextmanager
def signals_to_end() -> Iterator[threading.Event]:
    """Yield an event that the first of the `END_SIGNALS` sets."""
    ended = threading.Event()
    with at_end_signals(lambda _number, _frame: ended.set()):
        yield ended


def wait_for(ended: threading.Event) -> None:
    # On Windows, Ctrl-C does not interrupt a wait without a timeout.
    while not ended.wait(1.0):
        pass


def log_to_stderr(name: str, level: str) -> None:
    log = logging.getLogger(name)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(level.upper())
    log.propagate = False
