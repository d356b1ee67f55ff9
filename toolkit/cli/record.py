"""`toolkit record`: a recording as a command of its own, until a signal ends it."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from toolkit.connection import connect
from toolkit.secret import Secret

#: What asks it to end; a closed terminal (SIGHUP) too, where there is such a signal.
END_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


def run_recorder(
    things: Sequence[str],
    folder: Path,
    *,
    url: str,
    keys: Mapping[str, Secret],
    seconds: float,
    rows: int,
    announce: Callable[[str], object],
) -> None:
    """Record until the first signal to end, then write what has come.

    Parameters
    ----------
    things, folder, keys, seconds, rows
        As of ``tk.dweets.record``.
    url
        Of the gateway.
    announce
        Called with a line once everything is listened to, and with one at the end.

    Raises
    ------
    ToolkitError
        As ``tk.dweets.record``.
    """
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    before = {number: signal.signal(number, end) for number in END_SIGNALS}
    try:
        with connect(url) as tk:
            recording = tk.dweets.record(things, folder, key=keys, seconds=seconds, rows=rows)
            announce(f"recording {', '.join(things)} of {tk.base_url} to {folder}")
            # In pieces: on Windows a wait without end does not hear Ctrl-C.
            while not ended.wait(1.0):
                pass
            announce(f"{recording.stop():,} dweets recorded")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def log_to_stderr() -> None:
    """Write what a recording complains about to stderr: what is missing, refused or away."""
    log = logging.getLogger("toolkit.recording")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.propagate = False
